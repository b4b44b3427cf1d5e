"""Matmuls on the tensor tier. With MPSX_TIER=tensor and one core, the tile depends only on the shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from tables import FLOAT, TAGS

from kernel_cases import Case, case, values
from kernel_cases.matmul import dequantized, int4_matmul

NAME, CLUSTERS = "tensor tier", "tensor tier, clusters"
TILES = [(256, 192), (192, 256), (128, 256), (128, 192), (128, 128), (64, 128), (64, 64)]
ANY_TYPE = [(128, 128), (64, 64)]  # tiles for TF32 and for fused activations, in every type
FLOAT_TILES = [(128, 128), (128, 64), (64, 64)]
# Tiles for rows that do not start at multiples of 16 bytes.
UNALIGNED = {dtype: [(128, 128), (128, 64) if dtype == torch.float32 else (64, 128)] for dtype in FLOAT}
# On eight cores, for blocks of 2 x 2, 4 x 2, 2 x 4, and 1 x 2 tiles.
CLUSTER_SHAPES = [(264, 136, 72), (200, 200, 72), (104, 296, 72), (328, 360, 72)]
SEVERAL = [(128, 256), (128, 192), (128, 128)]  # one threadgroup computes several of these tiles, in 16 bits
TRANSPOSITIONS = [(False, False), (False, True), (True, False), (True, True)]


def relaxed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply with TF32 operands where PyTorch supports it."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        return a @ b
    finally:
        torch.set_float32_matmul_precision(before)


def relaxed_error(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """Return the error caused by rounding both operands to 11 bits, in float32 rounding errors."""
    return [(a.abs() @ b.abs()) * 2**-10 / 2**-24]


def rounded_weights_error(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> list[torch.Tensor]:
    """Return the error of rounding dequantized weights to the type of the result, in its rounding errors."""
    return [x.abs() @ dequantized(packed, scales).abs().t()]


def activated(use_gelu: bool) -> Callable[..., torch.Tensor]:
    """Return a function that multiplies matrices and then applies an activation."""
    return lambda c, a, b: torch._addmm_activation(c, a, b, use_gelu=use_gelu)


def operands(m: int, n: int, k: int, dtype: torch.dtype, transposed: tuple[bool, bool]) -> list[torch.Tensor]:
    """Return an M x K and a K x N matrix. `transposed` says which of them to store transposed."""
    shapes = ((m, k), (k, n))
    return [values(*(shape[::-1] if t else shape), dtype=dtype, low=-0.5, high=0.5, seed=i).t() if t
            else values(*shape, dtype=dtype, low=-0.5, high=0.5, seed=i)
            for i, (shape, t) in enumerate(zip(shapes, transposed, strict=True))]  # fmt: skip


def batch_of(x: torch.Tensor) -> torch.Tensor:
    """Return three different matrices with the layout of `x`."""
    factors = torch.tensor([1, -0.5, 2], dtype=x.dtype)[:, None, None]
    matrices = torch.stack([x.mT if x.stride(0) == 1 else x] * 3) * factors
    return matrices.mT if x.stride(0) == 1 else matrices


def cases() -> Iterator[Case]:
    for dtype in FLOAT:
        tag = TAGS[dtype]
        packed = values(72, 96, dtype=torch.uint8, high=255)
        scales = values(3, 72, 2, dtype=dtype, low=-0.1, high=0.1)
        x = values(70, 192, dtype=dtype, low=-0.5, high=0.5, seed=5)
        error = {} if dtype == torch.float32 else {"error": rounded_weights_error}
        yield case(f"{NAME}: _weight_int4pack_mm {tag}", int4_matmul, x, packed, scales, **error)
        for rows, group in ((1, 32), (3, 64), (9, 128)) if dtype != torch.float32 else ():
            packed, x = values(72, 192, dtype=torch.uint8, high=255), values(rows, 384, dtype=dtype, low=-0.5, high=0.5)
            scales = values(384 // group, 72, 2, dtype=dtype, low=-0.1, high=0.1)
            label = f"{NAME}: _weight_int4pack_mm of {rows} with groups of {group} {tag}"
            yield case(label, int4_matmul, x, packed, scales, **error)
        for m, n, k in CLUSTER_SHAPES if dtype != torch.float32 else ():
            for transposed in TRANSPOSITIONS:
                label = f"{CLUSTERS}: mm {m}x{n}x{k} {''.join('nt'[t] for t in transposed)} {tag}"
                yield case(label, torch.mm, *operands(m, n, k, dtype, transposed))
        for m, n in TILES if dtype != torch.float32 else FLOAT_TILES:
            for transposed in TRANSPOSITIONS:
                label = f"{m}x{n} {''.join('nt'[t] for t in transposed)} {tag}"
                a, b = operands(m, n, 24, dtype, transposed)
                yield case(f"{NAME}: mm {label}", torch.mm, a, b)
                if (m, n) in UNALIGNED[dtype]:
                    unaligned = operands(m - 3, n - 3, 25, dtype, transposed)
                    yield case(f"{NAME}: unaligned mm {label}", torch.mm, *unaligned)
                if (m, n) in SEVERAL and dtype != torch.float32:  # at most two tiles run at the same time
                    a3, b3 = batch_of(a), batch_of(b)
                    yield case(f"{NAME}: bmm {label}", torch.bmm, a3, b3)
                    yield case(f"{NAME}: bmm and a row {label}", torch.baddbmm, values(n, dtype=dtype, seed=2), a3, b3)
                if dtype == torch.float32 and (m, n) in ANY_TYPE:
                    yield case(f"{NAME}: relaxed mm {label}", relaxed, a, b, error=relaxed_error)
                if (m, n) in ANY_TYPE and not transposed[0]:
                    c = values(n, dtype=dtype, seed=2)
                    yield case(f"{NAME}: GELU {label}", activated(True), c, a, b)
