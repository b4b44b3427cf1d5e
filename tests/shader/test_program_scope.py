"""Kernels that read positions declared at program scope (MSL specification 3.1)."""

from __future__ import annotations

import pytest
import torch

import mpsx

SOURCE = """
#include <metal_stdlib>
using namespace metal;
uint2 at [[thread_position_in_grid]];
uint lane [[thread_index_in_simdgroup]], simdgroup
  [[simdgroup_index_in_threadgroup]];
[[threads_per_grid]] uint2 size;
struct Point {
  uint at;
  uint get() const { return at; }
};
inline uint twice(uint at) { return at * 2; }
inline uint last(uint n) {
  uint first = 0, at = n;
  return at - 1 + first;
}
kernel void several(device uint* out [[buffer(0)]]) {
  Point point = {at.x};
  out[at.y * size.x + at.x] = lane + 100 * simdgroup + 1000 * twice(point.get());
}
kernel void parameter(device uint* out [[buffer(0)]], uint at [[thread_position_in_grid]]) { out[at] = last(at + 2); }
kernel void local(device uint* out [[buffer(0)]]) {
  uint before = 1, size = 2;
  out[size] = before + 6;
}
kernel void hidden(device uint* out [[buffer(0)]]) {
  const uint i = at.x;
  auto plus = [&](uint at) { return at + i; };
  for (uint at = 0; at < 2; ++at) out[i] = plus(at);
}
kernel void no_parameters(void) { if (at.x > 100) return; }
template <typename T> kernel void of_type(device T* out) { out[at.x] = T(at.x); }
template [[host_name("of_float")]] kernel void of_type<float>(device float*);
template [[host_name("of_half")]] kernel decltype(of_type<half>) of_type<half>;
"""
PREFIX = "#include <metal_stdlib>\n[[thread_position_in_grid]] metal::uint i;\n"


def test_kernels() -> None:
    lib = mpsx.compile_shader(SOURCE)
    out = torch.zeros(64, 2, dtype=torch.int32).to("mpsx")
    lib.several(out, threads=(2, 64), group_size=(2, 32))
    thread = torch.arange(128, dtype=torch.int32).view(64, 2) % 64
    expected = thread % 32 + thread // 32 * 100 + torch.tensor([0, 2000], dtype=torch.int32)
    assert torch.equal(out.cpu(), expected)
    for name, dtype, expected in (("parameter", torch.int32, [1, 2, 3]), ("hidden", torch.int32, [1, 2, 3]),
                                  ("of_float", torch.float32, [0, 1, 2]),
                                  ("of_half", torch.float16, [0, 1, 2])):  # fmt: skip
        out = torch.zeros(3, dtype=dtype).to("mpsx")
        getattr(lib, name)(out)
        assert out.cpu().tolist() == expected, name
    out = torch.zeros(3, dtype=torch.int32).to("mpsx")
    lib.local(out, threads=1)
    assert out.cpu().tolist() == [0, 0, 7]


def test_attribute_before_the_type() -> None:
    out = torch.zeros(4, dtype=torch.int32).to("mpsx")
    mpsx.compile_shader(PREFIX + "kernel void k(device int* out) { out[i] = i; }").k(out)
    assert out.cpu().tolist() == [0, 1, 2, 3]


def test_functions_cannot_read_positions() -> None:
    source = SOURCE + "inline uint row() {\n  return at.y;\n}\nkernel void k(device uint* out) { out[0] = row(); }\n"
    line = SOURCE.count("\n") + 2
    with pytest.raises(SyntaxError, match=f"program_source:{line}:.*only_kernels_can_read_at"):
        mpsx.compile_shader(source)


def test_errors_after_a_declaration_have_the_right_line() -> None:
    with pytest.raises(SyntaxError, match=f"program_source:{SOURCE.count(chr(10)) + 1}:.*undeclared"):
        mpsx.compile_shader(SOURCE + "kernel void k(device int* out) { out[at.x] = undeclared; }")
