// The styles of well-known libraries: generated code, tile classes with constants, function constants, and templates
// instantiated through a typedef of a function type.
#include <c10/metal/reduction_utils.h>
#include <c10/metal/utils.h>
#include <metal_simdgroup>
#include <metal_stdlib>
using namespace metal;

// Generated code with unindexed buffers, thread positions, and loops with constant bounds.
kernel void generated_kernel_0(device float* out_ptr0, constant half* in_ptr0, constant long& ks0,
                               uint2 thread_pos [[thread_position_in_grid]],
                               uint2 group_pos [[thread_position_in_threadgroup]]) {
  auto xindex = thread_pos.x;
  auto r0_index = thread_pos.y;
  int r0 = r0_index;
  threadgroup float tmp_acc_0[32];
  auto tmp0 = static_cast<float>(in_ptr0[r0 + 16 * xindex]);
  auto tmp1 = metal::select(tmp0, 0.0f, tmp0 < 0);
  auto tmp2 = c10::metal::threadgroup_sum(tmp_acc_0, tmp1, r0_index * 1, 16);
  if (r0_index == 0) out_ptr0[xindex] = static_cast<float>(tmp2 / ks0 + (xindex > 3 ? M_PI_F : HUGE_VALF));
}

// Tile classes
#define TILE_CONST static constant constexpr const
#define TILE_UNROLL _Pragma("clang loop unroll(full)")
#define instantiate_tile(name, f, ...) template [[host_name(name)]] [[kernel]] decltype(f<__VA_ARGS__>) f<__VA_ARGS__>;
template <typename T>
struct Identity {
  static METAL_FUNC T apply(T x) { return x; }
};
template <typename T, typename U, short R, short C>
struct Fragment {
  TILE_CONST short kRows = R;
  TILE_CONST short kSize = R * C;
  typedef vec<T, 2> frag_type;
  frag_type values[R * C];
  METAL_FUNC Fragment() thread {}
  METAL_FUNC constexpr void clear() {
    TILE_UNROLL
    for (short i = 0; i < kSize; ++i) values[i] = frag_type(0);
  }
  METAL_FUNC thread frag_type& at(short i, short j) { return values[i * C + j]; }
  METAL_FUNC const thread frag_type& at(short i, short j) const { return values[i * C + j]; }
  template <typename P>
  METAL_FUNC void load(P src, int stride) {
    for (short i = 0; i < R; ++i)
      for (short j = 0; j < C; ++j) at(i, j)[0] = static_cast<T>(src[i * stride + j]);
  }
  METAL_FUNC void store(device U* dst, const int stride) const {
    for (short i = 0; i < R; ++i) {
      thread const auto& row = at(i, 0);
      dst[i * stride] = static_cast<U>(row[0]);
    }
  }
};
template <typename T, int BM, int BN, int BK, bool transposed>
[[kernel, max_total_threads_per_threadgroup(BM * BN)]] void tile_gemm(
    const device T* A [[buffer(0)]], const device T* B [[buffer(1)]],
    device T* D [[buffer(3)]], const constant int3* shape [[buffer(4)]],
    uint simd_lane_id [[thread_index_in_simdgroup]], uint simd_group_id [[simdgroup_index_in_threadgroup]],
    uint3 tid [[threadgroup_position_in_grid]], uint3 lid [[thread_position_in_threadgroup]]) {
  (void)lid;
  constexpr short pad = 16 / sizeof(T);
  threadgroup T As[BM * (BK + pad)];
  threadgroup T Bs[transposed ? BN * (BK + pad) : BK * (BN + pad)];
  const int M = shape->x;
  A += size_t(tid.x) * M;
  As[simd_lane_id] = A[simd_lane_id];
  Bs[simd_group_id] = B[simd_group_id];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  Fragment<float, T, 2, 2> frag;
  frag.clear();
  frag.load(As, BK + pad);
  frag.load(A, M);
  frag.store(D + tid.y, 1);
}
instantiate_tile("tile_gemm_f16", tile_gemm, half, 8, 8, 16, false)
instantiate_tile("tile_gemm_bf16", tile_gemm, bfloat, 8, 8, 16, true)

// Instantiation through a typedef of a function type.
#define FC_BASE 100
constant bool FC_masked [[function_constant(FC_BASE + 0)]];
constant int FC_count [[function_constant(FC_BASE + 1)]];
struct block_q8 {
  half d;
  int8_t qs[32];
};
struct args_rows {
  int32_t ne00;
  uint64_t nb01;
};
static inline float dot_block(device const block_q8* block, thread const float* y, int il) {
  device const int8_t* qs = block->qs + il;
  float sum = 0.f;
#pragma unroll(4)
  for (int i = 0; i < 4; ++i) sum += qs[i] * y[i];
  return block->d * sum;
}
template <short n>
void rows_impl(args_rows args, device const char* src0, device char* dst, threadgroup char* shmem, uint3 tgpig,
               ushort tiisg) {
  const short count = n;
  float yl[8];
  float sums[n] = {0.f};
  for (short i = 0; i < 8; ++i) yl[i] = i;
  device const block_q8* x = (device const block_q8*)(src0 + tgpig.x * args.nb01);
  device float* out = (device float*)dst + tgpig.y;
  threadgroup float* shared = (threadgroup float*)shmem;
  threadgroup half4* wide = (threadgroup half4*)(shmem + 64);
  device const float4& first = *((device const float4*)src0);
  for (short r = 0; r < count; ++r) sums[r] += dot_block(x + r, yl, 4 * (tiisg % 8)) + first[0];
  const float total = simd_sum(sums[0]);
  if (tiisg == 0) {
    shared[0] = total;
    wide[0] = half4(0.h);
    out[0] = FC_masked ? total : total + FC_count;
  }
}
template <short n>
kernel void kernel_rows(constant args_rows& args, device const char* src0, device char* dst,
                        threadgroup char* shmem [[threadgroup(0)]], uint3 tgpig [[threadgroup_position_in_grid]],
                        ushort tiisg [[thread_index_in_simdgroup]]) {
  rows_impl<n>(args, src0, dst, shmem, tgpig, tiisg);
}
typedef decltype(kernel_rows<1>) kernel_rows_t;
template [[host_name("kernel_rows_2")]] kernel kernel_rows_t kernel_rows<2>;
template [[host_name("kernel_rows_4")]] kernel kernel_rows_t kernel_rows<4>;
kernel [[host_name("named_between")]] void attribute_between(device float* out [[buffer(0)]]) { out[0] = 1; }
