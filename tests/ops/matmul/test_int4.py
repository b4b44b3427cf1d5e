"""Compare matmuls that use 4-bit weights with float64 matmuls of the dequantized weights."""

from __future__ import annotations

import pytest
import torch
from accuracy import assert_as_accurate
from tables import FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


def quantized(columns: int, k: int, group: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return packed weights (two per byte), scales and zeros, and the dequantized weights in float64."""
    generator = torch.Generator().manual_seed(columns + k + group)
    weight = torch.randint(0, 16, (columns, k), generator=generator)
    scales = torch.rand(k // group, columns, 2, generator=generator).sub(0.3).to(dtype)
    packed = (weight[:, ::2] << 4 | weight[:, 1::2]).to(torch.uint8)
    scale, zero = (s.double().t().repeat_interleave(group, 1) for s in scales.unbind(-1))
    return packed, scales, (weight - 8).double() * scale + zero


@pytest.mark.parametrize("group", [32, 64, 128, 256])
@pytest.mark.parametrize("dtype", FLOAT)
def test_values(dtype: torch.dtype, group: int) -> None:
    for rows, columns, k, tiles in ((1, 8, 256, 2), (3, 40, 512, 4), (9, 264, 256, 8), (70, 72, 768, 8)):
        packed, scales, exact = quantized(columns, k, group, dtype)
        x = torch.randn(rows, k, generator=torch.Generator().manual_seed(rows)).to(dtype)
        weight = torch._convert_weight_to_int4pack(packed.to("mpsx"), tiles)
        assert weight.dtype == torch.int32
        assert weight.shape == (columns // 8, k // (16 * tiles), 32, tiles // 2)
        with mpsx.profiler.launch_log() as log:
            result = torch._weight_int4pack_mm(x.to("mpsx"), weight, group, scales.to("mpsx"))
        if not log[0].startswith(("kernel:dequantize", "kernel:gemv_int4_tensor")):  # not the tensor tier
            assert log == [f"kernel:{'gemv' if rows <= 4 else 'matmul'}_int4_{TAGS[dtype]}"]
        cpu = torch.mm(x, exact.t().to(dtype))
        assert_as_accurate(result, cpu, torch.mm(x.double(), exact.t()))
        column_major = x.t().contiguous().t()
        assert torch.equal(torch._weight_int4pack_mm(column_major.to("mpsx"), weight, group, scales.to("mpsx")), result)
        x_unaligned = torch.empty(x.numel() + 1, dtype=dtype, device="mpsx")[1:].view(x.shape).copy_(x)
        storage = torch.empty(weight.numel() + 1, dtype=torch.int32, device="mpsx")
        unaligned = storage[1:].view(weight.shape).copy_(weight)
        assert torch.equal(torch._weight_int4pack_mm(x_unaligned, unaligned, group, scales.to("mpsx")), result)


def test_against_the_cpu_operator() -> None:
    """Compare with PyTorch's CPU operator, which packs the nibbles of the same weights in a different order."""
    packed, scales, _ = quantized(64, 128, 32, torch.float32)
    unpacked = torch.stack([packed >> 4, packed & 15], -1).view(64, 128).int()
    x = torch.randn(7, 128)
    weight = torch._convert_weight_to_int4pack_for_cpu(unpacked, 2)
    expected = torch._weight_int4pack_mm_for_cpu(x, weight, 32, scales)
    on_mpsx = torch._convert_weight_to_int4pack(packed.to("mpsx"), 2)
    result = torch._weight_int4pack_mm(x.to("mpsx"), on_mpsx, 32, scales.to("mpsx"))
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)  # the CPU rounds more often


def test_errors() -> None:
    packed, scales, _ = quantized(16, 64, 32, torch.float32)
    device = packed.to("mpsx")
    with pytest.raises(RuntimeError, match="expected a weight of uint8"):
        torch._convert_weight_to_int4pack(device.int(), 2)
    with pytest.raises(RuntimeError, match="innerKTiles of 2, 4 or 8"):
        torch._convert_weight_to_int4pack(device, 3)
    with pytest.raises(RuntimeError, match="multiple of 8 rows"):
        torch._convert_weight_to_int4pack(device[:5], 2)
    weight, x = torch._convert_weight_to_int4pack(device, 2), torch.ones(2, 64, device="mpsx")
    with pytest.raises(RuntimeError, match="groups of 32"):
        torch._weight_int4pack_mm(x, weight, 16, scales.to("mpsx"))
    with pytest.raises(RuntimeError, match="K columns"):
        torch._weight_int4pack_mm(x[:, :32], weight, 32, scales.to("mpsx"))
    with pytest.raises(RuntimeError, match="expected scales and zeros"):
        torch._weight_int4pack_mm(x, weight, 64, scales.to("mpsx"))
