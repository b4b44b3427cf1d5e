"""matmul2d of several SIMD groups, with a cooperative left operand and a right operand in threadgroup memory.

mpsx's attention uses it on NVIDIA GPUs. Apple's matmul2d takes cooperative operands only in execution_simdgroup.
"""

import pytest
import torch

import mpsx

SOURCE = """
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

// c += a b. `scratch` shifts the memory that follows the kernel's variables by an odd number of floats.
template <typename T, int M, int N, int K, bool TRANSPOSE>
[[max_total_threads_per_threadgroup(M * 2)]]
kernel void multiply(device T* a, device T* b, device float* c, uint index [[thread_index_in_threadgroup]]) {
  threadgroup T tile[N * K];
  threadgroup float scratch[33];
  for (uint i = index; i < N * K; i += M * 2) tile[i] = b[i];
  if (index < 33) scratch[index] = float(index);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  constexpr auto descriptor = matmul2d_descriptor(M, N, K, false, TRANSPOSE, false,
                                                  matmul2d_descriptor::mode::multiply_accumulate);
  matmul2d<descriptor, execution_simdgroups<M / 16>, mpsx::more_cooperative_operands> operation;
  auto left = operation.template get_left_input_cooperative_tensor<T, T, float>();
  left.load(tensor(a, dextents<int, 2>(K, M), array<int, 2>{1, K}));
  auto right = tensor(tile, extents<int, TRANSPOSE ? K : N, TRANSPOSE ? N : K>(),
                      array<int, 2>{1, TRANSPOSE ? K : N});
  auto sum = operation.template get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
  auto result = tensor(c, dextents<int, 2>(N, M), array<int, 2>{1, N});
  sum.load(result);
  operation.run(left, right, sum);
  for (ushort i = 0; i < sum.get_capacity(); ++i) sum[i] += scratch[32] - 32.0f;
  sum.store(result);
}
"""
SHAPES = [(64, 64, 64), (128, 64, 64), (64, 32, 64), (64, 64, 128), (64, 128, 32), (128, 128, 48), (192, 64, 32)]
TYPES = {"half": torch.float16, "bfloat": torch.bfloat16}
LIBRARY = SOURCE + "".join(
    f'template [[host_name("{t}_{m}_{n}_{k}_{flag}")]] kernel '
    f"decltype(multiply<{t}, {m}, {n}, {k}, {flag}>) multiply<{t}, {m}, {n}, {k}, {flag}>;\n"
    for t in TYPES for m, n, k in SHAPES for flag in ("true", "false"))  # fmt: skip


@pytest.fixture(scope="module")
def lib():
    return mpsx.compile_shader(LIBRARY)


@pytest.mark.parametrize("transpose", ["true", "false"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("t", TYPES)
def test_values(lib, t, shape, transpose):
    m, n, k = shape
    generator = torch.Generator().manual_seed(m + n + k)
    a = torch.randn(m, k, generator=generator).to(TYPES[t])
    b = torch.randn((n, k) if transpose == "true" else (k, n), generator=generator).to(TYPES[t])
    start = torch.randn(m, n, generator=generator)
    c = start.to("mpsx")
    kernel = getattr(lib, f"{t}_{m}_{n}_{k}_{transpose}")
    kernel(a.to("mpsx"), b.to("mpsx"), c, threads=2 * m, group_size=2 * m)
    x, y = a.double(), (b.T if transpose == "true" else b).double()
    bound = (x.abs() @ y.abs() + start.abs()) * (k + 2) * 2.0**-24
    assert ((c.cpu() - (x @ y + start)).abs() <= bound).all()
