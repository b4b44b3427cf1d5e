"""mpsx.compile_shader: kernels whose threads cooperate within threadgroups and within SIMD groups of 32 lanes."""

import pytest
import torch

import mpsx

SOURCE = """
#include <metal_stdlib>
using namespace metal;
// One threadgroup per row; assumes SIMD groups of 32.
kernel void row_sum(device float* out, constant float* x, constant uint& n, uint row [[threadgroup_position_in_grid]],
                    uint t [[thread_position_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                    uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[32];
  float sum = 0;
  for (uint i = t; i < n; i += threads) sum += x[row * n + i];
  for (uint d = 16; d > 0; d /= 2) sum += simd_shuffle_xor(sum, d);
  if (lane == 0) partial[simd] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t == 0) {
    float total = 0;
    for (uint i = 0; i < threads / 32; ++i) total += partial[i];
    out[row] = total;
  }
}
kernel void reverse(device int* x, uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]],
                    uint n [[threads_per_threadgroup]]) {
  threadgroup int copy[1024];
  copy[t] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = copy[n - 1 - t];
}
kernel void sizes(device uint* out, uint2 i [[thread_position_in_grid]], uint2 grid [[threads_per_grid]],
                  uint2 n [[threads_per_threadgroup]], uint2 g [[threadgroup_position_in_grid]]) {
  out[i.y * grid.x + i.x] = 1000 * (10 * g.y + g.x) + 10 * n.y + n.x;
}
[[max_total_threads_per_threadgroup(1)]]
kernel void alone(device uint* out, uint2 i [[thread_position_in_grid]], uint2 grid [[threads_per_grid]],
                  uint t [[thread_index_in_threadgroup]], uint2 n [[threads_per_threadgroup]],
                  uint2 g [[threadgroup_position_in_grid]], uint2 groups [[threadgroups_per_grid]]) {
  out[i.y * grid.x + i.x] = 100000 * t + 10000 * n.x * n.y + 1000 * (groups.x - grid.x) + 10 * g.y + g.x;
}
// On an NVIDIA GPU, threads with 160 values in registers are too large for a threadgroup of 1024.
kernel void many_registers(device float* out, constant float* x, uint i [[thread_position_in_grid]],
                           uint n [[threads_per_grid]]) {
  float a[160];
#pragma unroll
  for (uint k = 0; k < 160; ++k) a[k] = x[(i + k) % n];
  for (uint step = 0; step < 3; ++step) {
#pragma unroll
    for (uint k = 0; k < 160; ++k) a[k] = a[k] + 2 * a[(k + 7) % 160];
  }
  float sum = 0;
#pragma unroll
  for (uint k = 0; k < 160; ++k) sum += a[k];
  out[i] = sum;
}
kernel void count(device atomic_uint* bins, constant int* x, uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&bins[x[i]], 1, memory_order_relaxed);
}
"""


@pytest.fixture(scope="module")
def lib():
    return mpsx.compile_shader(SOURCE)


@pytest.mark.parametrize("group", [64, 512, 1024])
def test_threads_with_many_registers(lib, group):
    n = 2048
    x = torch.randint(-8, 8, (n,)).float()
    out = torch.zeros(n, device="mpsx")
    if mpsx.driver()["name"] == "cuda":
        assert lib.many_registers.max_threads_per_threadgroup < 512
    lib.many_registers(out, x.to("mpsx"), threads=n, group_size=group)
    a = torch.stack([x.roll(-k) for k in range(160)])
    for _ in range(3):
        for k in range(160):
            a[k] += 2 * a[(k + 7) % 160]
    assert torch.equal(out.cpu(), a.sum(0))


@pytest.mark.parametrize("group", [32, 64, 256, 1024])
def test_reduction(lib, group):
    x = torch.randn(17, 1000)
    out = torch.empty(17, device="mpsx")
    lib.row_sum(out, x.to("mpsx"), 1000, threads=17 * group, group_size=group)
    torch.testing.assert_close(out.cpu(), x.sum(1), atol=1e-4, rtol=1e-5)


def test_last_threadgroup_is_smaller(lib):
    x = torch.arange(100, dtype=torch.int32)
    on_mpsx = x.to("mpsx")
    lib.reverse(on_mpsx, group_size=64, threads=100)
    assert torch.equal(on_mpsx.cpu(), torch.cat([x[:64].flip(0), x[64:].flip(0)]))


def test_positions_in_two_dimensions(lib):
    out = torch.zeros(5, 7, dtype=torch.int32, device="mpsx")
    lib.sizes(out, threads=(7, 5), group_size=(4, 3))
    expected = [[1000 * (10 * (y // 3) + x // 4) + 10 * (3 if y < 3 else 2) + (4 if x < 4 else 3) for x in range(7)]
                for y in range(5)]  # fmt: skip
    assert out.tolist() == expected


def test_threadgroups_of_one_thread(lib):
    out = torch.zeros(5, 7, dtype=torch.int32, device="mpsx")
    lib.alone(out, threads=(7, 5))
    assert out.tolist() == [[10000 + 10 * y + x for x in range(7)] for y in range(5)]
    with pytest.raises(ValueError, match="expected 1 to 1 threads, got 2"):
        lib.alone(out, threads=35, group_size=2)


def test_default_group_has_the_maximum_size(lib):
    x = torch.arange(2000, dtype=torch.int32)
    on_mpsx = x.to("mpsx")
    lib.reverse(on_mpsx)
    assert torch.equal(on_mpsx.cpu(), torch.cat([x[:1024].flip(0), x[1024:].flip(0)]))


def test_kernel_properties(lib):
    assert lib.reverse.static_thread_group_memory_length == 4096
    assert lib.row_sum.static_thread_group_memory_length == 128
    assert lib.row_sum.thread_execution_width == 32
    assert lib.row_sum.max_threads_per_threadgroup == 1024


def test_atomics(lib):
    x = torch.randint(0, 10, (100000,), dtype=torch.int32)
    bins = torch.zeros(10, dtype=torch.int32, device="mpsx")
    lib.count(bins, x.to("mpsx"), threads=x.numel())
    assert torch.equal(bins.cpu(), torch.bincount(x, minlength=10).int())
