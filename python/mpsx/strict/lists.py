"""Lists of the operators that PyTorch 2.13's MPS backend implements, and of dtypes that some of them do not support."""

from __future__ import annotations

import functools
from pathlib import Path

import torch

VERSION = "2.13"  # the PyTorch release that the lists describe
FOLDER = Path(__file__).parent
# Operators that pass PyTorch's tests on MPS, although the library has no symbol for them.
IMPLEMENTED_TOO = ("linalg_lu_solve", "linalg_lu_solve.out", "narrow_copy")
# mpsx's dispatch key -> the dispatch keys of MPS and of the CPU. MPS has no kernels for compressed sparse tensors.
LAYOUTS = {"PrivateUse1": ("MPS", "CPU"), "SparsePrivateUse1": ("SparseMPS", "SparseCPU"),
           "SparseCsrPrivateUse1": ("SparseCsrMPS", "SparseCsrCPU")}  # fmt: skip
COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
_THROUGH_OUT = "CompositeExplicitAutogradNonFunctional"
_has = torch._C._dispatch_has_kernel_for_dispatch_key


@functools.cache
def implemented(key: str) -> frozenset[str]:
    """Return the operators with a kernel for MPS or SparseMPS, as name.overload."""
    found, section = set(), ""
    for line in (FOLDER / "mps_operators.txt").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif section == key:
            name, *overloads = line.split()
            found |= {name if overload == "." else f"{name}.{overload}" for overload in overloads}
    return frozenset({*found, *IMPLEMENTED_TOO})


@functools.cache
def rejected_dtypes() -> dict[str, frozenset[torch.dtype] | None]:
    """Return the dtypes that each operator does not support on MPS. None means all dtypes."""
    found: dict[str, frozenset[torch.dtype] | None] = {}
    existing = set(torch._C._dispatch_get_all_op_names())  # PyTorch 2.14 has no cholesky
    for line in (FOLDER / "mps_dtypes.tsv").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, dtypes = line.split("\t")
        if f"aten::{name}" in existing:
            found[name] = None if dtypes == "all" else frozenset(getattr(torch, dtype) for dtype in dtypes.split())
    return found


def is_composite(name: str) -> bool:
    """Return whether PyTorch decomposes an operator into other operators on every device."""
    return any(_has(name, key) for key in COMPOSITE)


@functools.cache
def missing(key: str) -> list[str]:
    """Return the aten operators that have no kernel for MPS and that PyTorch does not decompose.

    `key` is the mpsx dispatch key of a layout.
    """
    mps, cpu = LAYOUTS[key]
    known = implemented(mps)
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")
             and (_has(name, cpu) or _has(name, key) or _has(name, _THROUGH_OUT))]  # fmt: skip
    names = [name for name in names if name.removeprefix("aten::") not in known and not is_composite(name)]
    through_out = [name for name in names if _has(name, _THROUGH_OUT)]
    without = set(names).difference(through_out)
    rejected = [*without, *(name for name in through_out if shown_name(name) in without)]
    everywhere = {f"aten::{name}" for name, dtypes in rejected_dtypes().items() if dtypes is None}
    return sorted({*rejected, *(everywhere if key == "PrivateUse1" else ())})


def shown_name(name: str) -> str:
    """Return the operator name that MPS's error message shows. For a structured operator such as aten::heaviside, this
    is the name of the out= overload."""
    if not _has(name, _THROUGH_OUT):
        return name
    plain, _, overload = name.partition(".")
    inputs = [argument.name for argument in torch._C._get_schema(plain, overload).arguments]
    for schema in torch._C._jit_get_schemas_for_operator(plain.rstrip("_")):
        if [argument.name for argument in schema.arguments if not argument.is_out] == inputs and (
                len(schema.arguments) > len(inputs)):  # fmt: skip
            return f"{schema.name}.{schema.overload_name}"
    return name


@functools.cache
def operators_with_dtype() -> list[str]:
    """Return the aten operators that create a tensor and have an argument `dtype` for its dtype."""
    schemas = (schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::"))
    with_dtype = (schema for schema in schemas if any(argument.name == "dtype" for argument in schema.arguments))
    names = {f"{schema.name}.{schema.overload_name}".rstrip(".") for schema in with_dtype}
    return sorted(name for name in names.intersection(torch._C._dispatch_get_all_op_names())
                  if name.removeprefix("aten::") in implemented("MPS") or _has(name, "PrivateUse1"))  # fmt: skip
