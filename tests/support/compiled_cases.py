"""Compare torch.compile with eager mode on mpsx for OpInfo samples, edge values, and several layouts.

    python -m compiled_cases float32:exp,log1p int64:sign …     in tests/; prints one line per difference

Elementwise operators must agree bitwise, all others within the tolerances of torch.testing.assert_close.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from opinfo.common import CPU_ARGUMENTS, OPS, Arguments, comparable, forward_dtypes, on_device, op_id, samples, seed
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, OpInfo, UnaryUfuncInfo
from torch.utils._pytree import tree_leaves

SAMPLES = 3
# Elementwise operators whose OpInfos are not ufuncs.
ELEMENTWISE = {
    "addcdiv", "addcmul", "clamp", "lerp", "logit", "masked_fill", "nan_to_num", "polygamma", "where",
    *(f"nn.functional.{name}" for name in (
        "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish prelu relu relu6 selu "
        "silu softplus softshrink softsign tanhshrink threshold").split()),
}  # fmt: skip
# Conversions to integers. PyTorch does not define results for out-of-range floats: generated kernels saturate, and
# eager kernels on x86 return the smallest integer.
CONVERSIONS = {"byte", "char", "short", "int", "long"}
# Operators that are not compared, with reasons.
SKIPPED = {
    "nn.functional.linear_cross_entropy": "compiles for minutes",
}


@dataclass
class Case:
    """A call, and whether its compiled result must be bitwise equal to the eager result."""

    name: str
    function: Callable[..., Any]
    arguments: Arguments
    exact: bool


def elementwise(op: OpInfo) -> bool:
    """Return whether each element of the result depends on a single element of each argument."""
    return isinstance(op, UnaryUfuncInfo | BinaryUfuncInfo) or op.name in ELEMENTWISE


def edges(dtype: torch.dtype) -> torch.Tensor:
    """Return zeros, limits, subnormals, infinities, NaN, and numbers near the functions' branch points."""
    if dtype == torch.bool:
        return torch.tensor([False, True])
    if dtype.is_complex:
        parts = edges(torch.float32)
        return torch.complex(*torch.meshgrid(parts, parts, indexing="ij")).flatten()
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        numbers = [0, 1, 2, 3, 7, 31, 63, 100, info.max, info.min, info.max - 1] + [-1, -2, -7] * (info.min < 0)
        return torch.tensor([n for n in numbers if info.min <= n <= info.max], dtype=dtype)
    info = torch.finfo(dtype)
    sizes = [0.0, info.smallest_normal, info.smallest_normal / 4, info.eps, 1e-8, 1e-3, 0.1, 0.49, 0.5, 0.75, 1.0, 1.5,
             2.5, 3.0, 5.0, 10.0, 17.0, 20.0, 40.0, 88.0, 91.0, 104.0, 1e3, info.max, float("inf")]  # fmt: skip
    return torch.tensor([s * x for x in sizes for s in (1, -1)] + [float("nan")], dtype=torch.double).to(dtype)


def layouts(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield copies of a tensor in several layouts. The tensor needs at least one dimension."""
    yield x
    yield x.repeat_interleave(3, -1)[..., 1::3]
    if x.dim() > 1:
        yield x.t()


@functools.cache
def edge_tensors(dtype: torch.dtype) -> list[torch.Tensor]:
    """Return the edge values on mpsx in several layouts. All cases share these tensors, so that Inductor generates only
    a few kernels."""
    return [x.to("mpsx") for x in layouts(edges(dtype))]


@functools.cache
def edge_pairs(dtype: torch.dtype, kind: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return all pairs of edge values on mpsx in several layouts. Integer divisors are nonzero, because eager mode
    raises an error for 0. Integer exponents and degrees of polynomials are small."""
    a, b = (x.contiguous() for x in torch.meshgrid(edges(dtype), edges(dtype), indexing="ij"))
    if not (dtype.is_floating_point or dtype.is_complex):
        b = torch.where(b == 0, 1, b).to(dtype) if kind == "division" else b
        b = b.to(torch.int64).abs().clamp(max=5).to(dtype) if kind == "power" else b
    return [(x.to("mpsx"), y.to("mpsx")) for x, y in zip(layouts(a), layouts(b), strict=True)]


def edge_arguments(op: OpInfo, dtype: torch.dtype) -> Iterator[Arguments]:
    """Yield edge values, or all pairs of edge values, in several layouts."""
    if isinstance(op, UnaryUfuncInfo):
        kwargs = op.sample_kwargs("cpu", dtype, edges(dtype))[0]
        tensors = edge_tensors(dtype)
        if op.name in CONVERSIONS and dtype.is_floating_point:
            tensors = [x.nan_to_num().clamp(-100, 100) for x in tensors]
        yield from ((x, (), kwargs) for x in tensors)
    elif isinstance(op, BinaryUfuncInfo):
        division = "div" in op.name or "mod" in op.name or "remainder" in op.name
        kind = "division" if division else "power" if "pow" in op.name or "polynomial" in op.name else ""
        yield from ((x, (y,), {}) for x, y in edge_pairs(dtype, kind))
        if dtype.is_floating_point and op.supports_rhs_python_scalar:
            yield from ((edge_tensors(dtype)[0], (number,), {}) for number in (0.1, 2, 3))
    else:  # combine the edge values with the other arguments of each sample
        for sample in samples(op, dtype, None):
            if not any(isinstance(t, torch.Tensor) for t in tree_leaves((sample.args, sample.kwargs))):
                yield from ((x, sample.args, sample.kwargs) for x in edge_tensors(dtype)[:2])


def cases(op: OpInfo, dtype: torch.dtype, count: int = SAMPLES) -> Iterator[Case]:
    """Yield the first `count` samples of an OpInfo. For elementwise operators, also yield calls with edge values."""
    name, exact = f"{op_id(op)} {str(dtype)[6:]}", elementwise(op)
    for sample in samples(op, dtype, count):
        yield Case(name, op.op, on_device(op, sample), exact)
    for arguments in edge_arguments(op, dtype) if exact else ():
        yield Case(name, op.op, arguments, exact)


def eager(case: Case) -> Any:
    """Run a case in eager mode. Return None if it raises an error or returns no tensors."""
    first, args, kwargs = case.arguments
    try:
        seed(1)
        result = case.function(first, *args, **kwargs)
        torch.mpsx.synchronize()
    except Exception:
        return None
    leaves = tree_leaves(result)
    return result if leaves and all(isinstance(t, torch.Tensor) and not t.is_sparse for t in leaves) else None


def difference(found: Any, wanted: Any, exact: bool) -> str:
    """Describe how compiled results differ from eager results. Return "" if they agree."""
    messages = (tensor_difference(have.detach(), want.detach(), exact)
                for have, want in zip(tree_leaves(found), tree_leaves(wanted), strict=True))  # fmt: skip
    return next(filter(None, messages), "")


def tensor_difference(have: torch.Tensor, want: torch.Tensor, exact: bool) -> str:
    """Describe how a compiled tensor differs from an eager tensor. Return "" if they agree."""
    if have.dtype != want.dtype or have.shape != want.shape:
        return f"{have.dtype} {tuple(have.shape)}, expected {want.dtype} {tuple(want.shape)}"
    have, want = have.cpu(), want.cpu()
    if not exact:
        try:
            torch.testing.assert_close(have, want, equal_nan=True)
        except AssertionError as error:
            return " ".join(str(error).split())[:300]
        return ""
    if want.is_complex():
        have, want = torch.view_as_real(have), torch.view_as_real(want)
    same = have == want
    if want.dtype.is_floating_point:
        same = same & (have.signbit() == want.signbit()) | (have.isnan() & want.isnan())
    if same.all():
        return ""
    at = tuple(i.item() for i in (~same).nonzero()[0])
    return f"{int((~same).sum())} of {same.numel()} differ, at {at}: {have[at].item()}, eager {want[at].item()}"


def compiled(group: list[Case]) -> list[Any]:
    """Compile the cases into one graph, and run it."""
    functions = [case.function for case in group]

    def run(arguments: list) -> list:
        return [f(first, *args, **kwargs) for f, (first, args, kwargs) in zip(functions, arguments, strict=True)]

    torch._dynamo.reset()
    seed(1)
    return torch.compile(run, dynamic=False)([case.arguments for case in group])


def compare(group: list[Case]) -> Iterator[tuple[str, str]]:
    """Yield (name, difference) for each case that differs. If the graph of a group fails, split the group."""
    wanted = [eager(case) for case in group]
    group = [case for case, result in zip(group, wanted, strict=True) if result is not None]
    wanted = [result for result in wanted if result is not None]
    if not group:
        return
    try:
        results = compiled(group)
        torch.mpsx.synchronize()
    except Exception as error:
        if len(group) > 1:
            middle = len(group) // 2
            yield from compare(group[:middle])
            yield from compare(group[middle:])
        else:
            yield group[0].name, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return
    for case, result, want in zip(group, results, wanted, strict=True):
        if message := difference(result, want, case.exact):
            yield case.name, message


def selected(dtype: torch.dtype) -> list[OpInfo]:
    """Return the OpInfos to compare for a dtype."""
    return [op for op in OPS if dtype in forward_dtypes(op) and comparable(op, dtype) and op.name not in SKIPPED
            and op.name not in CPU_ARGUMENTS]  # fmt: skip


def main(*groups: str) -> None:
    """Compare groups of OpInfos, one graph per group, and print the differences. A group is "dtype:name,name,…"."""
    import mpsx

    mpsx.fallback.set_mode("silent")
    torch._inductor.config.fallback_random = True
    torch._inductor.config.emulate_precision_casts = True  # eager mode rounds the results of all operators
    for group in groups:
        dtype_name, _, names = group.partition(":")
        dtype, wanted = getattr(torch, dtype_name), set(names.split(","))
        found = [op for op in selected(dtype) if op_id(op) in wanted]
        if missing := wanted - {op_id(op) for op in found}:
            raise ValueError(f"no OpInfos for {dtype}: {sorted(missing)}")
        for name, message in compare([case for op in found for case in cases(op, dtype)]):
            print(f"{name}: {message}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
