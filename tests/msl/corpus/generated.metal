// Code in the style of tools that generate Metal: shader cross-compilers, tensor compilers and tracing compilers.
#pragma clang diagnostic ignored "-Wmissing-prototypes"
#pragma clang diagnostic ignored "-Wmissing-braces"
#include <metal_stdlib>
#include <simd/simd.h>

using namespace metal;

// feature: SPIRV-Cross output: arrays wrapped in structs, operators overloaded by address space, specialization constants
template <typename T, size_t Num>
struct safeArray {
  T elements[Num ? Num : 1];

  thread T& operator[](size_t pos) thread { return elements[pos]; }
  constexpr const thread T& operator[](size_t pos) const thread { return elements[pos]; }
  device T& operator[](size_t pos) device { return elements[pos]; }
  constexpr const device T& operator[](size_t pos) const device { return elements[pos]; }
  constexpr const constant T& operator[](size_t pos) const constant { return elements[pos]; }
  threadgroup T& operator[](size_t pos) threadgroup { return elements[pos]; }
  constexpr const threadgroup T& operator[](size_t pos) const threadgroup { return elements[pos]; }
};

template <typename Tx, typename Ty>
inline Tx mod(Tx x, Ty y) {
  return x - y * floor(x / y);
}

struct _21 {
  float4 _m0[1];
};
struct _29 {
  uint _m0;
  packed_float3 _m1;
  float2x2 _m2;
  safeArray<float, 3> _m3;
};

constant uint _40_tmp [[function_constant(0)]];
constant uint _40 = is_function_constant_defined(_40_tmp) ? _40_tmp : 2u;
constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(_40, 1u, 1u);
constant safeArray<float2, 2> _55 = safeArray<float2, 2>({float2(0.5, 1.0), float2(2.0)});

static inline __attribute__((always_inline)) float4 _f(thread const float4& v, constant _29& _30,
                                                       thread uint3& gl_GlobalInvocationID) {
  return (v * _30._m3[2u]) + float4(float3(_30._m1), float(gl_GlobalInvocationID.x));
}

kernel void main0(const device _21& _22 [[buffer(0)]], constant _29& _30 [[buffer(2)]], device _21& _23 [[buffer(1)]],
                  uint3 gl_GlobalInvocationID [[thread_position_in_grid]],
                  uint gl_LocalInvocationIndex [[thread_index_in_threadgroup]],
                  uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]]) {
  threadgroup safeArray<float4, 64> _70;
  float4 _80 = _22._m0[gl_GlobalInvocationID.x];
  float4 param = _80;
  _70[gl_LocalInvocationIndex] = _f(param, _30, gl_GlobalInvocationID);
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup | mem_flags::mem_texture);
  if (gl_LocalInvocationID.x != 0u) {
    _70[gl_LocalInvocationIndex].xy = mod(_70[gl_LocalInvocationIndex].xy, float2(_55[1])) * _30._m2;
  } else {
    safeArray<float, 4> _90 = {{1.0, 2.0, 3.0, 4.0}};
    _90[3] = _55[0].y + float(gl_WorkGroupSize.x);
    safeArray<float, 4> _91 = _90;
    _70[gl_LocalInvocationIndex] += float4(_91[0], _91[1], _91[2], _91[3]);
  }
  _23._m0[gl_GlobalInvocationID.x] = _70[gl_LocalInvocationIndex];
}

// feature: WGSL compiler output: qualified names, out-of-bounds reads that return a default value, unsized arrays
struct DefaultConstructible {
  template <typename T>
  operator T() && {
    return T{};
  }
};
struct _mslBufferSizes {
  uint size0;
};
typedef uint type_1[1];
struct PrimeIndices {
  uint count;
  metal::atomic_uint found;
  type_1 data;
};
struct type_6 {
  metal::packed_float3 position;
  char _pad1[4];
  metal::packed_float3 velocity;
  int type_;
};
typedef type_6 type_7[1];
metal::int2 naga_div(metal::int2 lhs, metal::int2 rhs) {
  return lhs / metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
}
uint naga_mod(uint lhs, uint rhs) { return lhs % metal::select(rhs, 1u, rhs == 0u); }
uint collatz_iterations(uint n_base) {
  uint n = {};
  uint i = 0u;
  n = n_base;
  metal::uint2 loop_bound = metal::uint2(4294967295u);
  while (true) {
    if (metal::all(loop_bound == metal::uint2(0u))) { break; }
    loop_bound -= metal::uint2(loop_bound.y == 0u, 1u);
    uint _e4 = n;
    if (_e4 > 1u) {
    } else {
      break;
    }
    {
      uint _e7 = n;
      if (naga_mod(_e7, 2u) == 0u) {
        uint _e12 = n;
        n = _e12 / 2u;
      } else {
        uint _e16 = n;
        n = (3u * _e16) + 1u;
      }
      uint _e20 = i;
      i = _e20 + 1u;
    }
  }
  uint _e23 = i;
  return _e23;
}
struct main_Input {};
kernel void main_(metal::uint3 global_id [[thread_position_in_grid]],
                  device PrimeIndices& v_indices [[buffer(0)]], device type_7& particles [[buffer(1)]],
                  constant _mslBufferSizes& _buffer_sizes [[buffer(2)]]) {
  uint unnamed = uint(global_id.x) < 1 + (_buffer_sizes.size0 - 8 - 4) / 4 ? v_indices.data[global_id.x]
                                                                            : DefaultConstructible();
  uint _e9 = collatz_iterations(unnamed);
  v_indices.data[global_id.x] = _e9;
  uint _e11 = metal::atomic_fetch_add_explicit(&v_indices.found, _e9 > 5u ? 1u : 0u, metal::memory_order_relaxed);
  metal::float3 _e12 = particles[global_id.x].position;
  metal::float3 _e13 = metal::float3(particles[global_id.x].velocity);
  metal::int2 _e14 = naga_div(metal::int2(particles[global_id.x].type_, 7), metal::int2(0, 2));
  particles[global_id.x].position = metal::fma(_e13, metal::float3(2.0), _e12) + float(_e14.x * 10 + _e14.y);
  particles[global_id.x].velocity = _e13 * -1.0;
  particles[global_id.x].velocity[1] = as_type<float>(as_type<uint>(_e13.y) ^ 0x80000000u);
  return;
}

// feature: tensor compiler output: vector loads through pointer casts, WMMA with two elements per lane
float2 __WMMA_8_8_8_float_float(float2 a, float2 b, float2 c) {
  simdgroup_float8x8 mat_a, mat_b; simdgroup_float8x8 mat_c;
  mat_a.thread_elements()[0] = a[0]; mat_b.thread_elements()[0] = b[0]; mat_c.thread_elements()[0] = c[0];
  mat_a.thread_elements()[1] = a[1]; mat_b.thread_elements()[1] = b[1]; mat_c.thread_elements()[1] = c[1];
  simdgroup_multiply_accumulate(mat_c, mat_a, mat_b, mat_c);
  return float2(mat_c.thread_elements()[0], mat_c.thread_elements()[1]);
}
kernel void r_2_16_4_8(device float* data0_128, const device float* data1_512, device half* data2_512,
                       uint3 gid [[threadgroup_position_in_grid]], uint3 lid [[thread_position_in_threadgroup]]) {
  threadgroup __attribute__((aligned(16))) float temp0[64];
  float acc0[4];
  float acc1 = 0.0f;
  int gidx0 = gid.x; /* 2 */
  int lidx0 = lid.x; /* 16 */
  *(acc0 + 0) = 0.0f;
  *(acc0 + 1) = 0.0f;
  *(acc0 + 2) = 0.0f;
  *(acc0 + 3) = -INFINITY;
  for (int ridx0 = 0; ridx0 < 4; ridx0++) {
    int alu0 = ((gidx0 << 8) + (lidx0 << 4) + (ridx0 << 2));
    float4 val0 = (*((device float4*)((data1_512 + alu0))));
    bool alu1 = ((ridx0 < 3) != 1);
    half4 val1 = (alu1 ? *((device half4*)((data2_512 + alu0))) : half4(0.0h));
    *(acc0 + 0) = ((*(acc0 + 0)) + val0.x + ((float)(val1.y)));
    *(acc0 + 1) = ((*(acc0 + 1)) + val0.y * val0.z);
    *(acc0 + 3) = (((*(acc0 + 3)) < val0.w) ? val0.w : (*(acc0 + 3)));
  }
  *((threadgroup float4*)((temp0 + (lidx0 << 2)))) = float4((*(acc0 + 0)), (*(acc0 + 1)), (*(acc0 + 2)), (*(acc0 + 3)));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  bool alu2 = (lidx0 == 0);
  if (alu2) {
    for (int ridx1 = 0; ridx1 < 16; ridx1++) {
      acc1 = (acc1 + (*(temp0 + (ridx1 << 2))) + (*(temp0 + ((ridx1 << 2) + 1))) * exp2((*(temp0 + ((ridx1 << 2) + 3))) * 0.25f));
    }
    *(data0_128 + gidx0) = acc1;
  }
}
kernel void wmma(device float* data0, device float* data1, device float* data2,
                 uint3 gid [[threadgroup_position_in_grid]], uint3 lid [[thread_position_in_threadgroup]]) {
  int lidx = lid.x;
  int row = (((lidx >> 1) & 3)) + ((lidx >> 4) << 2);
  int col = ((lidx & 1) << 1) + (((lidx >> 3) & 1) << 2);
  float2 acc = float2(0.0f, 0.0f);
  for (int k = 0; k < 16; k += 8) {
    float2 a = float2(data1[row * 16 + k + col], data1[row * 16 + k + col + 1]);
    float2 b = *((device float2*)(data2 + (k + row) * 8 + col));
    acc = __WMMA_8_8_8_float_float(a, b, acc);
  }
  *((device float2*)(data0 + row * 8 + col)) = acc;
}

#line 7 "a file of the compiler's own"
// feature: loop compiler output: argument unions, volatile threadgroup memory
union __ArgUnion {
  int v_int[2];
};
struct default_function_kernel_args_t {
  union __ArgUnion n;
  int stride;
};
kernel void default_function_kernel(device float* A [[ buffer(0) ]], device float* B [[ buffer(1) ]],
                                    constant default_function_kernel_args_t& arg [[ buffer(2) ]],
                                    uint3 blockIdx [[threadgroup_position_in_grid]],
                                    uint3 threadIdx [[thread_position_in_threadgroup]]) {
  threadgroup float red_buf0[1];
  float red_result[1];
  red_result[0] = 0.000000e+00f;
  if (((int)threadIdx.x) < 32) {
    for (int k = 0; k < ((arg.n.v_int[0] + 31) >> 5); ++k) {
      if (((k * 32) + ((int)threadIdx.x)) < arg.n.v_int[0]) {
        red_result[0] = (red_result[0] + A[(((((int)blockIdx.x) * arg.stride) + (k * 32)) + ((int)threadIdx.x))]);
      }
    }
  }
  float t0[1];
  float red_buf1[1];
  red_buf1[0] = red_result[0];
  t0[0] = simd_shuffle_down(red_buf1[0], 16); red_buf1[0] = (red_buf1[0] + t0[0]);
  t0[0] = simd_shuffle_down(red_buf1[0], 8); red_buf1[0] = (red_buf1[0] + t0[0]);
  t0[0] = simd_shuffle_down(red_buf1[0], 4); red_buf1[0] = (red_buf1[0] + t0[0]);
  t0[0] = simd_shuffle_down(red_buf1[0], 2); red_buf1[0] = (red_buf1[0] + t0[0]);
  t0[0] = simd_shuffle_down(red_buf1[0], 1); red_buf1[0] = (red_buf1[0] + t0[0]);
  if (((int)threadIdx.x) == 0) {
    ((volatile threadgroup float*)red_buf0)[0] = red_buf1[0];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  ((device float2*)(B + ((((int)blockIdx.x) * 64) + (((int)threadIdx.x) * 2))))[0] =
      float2(red_buf0[0], (float)((int)threadIdx.x));
}

// feature: tracing compiler output: byte buffers, classes that wrap addresses, atomics on cast pointers
using byte = char;
template <typename T, typename G>
T union_cast(G g) {
  static_assert(sizeof(T) == sizeof(G), "Size mismatch");
  return *reinterpret_cast<thread const T*>(&g);
}
inline int ifloordiv(int lhs, int rhs) {
  const int intm = (lhs / rhs);
  return (((lhs * rhs < 0) && (rhs * intm != lhs)) ? (intm - 1) : intm);
}
#ifndef MPSX_ALLOW_RACES
#define MPSX_ALLOW_RACES(p)
#endif
[[maybe_unused]] float fatomic_fetch_add(device float* dest, const float operand) {
  MPSX_ALLOW_RACES(dest);  // The read below is not atomic. If it is stale, the exchange fails.
  bool ok = false;
  float old_val = 0.0f;
  while (!ok) {
    old_val = *dest;
    float new_val = (old_val + operand);
    ok = atomic_compare_exchange_weak_explicit((device atomic_int*)dest, (thread int*)(&old_val),
                                               *((thread int*)(&new_val)), metal::memory_order_relaxed,
                                               metal::memory_order_relaxed);
  }
  return old_val;
}
struct Runtime {
  int32_t counters[4];
};
class S1_ch {
 public:
  S1_ch(device byte* a) : addr_(a) {}
  S1_ch() = default;
  device float* get0() { return (device float*)(addr_ + 0); }
  device int32_t* get1(thread Runtime* unused) const { return reinterpret_cast<device int32_t*>(addr_ + 4); }
  static constexpr constant int stride = sizeof(float) + sizeof(int32_t);

 private:
  device byte* addr_;
};
class S0root {
 public:
  constant static constexpr int n = 64;
  S0root(device byte* addr) { addr_ = addr; }
  S1_ch children(int i) { return {addr_ + i * S1_ch::stride}; }
 private:
  device byte* addr_;
};
void mtl_k0001_func(device byte* root_addr, device byte* ctx_addr, thread Runtime* runtime, const int linear_loop_idx_) {
  S0root tmp0(root_addr);
  const int tmp1 = linear_loop_idx_;
  S1_ch tmp2 = tmp0.children(tmp1 & 63);
  device float* tmp3 = tmp2.get0();
  const auto tmp4 = *tmp3;
  const float tmp5(tmp4 * union_cast<float>(0x40000000));
  fatomic_fetch_add((device float*)ctx_addr, tmp5);
  *(tmp2.get1(runtime)) = ifloordiv(tmp1 - 5, static_cast<int32_t>(3));
  runtime->counters[0] += 1;
}
kernel void mtl_k0001(device byte* root_addr [[buffer(0)]], device byte* ctx_addr [[buffer(1)]],
                      const uint utid_ [[thread_position_in_grid]], const uint grid_size [[threads_per_grid]]) {
  Runtime runtime = {};
  const int total = 64;
  for (int ii = static_cast<int>(utid_); ii < total; ii += int(grid_size)) {
    mtl_k0001_func(root_addr, ctx_addr, &runtime, ii);
  }
  atomic_fetch_add_explicit(reinterpret_cast<device atomic_int*>(ctx_addr + 4), runtime.counters[0], memory_order_relaxed);
}
