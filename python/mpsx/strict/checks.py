"""Kernels that run before mpsx's own. They reject calls that MPS rejects, and pass on all other calls unchanged."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Sequence

import torch

from . import lists, report

__tracebackhide__ = True

FLOAT64 = ("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
           "Please use float32 instead.")  # fmt: skip
UNSUPPORTED = "Trying to convert {} to the MPS backend but it does not have support for that dtype."
NOT_IMPLEMENTED = (
    "The operator '{}' is not currently implemented for the MPS device. If you want this op to be considered for "
    "addition please comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that resulted "
    "in missing op as well as commit hash {}. As a temporary fix, you can set the environment variable "
    "`PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a fallback for this op. WARNING: this will be slower than "
    "running natively on MPS."
)
ON_CPU = ("The operator '{}' is not currently supported on the MPS backend and will fall back to run on the CPU. This "
          "may have performance implications.")  # fmt: skip
TOO_MANY_DIMENSIONS = "MPS supports tensors with dimensions <= 16, but got {}."
NOT_DIVISIBLE = (
    "Adaptive pool MPS: input sizes must be divisible by output sizes. Non-divisible input sizes are not implemented "
    "on MPS device yet. For now, you can manually transfer tensor to cpu in this case. Please refer to [this issue]"
    "(https://github.com/pytorch/pytorch/issues/96056)"
)
# Dtypes that no MPS tensor can have, with the names that PyTorch's messages use.
NO_TENSOR = {
    torch.float64: "Double", torch.complex128: "ComplexDouble", torch.float8_e4m3fn: "Float8_e4m3fn",
    torch.float8_e5m2: "Float8_e5m2", torch.float8_e4m3fnuz: "Float8_e4m3fnuz",
    torch.float8_e5m2fnuz: "Float8_e5m2fnuz", torch.float8_e8m0fnu: "Float8_e8m0fnu",
}  # fmt: skip

Check = Callable[[tuple[object, ...], dict[str, object]], None]

mode = "error"  # "error" or "report"
_warned: set[str] = set()
# `busy` is set while mpsx runs an operator, which may call operators that MPS implements in a single kernel. `float64`
# is set while an operator in WITH_FLOAT64 runs.
local = threading.local()


def _refuse(kind: str, what: str, error: Exception) -> None:
    if mode == "report":
        report.add(kind, what)
    else:
        raise error


def _run_on_cpu(name: str) -> None:
    if mode == "report":
        report.add("fallback", name)
    elif name not in _warned:
        _warned.add(name)
        warnings.warn(ON_CPU.format(name), stacklevel=4)  # the caller of the checked operator


def check_missing(name: str) -> Check:
    """Reject an operator, or warn about it if PYTORCH_ENABLE_MPS_FALLBACK is set."""

    def check(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK", "0") not in ("", "0"):
            _run_on_cpu(lists.shown_name(name))
        else:
            shown = lists.shown_name(name)
            message = NOT_IMPLEMENTED.format(shown, torch.version.git_version)
            _refuse("operator", shown, NotImplementedError(message))

    return check


def check_on_cpu(name: str) -> Check:
    """Warn about an operator that MPS always runs on the CPU."""
    return lambda args, kwargs: _run_on_cpu(name)


def check_new_dtype(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Reject a `dtype` argument that MPS tensors do not support."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.dtype) and value in NO_TENSOR and not getattr(local, "float64", False):
            message = FLOAT64 if value == torch.float64 else UNSUPPORTED.format(NO_TENSOR[value])
            _refuse("tensor", str(value).removeprefix("torch."), TypeError(message))


def check_dimensions(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Reject a new tensor with more than 16 dimensions."""
    dimensions = len(args[0])
    if dimensions > 16:
        _refuse("tensor", f"{dimensions} dimensions", RuntimeError(TOO_MANY_DIMENSIONS.format(dimensions)))


def check_dtypes(name: str, rejected: frozenset[torch.dtype]) -> Check:
    """Reject calls whose first tensor has one of these dtypes."""

    def check(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        first = _first_tensor((*args, *kwargs.values()))
        if first is not None and first.dtype in rejected:
            dtype = str(first.dtype).removeprefix("torch.")
            message = f"'{name}' is not implemented for {dtype} on the MPS device"
            _refuse("dtype", f"{name} with {dtype}", RuntimeError(message))

    return check


def _first_tensor(values: Sequence[object]) -> torch.Tensor | None:
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_mpsx:
            return value
        if isinstance(value, (list, tuple)):
            found = _first_tensor(value)
            if found is not None:
                return found
    return None


def check_pool_sizes(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Reject adaptive average pooling unless each input size is a multiple of the output size or vice versa."""
    image, output = args[0], list(args[1])
    sizes = list(zip(image.shape[-len(output):], output, strict=True))
    if any(0 in pair for pair in sizes):
        return
    shrinks = all(i >= o for i, o in sizes)
    if any((i % o if shrinks else o % i) for i, o in sizes):
        _refuse("operator", "adaptive_avg_pool2d with sizes that do not divide", RuntimeError(NOT_DIVISIBLE))


def check_singular_values(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Reject svdvals. MPS runs torch.linalg.svd on the CPU, but it rejects the operator that computes only the singular
    values."""
    compute_vectors = kwargs.get("compute_uv", args[2] if len(args) > 2 else True)
    if compute_vectors:
        _run_on_cpu("aten::linalg_svd")
    else:
        check_missing("aten::_linalg_svd.U")(args, kwargs)


def check_transposed_convolution(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Reject transposed convolutions with dtypes that MPS does not support."""
    image, transposed = args[0], args[6]
    lacking = {4: (torch.bfloat16,), 5: (torch.bfloat16, torch.float16)}.get(image.dim(), ())
    if transposed and image.dtype in lacking:
        name, dtype = f"conv_transpose{image.dim() - 2}d", str(image.dtype).removeprefix("torch.")
        _refuse("dtype", f"{name} with {dtype}",
                RuntimeError(f"'{name}' is not implemented for {dtype} on the MPS device"))  # fmt: skip


RULES: dict[str, tuple[Check, ...]] = {
    "empty.memory_format": (check_dimensions,),
    "empty_strided": (check_dimensions,),
    "_adaptive_avg_pool2d": (check_pool_sizes,),
    "_linalg_svd": (check_singular_values,),
    "convolution": (check_transposed_convolution,),
    "embedding_renorm_": (check_on_cpu("aten::embedding_renorm_"),),
}


# On other devices, PyTorch decomposes these operators, but MPS has its own kernels for them. Check them above autograd.
COMPOSED = ("linear", "max_pool1d")
# These operators create a float64 tensor on every device except MPS.
WITH_FLOAT64 = ("_batch_norm_impl_index", "linalg_matrix_rank.atol_rtol_float", "linalg_matrix_rank.atol_rtol_tensor",
                "linalg_pinv.atol_rtol_float", "linalg_pinv.atol_rtol_tensor")  # fmt: skip
AUTOGRAD = "AutogradPrivateUse1"


def all_checks(key: str) -> dict[str, list[Check]]:
    """Return the checks for one of mpsx's dispatch keys, by operator."""
    found: dict[str, list[Check]] = {}
    if key in ("PrivateUse1", AUTOGRAD):
        found = {f"aten::{name}": [] for name in WITH_FLOAT64}
        for name, rejected in lists.rejected_dtypes().items():
            if rejected is not None and (name in COMPOSED or key != AUTOGRAD):
                found[f"aten::{name}"] = [check_dtypes(name, rejected)]
    if key == AUTOGRAD:
        return found
    if key == "PrivateUse1":
        for name, rules in RULES.items():
            found.setdefault(f"aten::{name}", []).extend(rules)
    ruled = {f"aten::{name}" for name in RULES}
    for name in lists.missing(key):
        if name not in ruled:
            found.setdefault(name, []).append(check_missing(name))
    if key == "PrivateUse1":
        for name in lists.operators_with_dtype():
            found.setdefault(name, []).insert(0, check_new_dtype)
    return found
