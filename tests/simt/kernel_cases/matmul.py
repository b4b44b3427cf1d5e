"""Matmuls: tiled GEMM, split-K, GEMV, and quantized weights."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tables import FLOAT, INT, TAGS

from kernel_cases import Case, case, integers, values


def int8_matmul(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Call the operator on the device. On the CPU, compute its formula in float64."""
    if x.device.type != "cpu":
        return torch._weight_int8pack_mm(x, weight, scales)
    return (x @ weight.to(x.dtype).t()) * scales


def int_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Call the operator on the device. On the CPU, where it supports only a few sizes, compute its formula."""
    return torch._int_mm(a, b) if a.device.type != "cpu" else a.int() @ b.int()


def dequantized(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return 4-bit weights in the type of `scales`."""
    weight = torch.stack([packed >> 4, packed & 15], -1).flatten(1).to(scales.dtype) - 8
    factor, zero = (s.t().repeat_interleave(weight.shape[1] // len(scales), 1) for s in scales.unbind(-1))
    return weight * factor + zero


def int4_matmul(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Call the operator with packed 4-bit weights. On the CPU, compute its formula in float64."""
    if x.device.type != "cpu":
        group = x.shape[1] // len(scales)
        return torch._weight_int4pack_mm(x, torch._convert_weight_to_int4pack(packed, 2), group, scales)
    return x @ dequantized(packed, scales).t()


def cases() -> Iterator[Case]:
    for dtype in FLOAT:
        tag = TAGS[dtype]
        # Use several tiles along M and N, some of them partial.
        a, b = (values(*shape, dtype=dtype, low=-0.5, high=0.5, seed=shape[0]) for shape in ((70, 150), (150, 80)))
        c = values(80, dtype=dtype, seed=2)
        yield case(f"addmm {tag}", torch.addmm, c, a, b)
        a, b = (values(*shape, dtype=dtype, low=-0.5, high=0.5, seed=shape[0]) for shape in ((256, 20), (20, 264)))
        yield case(f"mm with 128 x 128 tiles {tag}", torch.mm, a, b)
        yield case(f"mm with split-K {tag}", torch.mm, a.view(8, 640), b.flatten()[:5120].view(640, 8)[:, :7])
        a, b = (values(*shape, dtype=dtype, low=-0.5, high=0.5, seed=shape[0]) for shape in ((70, 150), (150, 80)))
        yield case(f"addr {tag}", lambda x, m: torch.addr(x, m[0], x, beta=0.5, alpha=2), c, a)
        yield case(f"addr strided {tag}", lambda x, m: torch.addr(m[:70, :40].t(), x[::2], m[:70, 1]), c, a)
        yield case(f"gemv {tag}", torch.mv, a, b[:, 0].contiguous())
        yield case(f"gemv_t {tag}", torch.mv, a.t(), values(70, dtype=dtype, seed=3))
        scales = values(48, dtype=dtype, low=0, high=0.01)
        weight = values(48, 100, dtype=torch.int8, low=-128, high=127)
        for rows in (1, 70):
            yield case(f"_weight_int8pack_mm of {rows} {tag}", int8_matmul, a[:rows, :100], weight, scales)
            yield case(f"_weight_int8pack_mm of {rows} {tag} in vectors", int8_matmul, a[:rows, :96].contiguous(),
                       weight[:, :96].contiguous(), scales)
        packed = values(72, 96, dtype=torch.uint8, high=255)
        scales = values(3, 72, 2, dtype=dtype, low=-0.1, high=0.1)
        for rows in (2, 70):
            x = values(rows, 192, dtype=dtype, low=-0.5, high=0.5, seed=5)
            yield case(f"_weight_int4pack_mm of {rows} {tag}", int4_matmul, x, packed, scales)
    for dtype in INT:
        a, b = integers(5, 70, dtype=dtype), integers(70, 300, dtype=dtype, seed=1)
        yield case(f"gemv_t mm {TAGS[dtype]}", torch.mm, a, b, reference="same")
        yield case(f"gemv mm {TAGS[dtype]}", torch.mm, b.t(), a.t(), reference="same")
    a, b = values(20, 70, dtype=torch.int8, low=-128), values(70, 24, dtype=torch.int8, high=127)
    yield case("_int_gemv_t mm", int_matmul, a, b, reference="same")
    yield case("_int_gemv mm", int_matmul, a, b.t().contiguous().t(), reference="same")
