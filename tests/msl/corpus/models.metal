// Kernels from inference engines and tensor libraries: attention, quantized matmuls, norms and samplers.
#include <c10/metal/indexing.h>
#include <c10/metal/reduction_utils.h>
#include <c10/metal/utils.h>
#include <metal_stdlib>
using namespace metal;
using c10::metal::accum_t;
using c10::metal::vec2type_t;

#define QK4_0 32
#define N_SIMDWIDTH 32
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define FOR_UNROLL(x) _Pragma("clang loop unroll(full)") for (x)
typedef matrix<half, 4, 4> half4x4_t;

typedef struct {
  half d;
  uint8_t qs[QK4_0 / 2];
} block_q4_0;
static_assert(sizeof(block_q4_0) == sizeof(half) + QK4_0 / 2, "wrong q4_0 block size/padding");
typedef struct {
  union {
    struct {
      half d;
      half dmin;
    };
    half2 dm;
  };
  uint8_t scales[12];
  uint8_t qs[128];
} block_q4_K;
typedef struct {
  int32_t ne00, ne01;
  uint64_t nb01;
  float scale;
} args_mv;

// feature: quantized matrix-vector multiplication with the dequantizer as a template argument
template <typename type4x4>
void dequantize_q4_0(device const block_q4_0* xb, short il, thread type4x4& reg) {
  device const uint16_t* qs = ((device const uint16_t*)xb + 1);
  const float d1 = il ? (xb->d / 16.h) : xb->d;
  const float d2 = d1 / 256.f;
  const float md = -8.h * xb->d;
  const ushort mask0 = il ? 0x00F0 : 0x000F;
  const ushort mask1 = mask0 << 8;
  float4x4 reg_f;
  for (int i = 0; i < 8; i++) {
    reg_f[i / 2][2 * (i % 2) + 0] = d1 * (qs[i] & mask0) + md;
    reg_f[i / 2][2 * (i % 2) + 1] = d2 * (qs[i] & mask1) + md;
  }
  reg = (type4x4)reg_f;
}
template <typename block_q, short nl, void (*dequantize_func)(device const block_q*, short, thread float4x4&)>
kernel void kernel_get_rows_q(constant args_mv& args, device const char* src0, device const int32_t* src1, device float* dst,
                              uint3 tgpig [[threadgroup_position_in_grid]], ushort3 tpitg [[thread_position_in_threadgroup]],
                              ushort3 ntg [[threads_per_threadgroup]]) {
  const int32_t r = src1[tgpig.x];
  for (int32_t ind = tpitg.x; ind < args.ne00 / 16; ind += ntg.x) {
    float4x4 temp;
    dequantize_func(((device const block_q*)(src0 + r * args.nb01)) + ind / nl, ind % nl, temp);
    *(((device float4x4*)(dst + tgpig.x * args.ne00)) + ind) = temp;
  }
}
typedef decltype(kernel_get_rows_q<block_q4_0, 2, dequantize_q4_0>) get_rows_q_t;
template [[host_name("kernel_get_rows_q4_0")]] kernel get_rows_q_t kernel_get_rows_q<block_q4_0, 2, dequantize_q4_0>;

static inline uchar2 get_scale_min_k4_just2(int j, int k, device const uchar* q) {
  return j < 4 ? uchar2{uchar(q[j + 0 + k] & 63), uchar(q[j + 4 + k] & 63)}
               : uchar2{uchar((q[j + 4 + k] & 0xF) | ((q[j - 4 + k] & 0xc0) >> 2)),
                        uchar((q[j + 4 + k] >> 4) | ((q[j - 0 + k] & 0xc0) >> 2))};
}
kernel void kernel_mul_mv_q4_K_f32(constant args_mv& args, device const char* src0, device const float* y,
                                   device float* dst, threadgroup char* shmem [[threadgroup(0)]],
                                   uint3 tgpig [[threadgroup_position_in_grid]], ushort tiisg [[thread_index_in_simdgroup]],
                                   ushort sgitg [[simdgroup_index_in_threadgroup]], ushort nsg [[simdgroups_per_threadgroup]]) {
  threadgroup float* shared = (threadgroup float*)shmem;
  device const block_q4_K* x = (device const block_q4_K*)(src0 + tgpig.x * args.nb01);
  const int nb = args.ne00 / 256;
  float sumf = 0.f;
  for (int ib = sgitg; ib < nb; ib += nsg) {
    device const block_q4_K& b = x[ib];
    const short is = tiisg / 4, l0 = (tiisg % 4) * 8;
    const uchar2 sc = get_scale_min_k4_just2(is, 0, b.scales);
    device const uchar* q = b.qs + (is / 2) * 32 + l0;
    device const float* yy = y + ib * 256 + is * 32 + l0;
    float2 acc = 0;
    FOR_UNROLL (short l = 0; l < 8; ++l) {
      acc[0] += yy[l] * (is & 1 ? q[l] >> 4 : q[l] & 0xF);
      acc[1] += yy[l];
    }
    const float2 dm = float2(b.dm) * float2(sc);
    sumf += dm.x * acc[0] - dm.y * acc[1];
  }
  sumf = simd_sum(sumf);
  if (sgitg == 0) shared[tiisg] = 0.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tiisg == 0) shared[sgitg] = sumf;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (sgitg == 0) {
    const float all = simd_sum(shared[tiisg]);
    if (tiisg == 0) dst[tgpig.x] = all * args.scale;
  }
}

// feature: NF4 lookup table, ternary weights packed as bits, int8 dot products of char4
constant float nf4_table[16] = {-1.0f, -0.6961928f, -0.52507305f, -0.39491749f, -0.28444138f, -0.18477343f,
                                -0.09105004f, 0.0f, 0.0795803f, 0.1609302f, 0.2461123f, 0.33791524f,
                                0.44070983f, 0.562617f, 0.72295684f, 1.0f};
template <typename T, uint BLOCK>
[[kernel]] void dequant_nf4(constant uchar* q [[buffer(0)]], constant float* absmax [[buffer(1)]], device T* out [[buffer(2)]],
                            constant uint& n [[buffer(3)]], uint i [[thread_position_in_grid]]) {
  if (2 * i >= n) return;
  const uchar b = q[i];
  const float scale = absmax[(2 * i) / BLOCK];
  *reinterpret_cast<device vec<T, 2>*>(out + 2 * i) = vec<T, 2>(T(nf4_table[b >> 4] * scale), T(nf4_table[b & 0xf] * scale));
}
template [[host_name("dequant_nf4_half")]] [[kernel]] decltype(dequant_nf4<half, 64>) dequant_nf4<half, 64>;
kernel void bitnet_gemv(device const uint* w [[buffer(0)]], device const packed_char4* x [[buffer(1)]],
                        device float* y [[buffer(2)]], constant uint2& size [[buffer(3)]], constant float& scale [[buffer(4)]],
                        uint row [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  int acc = 0;
  for (uint k = lane; k < size.x / 16; k += 32) {
    const uint bits = w[row * (size.x / 16) + k];
#pragma unroll
    for (uint j = 0; j < 4; ++j) {
      const int4 v = int4(char4(x[k * 4 + j]));
      const int4 t = int4(extract_bits(uint4(bits) >> uint4(0, 2, 4, 6), 8 * j, 2)) - 1;
      acc += v.x * t.x + v.y * t.y + v.z * t.z + v.w * t.w;
    }
  }
  acc = simd_sum(acc);
  if (simd_is_first()) y[row] = acc * scale;
}

// feature: flash attention with simdgroup_matrix and online softmax
template <typename T, short D, short Q = 8, short C = 32>
[[kernel, max_total_threads_per_threadgroup(32)]] void flash_attention(
    const device T* q [[buffer(0)]], const device T* k [[buffer(1)]], const device T* v [[buffer(2)]],
    device T* out [[buffer(3)]], constant int& n [[buffer(4)]], constant float& scale [[buffer(5)]],
    constant bool& causal [[buffer(6)]], uint3 tg [[threadgroup_position_in_grid]],
    ushort lane [[thread_index_in_simdgroup]]) {
  static_assert(D % 8 == 0 && C % 8 == 0, "tiles of 8");
  threadgroup T so[Q * D];
  threadgroup float ss[Q * C];
  threadgroup float sm[Q], sl[Q];
  const uint at = tg.y * n * D;
  const int q0 = tg.x * Q;
  simdgroup_matrix<T, 8, 8> mq[D / 8];
  FOR_UNROLL (short i = 0; i < D / 8; ++i) simdgroup_load(mq[i], q + at + q0 * D + i * 8, D);
  for (short i = lane; i < Q * D; i += N_SIMDWIDTH) so[i] = 0;
  if (lane < Q) sm[lane] = -FLT_MAX / 2, sl[lane] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int ic = 0; ic < n; ic += C) {
    if (causal && ic > q0 + Q - 1) break;
    for (short cc = 0; cc < C / 8; ++cc) {
      simdgroup_float8x8 mqk = make_filled_simdgroup_matrix<float, 8>(0.f);
      for (short i = 0; i < D / 8; ++i) {
        simdgroup_matrix<T, 8, 8> mk;
        simdgroup_load(mk, k + at + (ic + cc * 8) * D + i * 8, D, ulong2(0), true);
        simdgroup_multiply_accumulate(mqk, mq[i], mk, mqk);
      }
      simdgroup_store(mqk, ss + cc * 8, C, 0, false);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (short j = 0; j < Q; ++j) {
      const float m = sm[j];
      const bool visible = !causal || ic + lane <= q0 + j;
      const float s = visible ? ss[j * C + lane] * scale : -INFINITY;
      const float mn = max(simd_max(s), m);
      const float ms = exp(m - mn), p = exp(s - mn);
      const float l = sl[j] * ms + simd_sum(p);
      simdgroup_barrier(mem_flags::mem_threadgroup);
      if (lane == 0) sm[j] = mn, sl[j] = l;
      ss[j * C + lane] = p;
      for (short i = lane; i < D; i += N_SIMDWIDTH) so[j * D + i] = T(so[j * D + i] * ms);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (short i = 0; i < D / 8; ++i) {
      simdgroup_matrix<float, 8, 8> lo;
      simdgroup_matrix<T, 8, 8> acc;
      simdgroup_load(acc, so + i * 8, D);
      for (short cc = 0; cc < C / 8; ++cc) {
        simdgroup_float8x8 mp;
        simdgroup_matrix<T, 8, 8> mv;
        simdgroup_load(mp, ss + cc * 8, C);
        simdgroup_load(mv, v + at + (ic + cc * 8) * D + i * 8, D);
        simdgroup_multiply_accumulate(acc, mp, mv, acc);
      }
      simdgroup_store(acc, so + i * 8, D);
      (void)lo;
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (short i = lane; i < Q * D; i += N_SIMDWIDTH) out[at + q0 * D + i] = T(so[i] / sl[i / D]);
}
#define INSTANTIATE_ATTENTION(T, D) \
  template [[host_name("flash_attention_" #T "_" #D)]] [[kernel]] decltype(flash_attention<T, D>) flash_attention<T, D>;
INSTANTIATE_ATTENTION(float, 32)
INSTANTIATE_ATTENTION(half, 64)
#undef INSTANTIATE_ATTENTION

// feature: rotary embedding, norms, softmax and argmax over rows
kernel void rope(device half* x [[buffer(0)]], constant int* position [[buffer(1)]], constant int3& dims [[buffer(2)]],
                 constant float& base [[buffer(3)]], uint3 gid [[thread_position_in_grid]]) {
  const int head = gid.y, token = gid.z, d2 = dims.z / 2, i = gid.x;
  if (i >= d2) return;
  const float theta = position[token] * precise::pow(base, -2.0f * i / dims.z);
  float c;
  const float s = precise::sincos(theta, c);
  device half* p = x + (token * dims.y + head) * dims.z + i;
  const float2 v = float2(p[0], p[d2]);
  p[0] = static_cast<half>(dot(v, float2(c, -s)));
  p[d2] = static_cast<half>(dot(v, float2(s, c)));
}
template <typename T, int N_READS = 4>
[[max_total_threads_per_threadgroup(1024)]] [[kernel]] void rms_single_row(
    const device T* x, const device T* w, device T* out, constant float& eps, constant uint& axis_size,
    uint gid [[threadgroup_position_in_grid]], uint lid [[thread_position_in_threadgroup]],
    uint simd_lane_id [[thread_index_in_simdgroup]], uint simd_group_id [[simdgroup_index_in_threadgroup]]) {
  constexpr int SIMD_SIZE = 32;
  threadgroup float local_inv_mean[1];
  threadgroup float local_sums[SIMD_SIZE];
  float acc = 0;
  x += gid * size_t(axis_size) + lid * N_READS;
  w += lid * N_READS;
  const bool whole = lid * N_READS + N_READS <= axis_size;
  if (whole) {
    for (int i = 0; i < N_READS; i++) {
      float xi = x[i];
      acc += xi * xi;
    }
  } else {
    for (int i = 0; i < N_READS; i++) {
      if ((lid * N_READS + i) < axis_size) {
        float xi = x[i];
        acc += xi * xi;
      }
    }
  }
  acc = simd_sum(acc);
  if (simd_group_id == 0) local_sums[simd_lane_id] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd_lane_id == 0) local_sums[simd_group_id] = acc;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd_group_id == 0) {
    acc = simd_sum(local_sums[simd_lane_id]);
    if (simd_lane_id == 0) local_inv_mean[0] = metal::precise::rsqrt(acc / axis_size + eps);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out += gid * size_t(axis_size) + lid * N_READS;
  for (int i = 0; i < N_READS; i++)
    if (whole || (lid * N_READS + i) < axis_size) out[i] = w[i] * static_cast<T>(x[i] * local_inv_mean[0]);
}
#define instantiate_rms(name, itype) \
  template [[host_name("rms_" #name)]] [[kernel]] void rms_single_row<itype>( \
      const device itype* x, const device itype* w, device itype* out, constant float& eps, constant uint& axis_size, \
      uint gid [[threadgroup_position_in_grid]], uint lid [[thread_position_in_threadgroup]], \
      uint simd_lane_id [[thread_index_in_simdgroup]], uint simd_group_id [[simdgroup_index_in_threadgroup]]);
instantiate_rms(float32, float) instantiate_rms(float16, half) instantiate_rms(bfloat16, bfloat)
kernel void kernel_soft_max(device const char* src [[buffer(0)]], device char* dst [[buffer(1)]],
                            constant uint& ne00 [[buffer(2)]], threadgroup float* buf [[threadgroup(0)]],
                            uint row [[threadgroup_position_in_grid]], uint tpitg [[thread_position_in_threadgroup]],
                            uint sgitg [[simdgroup_index_in_threadgroup]], uint tiisg [[thread_index_in_simdgroup]],
                            uint ntg [[threads_per_threadgroup]]) {
  device const float* psrc = (device const float*)(src + row * ne00 * sizeof(float));
  device float* pdst = reinterpret_cast<device float*>(dst + row * ne00 * sizeof(float));
  float lmax = -INFINITY;
  for (uint i = tpitg; i < ne00; i += ntg) lmax = MAX(lmax, psrc[i]);
  float max_val = simd_max(lmax);
  if (ntg > N_SIMDWIDTH) {
    if (sgitg == 0) buf[tiisg] = -INFINITY;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tiisg == 0) buf[sgitg] = max_val;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    max_val = simd_max(buf[tiisg]);
  }
  float lsum = 0.0f;
  for (uint i = tpitg; i < ne00; i += ntg) {
    const float e = exp(psrc[i] - max_val);
    lsum += e;
    pdst[i] = e;
  }
  threadgroup_barrier(mem_flags::mem_none);
  float sum = simd_sum(lsum);
  if (ntg > N_SIMDWIDTH) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (sgitg == 0) buf[tiisg] = 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tiisg == 0) buf[sgitg] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = simd_sum(buf[tiisg]);
  }
  for (uint i = tpitg; i < ne00; i += ntg) pdst[i] *= 1.0f / sum;
}
kernel void argmax_rows(device const bfloat* x [[buffer(0)]], device long* index [[buffer(1)]], constant uint& n [[buffer(2)]],
                        uint row [[threadgroup_position_in_grid]], uint t [[thread_position_in_threadgroup]],
                        uint threads [[threads_per_threadgroup]]) {
  struct best_t { float value; uint at; } best = {-INFINITY, 0xffffffffu};
  for (uint i = t; i < n; i += threads) {
    const float v = x[row * n + i];
    if (v > best.value) best = best_t{v, i};
  }
  threadgroup float shared[c10::metal::simdgroup_size];
  threadgroup int indices[c10::metal::simdgroup_size];
  (void)shared, (void)indices;
  for (ushort d = 16; d; d >>= 1) {
    const best_t other = {simd_shuffle_xor(best.value, d), simd_shuffle_xor(best.at, d)};
    best = other.value > best.value || (other.value == best.value && other.at < best.at) ? other : best;
  }
  if (t == 0) index[row] = best.at;
}

// feature: functor kernels for strided tensors, as in PyTorch
struct sub_functor {
  template <typename T> inline T operator()(const T a, const T b, const float alpha) { return T(a - alpha * b); }
};
struct lerp_functor {
  template <typename T> inline T operator()(const T a, const T b, const accum_t<T> w) {
    return static_cast<T>(c10::metal::mul(w, static_cast<accum_t<T>>(b)) + (1 - w) * static_cast<accum_t<T>>(a));
  }
};
template <typename T, typename F>
kernel void alpha_binary_strided(device void* output [[buffer(0)]], constant void* input [[buffer(1)]],
                                 constant void* other [[buffer(2)]], constant float& alpha [[buffer(3)]],
                                 constant long* sizes [[buffer(4)]], constant long* out_strides [[buffer(5)]],
                                 constant long* in_strides [[buffer(6)]], constant long* other_strides [[buffer(7)]],
                                 constant uint& ndim [[buffer(8)]], uint index [[thread_position_in_grid]]) {
  F f;
  int pos[c10::metal::max_ndim];
  c10::metal::pos_from_thread_index(int(index), pos, sizes, ndim);
  const auto in = c10::metal::offset_from_coord(pos, in_strides, ndim);
  const auto ot = c10::metal::offset_from_coord(pos, other_strides, ndim);
  const auto o = c10::metal::offset_from_coord(pos, out_strides, ndim);
  c10::metal::ref_at_offs<T>(output, o) =
      f(c10::metal::val_at_offs<T>(input, in), c10::metal::val_at_offs<T>(other, ot), alpha);
}
#define REGISTER_ALPHA(NAME, DTYPE)                                                                  \
  template [[host_name(#NAME "_strided_" #DTYPE)]] kernel decltype(alpha_binary_strided<DTYPE, NAME##_functor>) \
      alpha_binary_strided<DTYPE, NAME##_functor>
REGISTER_ALPHA(sub, float);
REGISTER_ALPHA(sub, half);
REGISTER_ALPHA(lerp, bfloat);

template <typename T>
kernel void layer_norm_looped(constant T* input [[buffer(0)]], device T* output [[buffer(1)]],
                              constant uint& axis_size [[buffer(2)]], constant float& epsilon [[buffer(3)]],
                              uint tg_id [[threadgroup_position_in_grid]], uint tid [[thread_position_in_threadgroup]],
                              uint lsize [[threads_per_threadgroup]]) {
  threadgroup float scratch[c10::metal::simdgroup_size], scratch2[c10::metal::simdgroup_size];
  constant T* x = input + ulong(tg_id) * axis_size;
  float2 partial = 0;
  for (uint i = tid; i < axis_size; i += lsize) {
    const float v = x[i];
    partial += float2(v, v * v);
  }
  const float sum = c10::metal::threadgroup_sum(scratch, partial.x, tid, lsize);
  const float squares = c10::metal::threadgroup_sum(scratch2, partial.y, tid, lsize);
  const float mean = sum / axis_size, inv = ::metal::precise::rsqrt(squares / axis_size - mean * mean + epsilon);
  for (uint i = tid; i < axis_size; i += lsize) output[ulong(tg_id) * axis_size + i] = static_cast<T>((x[i] - mean) * inv);
}
template [[host_name("layer_norm_looped_float")]] kernel decltype(layer_norm_looped<float>) layer_norm_looped<float>;
