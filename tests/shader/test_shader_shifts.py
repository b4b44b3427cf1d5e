"""Shift amounts are taken modulo the bit width, as in Metal."""

import pytest
import torch

import mpsx
from mpsx.msl.shifts import mask_shifts

SOURCE = """
#include <metal_stdlib>
using namespace metal;
template <typename T> kernel void left(device T* y, constant T* x, constant T* n, uint i [[thread_position_in_grid]]) {
  y[i] = x[i] << n[i];
}
template <typename T> kernel void right(device T* y, constant T* x, constant T* n, uint i [[thread_position_in_grid]]) {
  T z = x[i];
  z >>= n[i];
  y[i] = z;
}
#define INSTANTIATE(T)                                                      \\
  template [[host_name("left_" #T)]] kernel decltype(left<T>) left<T>;       \\
  template [[host_name("right_" #T)]] kernel decltype(right<T>) right<T>;
INSTANTIATE(int) INSTANTIATE(long) INSTANTIATE(short) INSTANTIATE(char)
kernel void vectors(device int4* y, constant int4* x, constant int4* n, uint i [[thread_position_in_grid]]) {
  y[i] = x[i] << n[i];
}
"""
TYPES = {"int": torch.int32, "long": torch.int64, "short": torch.int16, "char": torch.int8}


@pytest.fixture(scope="module")
def lib():
    return mpsx.compile_shader(SOURCE)


@pytest.mark.parametrize("name", TYPES)
def test_scalars(lib, name):
    """Small types are promoted to int, so the shift amounts are taken modulo 32."""
    dtype, bits = TYPES[name], 64 if name == "long" else 32
    n = torch.arange(-70, 120).to(dtype)
    x = torch.full_like(n, -77)
    y, z = torch.zeros_like(n, device="mpsx"), torch.zeros_like(n, device="mpsx")
    getattr(lib, f"left_{name}")(y, x.to("mpsx"), n.to("mpsx"))
    getattr(lib, f"right_{name}")(z, x.to("mpsx"), n.to("mpsx"))
    amount = n.long() % bits
    torch.testing.assert_close(y.cpu(), (x.long() << amount).to(dtype))
    torch.testing.assert_close(z.cpu(), (x.long() >> amount).to(dtype))


def test_vectors(lib):
    n = torch.arange(-64, 64, dtype=torch.int32)
    x, y = torch.full_like(n, 77), torch.zeros_like(n, device="mpsx")
    lib.vectors(y, x.to("mpsx"), n.to("mpsx"), threads=32)
    torch.testing.assert_close(y.cpu(), (x.long() << (n.long() % 32)).to(torch.int32))


def test_ir():
    text = "  %1 = shl i32 %a, %b, !dbg !5\n  %2 = lshr exact <2 x i64> %a, %b\n  %3 = ashr i32 %a, 5\n"
    assert mask_shifts(text) == (
        "  %mpsx.shift.1 = and i32 %b, 31, !dbg !5\n  %1 = shl i32 %a, %mpsx.shift.1, !dbg !5\n"
        "  %mpsx.shift.2 = and <2 x i64> %b, <i64 63, i64 63>\n  %2 = lshr exact <2 x i64> %a, %mpsx.shift.2\n"
        "  %3 = ashr i32 %a, 5\n"
    )
