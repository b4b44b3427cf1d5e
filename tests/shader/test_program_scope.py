"""Kernels that read positions declared at program scope (MSL specification 3.1)."""

from __future__ import annotations

import pytest
import torch

import mpsx

SOURCE = """
#include <metal_stdlib>
using namespace metal;
uint2 at [[thread_position_in_grid]];
uint lane [[thread_index_in_simdgroup]], simdgroup [[simdgroup_index_in_threadgroup]];
[[threads_per_grid]] uint2 size;
struct Point { uint at; };
inline uint twice(uint at) { return at * 2; }
kernel void several(device uint* out [[buffer(0)]]) {
  Point point = {at.x};
  out[at.y * size.x + at.x] = lane + 100 * simdgroup + 1000 * twice(point.at);
}
kernel void parameter(device uint* out [[buffer(0)]], uint at [[thread_position_in_grid]]) { out[at] = at + 1; }
kernel void local(device uint* out [[buffer(0)]]) {
  uint at = 7;
  out[size.x - 1] = at;
}
kernel void no_parameters() { if (at.x > 100) return; }
template <typename T> kernel void of_type(device T* out) { out[at.x] = T(at.x); }
template [[host_name("of_float")]] kernel void of_type<float>(device float*);
template [[host_name("of_half")]] kernel decltype(of_type<half>) of_type<half>;
"""


def test_kernels() -> None:
    lib = mpsx.compile_shader(SOURCE)
    out = torch.zeros(64, 2, dtype=torch.int32).to("mpsx")
    lib.several(out, threads=(2, 64), group_size=(2, 32))
    thread = torch.arange(128, dtype=torch.int32).view(64, 2) % 64
    expected = thread % 32 + thread // 32 * 100 + torch.tensor([0, 2000], dtype=torch.int32)
    assert torch.equal(out.cpu(), expected)
    for name, dtype, expected in (("parameter", torch.int32, [1, 2, 3]), ("local", torch.int32, [0, 0, 7]),
                                  ("of_float", torch.float32, [0, 1, 2]), ("of_half", torch.float16, [0, 1, 2])):
        out = torch.zeros(3, dtype=dtype).to("mpsx")
        getattr(lib, name)(out)
        assert out.cpu().tolist() == expected, name


def test_functions_cannot_read_positions() -> None:
    source = SOURCE + "inline uint row() {\n  return at.y;\n}\nkernel void k(device uint* out) { out[0] = row(); }\n"
    with pytest.raises(SyntaxError, match="'row' reads 'at', a position at program scope: only kernels can read it"):
        mpsx.compile_shader(source)
