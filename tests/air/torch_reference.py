"""PyTorch's reductions, scans, matrix multiplications, normalization, and quantized matmuls. The macOS wheel contains
these kernels but not their sources, so their results are compared with PyTorch's operators on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch_launches import TYPES, integers, numbers


@dataclass(frozen=True)
class Case:
    """A launch, and the expected contents of some of the buffers, by index."""

    values: list
    threads: tuple
    group: tuple
    expected: dict[int, torch.Tensor]


def reduced(operator: str, x: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the operator's result on the CPU, in float64 where rounding depends on the order."""
    wide = x.double() if x.is_floating_point() else x
    if operator in ("sum", "nansum"):
        return getattr(wide, operator)(dim)
    if operator == "count_nonzero":
        return torch.count_nonzero(x, dim)
    return getattr(x, {"max": "amax", "min": "amin"}.get(operator, operator))(dim)


def reduction(found: re.Match, generator: torch.Generator) -> Case:
    """Reduce rows of 6x300 elements, or columns of 300x64 elements.

    If the number of columns is not a multiple of 32, some threads return before a barrier.
    """
    operator, kind, name, out = found.groups()
    special = operator not in ("sum", "nansum", "argmax", "argmin", "max", "min")
    rows, columns = (300, 64) if kind == "_outer" else (6, 300)
    x = numbers(name, rows * columns, generator, special).reshape(rows, columns)
    y = torch.zeros(columns if kind == "_outer" else rows, dtype=TYPES[out])
    expected = {1: reduced(operator, x, 0 if kind == "_outer" else 1)}
    divisor = [] if operator in ("max", "min", "any", "all", "argmax", "argmin") else [torch.ones(1)]
    if kind == "_outer":
        values = [x.flatten(), y, integers("I", rows, columns, 1, 0), *divisor]
        return Case(values, (64, 32, 1), (32, 32, 1), expected)
    if kind == "_inner":
        return Case([x.flatten(), y, integers("I", rows, columns), *divisor], (128 * 2, 1, 1), (128, 1, 1), expected)
    dims = [[rows, columns], [columns, 1], [rows, 1], [1, 1]]  # sizes and strides of the input and of the output
    params = torch.cat([torch.ones(1).view(torch.uint8), integers("I", columns, 2),
                        *(integers("I", *d, *([0] * 14)) for d in dims)])  # fmt: skip
    # With 32 SIMD groups, no lane of the first one has returned when it adds their results.
    return Case([x.flatten(), y, params], (1024 * rows, 1, 1), (1024, 1, 1), expected)


def scan(found: re.Match, generator: torch.Generator) -> Case:
    """Scan 3 rows of 700 elements, or the columns of 2 matrices of 90x40 elements."""
    operator, kind, name = found.groups()
    shape, dim = ((3, 700), 1) if kind == "innermost" else ((2, 90, 40), 1)
    count = torch.Size(shape).numel()
    x = numbers(name, count, generator).reshape(shape)
    if operator == "cumprod":
        x = torch.where(x > 0, torch.ones_like(x), -torch.ones_like(x)) if x.dtype != torch.bool else x
    exact = operator in ("cummax", "cummin")
    y = torch.zeros(count, dtype=x.dtype)
    result = getattr(torch, operator)(x.double() if x.is_floating_point() and not exact else x, dim)
    expected = {1: result[0], 2: result[1]} if exact else {1: result}
    values = [x.flatten(), y, *([torch.zeros(count, dtype=torch.int64)] if exact else [])]
    if kind == "innermost":
        return Case([*values, integers("q", 700)], (1024, 3, 1), (1024, 1, 1), expected)
    values += [integers("q", n) for n in (90, 40, 2)]
    threads = 512 if x.element_size() == 8 else 256
    return Case(values, (threads, 2 * 2, 1), (threads, 1, 1), expected)


def matmul(found: re.Match, generator: torch.Generator) -> Case:
    """Multiply a 40x50 matrix by a 50x24 matrix, or batches of 3 such matrices."""
    kind, name = found.groups()
    m, k, n, batch = 40, 50, 24, 3 if "b" in kind else 1
    a, b, y = (numbers(name, batch * count, generator) for count in (m * k, k * n, m * n))
    c = numbers(name, batch * m * n, generator)
    wide = [t.double() if t.is_floating_point() else t for t in (a, b, c)]
    result = torch.bmm(wide[0].reshape(batch, m, k), wide[1].reshape(batch, k, n))
    factor = torch.float32 if c.is_floating_point() else c.dtype if c.dtype == torch.int64 else torch.int32
    bias = [] if kind in ("matmul", "naive_bmm") else [c, torch.ones(2, dtype=factor)]
    if bias:
        result = result + wide[2].reshape(batch, m, n)
    if batch == 1:
        strides = integers("q", k, 1, n, 1, n, 1, *([n, 1] if bias else []))
        values = [a, b, y, *bias, strides, integers("I", m, k, n, 0)]
        return Case(values, (32, 48, 1), (16, 16, 1), {2: result})
    strides = integers("q", 1, k, m * k, 1, n, k * n, 1, n, m * n, *([1, n, m * n] if bias else []))
    return Case([a, b, y, *bias, strides, integers("I", m, k, n, batch)], (32, 48, batch), (16, 16, 1), {2: result})


def normalization(found: re.Match, generator: torch.Generator) -> Case:
    """Normalize 5 rows of 500 elements."""
    kind, looped, name = found.groups()
    x, y = (numbers(name, 2500, generator) for _ in range(2))
    weight, bias = (numbers(name, 500, generator) for _ in range(2))
    threads = 1024 if looped == "_looped" else 128
    rows, wide = x.double().reshape(5, 500), (weight.double(), bias.double())
    epsilon, axis = torch.tensor([1e-5]), integers("I", 500)
    if kind == "rms_norm":
        result = torch.nn.functional.rms_norm(rows, (500,), wide[0], 1e-5)
        return Case([x, weight, y, epsilon, axis, integers("I", 1)], (threads * 5, 1, 1), (threads, 1, 1), {2: result})
    result = torch.nn.functional.layer_norm(rows, (500,), *wide, 1e-5)
    values = [x, y, x[:5].clone(), x[:5].clone(), axis, epsilon, integers("i", 1), integers("i", 1), weight, bias]
    return Case(values, (threads * 5, 1, 1), (threads, 1, 1), {1: result})


def int8(found: re.Match, generator: torch.Generator) -> Case:
    """Multiply a 2x512 matrix by a 512x24 matrix of 8-bit weights."""
    m, k, n, name = 2, 512, 24, found[1]
    a, scales = (numbers(name, count, generator) for count in (m * k, n))
    weights = torch.randint(-128, 128, (n, k), generator=generator).to(torch.int8)
    result = a.double().reshape(m, k) @ weights.double().T * scales.double()
    values = [a, weights.flatten(), scales, torch.zeros(m * n, dtype=a.dtype), integers("I", m, k, n, 0)]
    return Case(values, (n // 8 * 64, m, 1), (64, 1, 1), {3: result})


def int4(found: re.Match, generator: torch.Generator) -> Case:
    """Multiply a 2x512 matrix by a 512x24 matrix of 4-bit weights."""
    m, k, n, size, name = 2, 512, 24, int(found[1]), found[2]
    a = numbers(name, m * k, generator)
    scales = numbers(name, k // size * n * 2, generator).reshape(k // size, n, 2)
    packed = torch.randint(0, 256, (n, k // 2), generator=generator).to(torch.uint8)
    nibbles = torch.stack([packed & 15, packed >> 4], 2).reshape(n, k).double() - 8
    scale, zero = (scales[..., i].double().repeat_interleave(size, 0).T for i in range(2))
    result = a.double().reshape(m, k) @ (nibbles * scale + zero).T
    values = [a, packed.flatten(), scales.flatten(), torch.zeros(m * n, dtype=a.dtype), integers("I", m, k, n, 0)]
    return Case(values, (n // 4 * 32, 1, m), (32, 1, 1), {3: result})


T = r"(float|half|bfloat|uchar|char|short|int|long|bool)"
F = "(float|half|bfloat)"
REDUCTIONS = "max|min|any|all|argmax|argmin|sum|nansum|count_nonzero"
PATTERNS: dict[str, dict[str, Callable]] = {
    "reduction": {rf"({REDUCTIONS})_reduction(_inner|_outer|)_{T}_{T}": reduction},
    "scan": {rf"(cumsum|cumprod|cummax|cummin|logcumsumexp)_(innermost|outer)_{T}": scan},
    "matmul": {rf"(matmul|addmm|naive_bmm|naive_baddbmm)_{T}": matmul},
    "normalization": {rf"(rms_norm|layer_norm)(_looped|_single_row|)_{F}": normalization},
    "quantized": {rf"int8pack_mv_{F}": int8, rf"int4pack_mm_(\d+)_{F}": int4},
}
RACY = "int8pack_mv"  # lacks a barrier between writing and reading scales, which simt reports


def case(family: str, kernel: str, seed: int) -> Case | None:
    """Return a launch of a kernel, or None if the kernel is not in the family."""
    for pattern, make in PATTERNS[family].items():
        if found := re.fullmatch(pattern, kernel):
            return make(found, torch.Generator().manual_seed(seed))
    return None


def difference(result: torch.Tensor, expected: torch.Tensor) -> str:
    """Describe how a result differs from the expected one. Return "" if it is as accurate as its type allows."""
    expected = expected.flatten()
    if not result.is_floating_point():
        wrong = int((result != expected.to(result.dtype)).sum())
        return f"{wrong} of {len(result)} elements" if wrong else ""
    result, step = result.double(), torch.finfo(result.dtype).eps
    scale = expected.abs().clamp(min=float(expected.abs().mean()))
    error = ((result - expected).abs() / scale).max() / step
    return f"{error:.3g} eps" if not error <= 64 else ""
