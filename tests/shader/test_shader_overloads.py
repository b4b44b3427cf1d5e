"""Math functions of half and bfloat have the same result types as Metal's overloads.

The AIR that Apple's compiler emits for PyTorch's kernels shows these types: `exp(bfloat)` is air.exp.f32, `exp(half)`
is air.exp.f16, and `precise::exp(half)` is air.exp.f32.
"""

import pytest
import torch

import mpsx

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void results(device float* plain_bfloat, device float* plain_half, device float* precise_half,
                    device float* fast_half, device float* power, constant bfloat* b, constant half* h,
                    uint i [[thread_position_in_grid]]) {
  plain_bfloat[i] = sin(b[i]);
  plain_half[i] = sin(h[i]);
  precise_half[i] = precise::sin(h[i]);
  fast_half[i] = fast::sin(h[i]);
  power[i] = precise::pow(2, h[i]);
}
kernel void types(device uint* sizes) {
  sizes[0] = sizeof(fmax(bfloat(1), bfloat(2)));
  sizes[1] = sizeof(fma(bfloat(1), bfloat(2), bfloat(3)));
  sizes[2] = sizeof(fma(1.0h, 2.0h, 3.0h));
  sizes[3] = sizeof(precise::sqrt(half2(1)));
}
kernel void next(device half* y, constant half* x, constant half* to, uint i [[thread_position_in_grid]]) {
  y[i] = nextafter(x[i], to[i]);
}
inline float scaled(float x) { return x; }
inline float2 scaled(float2 x) { return 2 * x; }
kernel void user(device float* y, constant bfloat* b, constant half* h) {
  float2 v = float2(b[0]) + b[0] * float2(1, 2);
  v += b[0];
  y[0] = scaled(b[0]), y[1] = scaled(h[0]), y[2] = scaled(v).y, y[3] = bfloat2(b[0]).y;
}
"""
X = torch.linspace(-3, 3, 41)


@pytest.fixture(scope="module")
def lib():
    return mpsx.compile_shader(SOURCE)


def test_results(lib):
    b, h = X.bfloat16(), X.half()
    outs = [torch.zeros(len(X), device="mpsx") for _ in range(5)]
    lib.results(*outs, b.to("mpsx"), h.to("mpsx"))
    plain_bfloat, plain_half, precise_half, fast_half, power = (y.cpu() for y in outs)
    torch.testing.assert_close(plain_bfloat, b.float().sin(), rtol=1e-6, atol=1e-6)
    assert not torch.equal(plain_bfloat, plain_bfloat.bfloat16().float())
    assert torch.equal(plain_half, plain_half.half().float())
    torch.testing.assert_close(plain_half, h.float().sin(), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(precise_half, h.float().sin(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(fast_half, h.float().sin(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(power, h.float().exp2(), rtol=1e-6, atol=0)


@pytest.mark.skipif(mpsx.driver()["name"] == "metal", reason="Apple's library defines the vector overloads")
def test_types(lib):
    sizes = torch.zeros(4, dtype=torch.int32, device="mpsx")
    lib.types(sizes, threads=1)
    assert sizes.cpu().tolist() == [4, 4, 2, 4]


def test_overloads_for_scalars_and_vectors(lib):
    """Metal prefers the conversion of a scalar to another scalar to its conversion to a vector."""
    y, x = torch.zeros(4, device="mpsx"), torch.tensor([3.0])
    lib.user(y, x.bfloat16().to("mpsx"), x.half().to("mpsx"), threads=1)
    assert y.cpu().tolist() == [3, 3, 24, 3]


def test_nextafter_of_half(lib):
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, 6e-8, 65504.0, float("inf"), float("nan"), 2.0, 0.5]).half()
    x, to = (v.reshape(-1).contiguous() for v in torch.meshgrid(values, values, indexing="ij"))
    y = torch.zeros_like(x, device="mpsx")
    lib.next(y, x.to("mpsx"), to.to("mpsx"))
    bits = x.view(torch.int16).int() & 0x7FFF
    up = (x < to) == (x > 0)
    stepped = torch.where(up, bits + 1, bits - 1) | (x.view(torch.int16).int() & 0x8000)
    stepped = torch.where(x == 0, (to.view(torch.int16).int() & 0x8000) | 1, stepped)
    stepped = torch.where(x == to, to.view(torch.int16).int() & 0xFFFF, stepped).to(torch.int16)
    nan = x.isnan() | to.isnan()
    assert torch.equal(y.cpu().isnan(), nan)
    assert torch.equal(y.cpu()[~nan].view(torch.int16), stepped[~nan])
