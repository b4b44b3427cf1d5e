// Hashes, ciphers, big integers, geometry and signal processing.
#include <metal_stdlib>
using namespace metal;

// feature: SHA-256 with macros and tables in constant memory
#define ROTR(x, n) (((x) >> (n)) | ((x) << (32 - (n))))
#define CH(x, y, z) (((x) & (y)) ^ (~(x) & (z)))
#define MAJ(x, y, z) (((x) & (y)) ^ ((x) & (z)) ^ ((y) & (z)))
#define EP0(x) (ROTR(x, 2) ^ ROTR(x, 13) ^ ROTR(x, 22))
#define EP1(x) (ROTR(x, 6) ^ ROTR(x, 11) ^ ROTR(x, 25))
#define SIG0(x) (rotate(x, 25u) ^ rotate(x, 14u) ^ ((x) >> 3))
#define SIG1(x) (rotate(x, 15u) ^ rotate(x, 13u) ^ ((x) >> 10))
constant uint K256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
struct SHA256_CTX {
  uchar data[64];
  uint datalen;
  ulong bitlen;
  uint state[8];
};
static void sha256_transform(thread SHA256_CTX* ctx, thread const uchar data[]) {
  uint a, b, c, d, e, f, g, h, i, j, t1, t2, m[64];
  for (i = 0, j = 0; i < 16; ++i, j += 4) m[i] = (data[j] << 24) | (data[j + 1] << 16) | (data[j + 2] << 8) | (data[j + 3]);
  for (; i < 64; ++i) m[i] = SIG1(m[i - 2]) + m[i - 7] + SIG0(m[i - 15]) + m[i - 16];
  a = ctx->state[0]; b = ctx->state[1]; c = ctx->state[2]; d = ctx->state[3];
  e = ctx->state[4]; f = ctx->state[5]; g = ctx->state[6]; h = ctx->state[7];
  for (i = 0; i < 64; ++i) {
    t1 = h + EP1(e) + CH(e, f, g) + K256[i] + m[i];
    t2 = EP0(a) + MAJ(a, b, c);
    h = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + t2;
  }
  ctx->state[0] += a; ctx->state[1] += b; ctx->state[2] += c; ctx->state[3] += d;
  ctx->state[4] += e; ctx->state[5] += f; ctx->state[6] += g; ctx->state[7] += h;
}
kernel void sha256(device const uchar* messages [[buffer(0)]], device uchar* digests [[buffer(1)]],
                   constant uint& length [[buffer(2)]], uint gid [[thread_position_in_grid]]) {
  SHA256_CTX ctx = {{0}, 0, 0, {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
  for (uint i = 0; i < length; ++i) {
    ctx.data[ctx.datalen++] = messages[gid * length + i];
    if (ctx.datalen == 64) {
      sha256_transform(&ctx, ctx.data);
      ctx.bitlen += 512;
      ctx.datalen = 0;
    }
  }
  uint i = ctx.datalen;
  ctx.data[i++] = 0x80;
  if (ctx.datalen >= 56) {
    while (i < 64) ctx.data[i++] = 0x00;
    sha256_transform(&ctx, ctx.data);
    i = 0;
  }
  while (i < 56) ctx.data[i++] = 0x00;
  ctx.bitlen += ctx.datalen * 8;
  for (int k = 0; k < 8; ++k) ctx.data[63 - k] = uchar(ctx.bitlen >> (8 * k));
  sha256_transform(&ctx, ctx.data);
  for (uint k = 0; k < 4; ++k)
    for (uint w = 0; w < 8; ++w) digests[gid * 32 + w * 4 + k] = (ctx.state[w] >> (24 - k * 8)) & 0xff;
}

// feature: a stream cipher on uint4, 64-bit xxHash and Keccak, 256-bit integers
#define QUARTER(a, b, c, d) a += b, d = rotate(d ^ a, 16u), c += d, b = rotate(b ^ c, 12u), a += b, d = rotate(d ^ a, 8u), c += d, b = rotate(b ^ c, 7u)
kernel void chacha20(constant uint4* key [[buffer(0)]], constant packed_uint3& nonce [[buffer(1)]], device uint4* out [[buffer(2)]],
                     uint block [[thread_position_in_grid]]) {
  const uint4 s[4] = {uint4(0x61707865, 0x3320646e, 0x79622d32, 0x6b206574), key[0], key[1], uint4(block + 1, nonce)};
  uint4 x[4] = {s[0], s[1], s[2], s[3]};
  for (short i = 0; i < 10; ++i) {
    QUARTER(x[0], x[1], x[2], x[3]);
    x[1] = x[1].yzwx, x[2] = x[2].zwxy, x[3] = x[3].wxyz;
    QUARTER(x[0], x[1], x[2], x[3]);
    x[1] = x[1].wxyz, x[2] = x[2].zwxy, x[3] = x[3].yzwx;
  }
  for (short i = 0; i < 4; ++i) out[block * 4 + i] = x[i] + s[i];
}
constant ulong P1 = 0x9E3779B185EBCA87ULL, P2 = 0xC2B2AE3D27D4EB4FULL, P3 = 0x165667B19E3779F9ULL, P5 = 0x27D4EB2F165667C5ul;
kernel void xxhash64(device const ulong* x [[buffer(0)]], device ulong* out [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  ulong h = P5 + 8;
  ulong k = x[i] * P2;
  k = rotate(k, 31ul) * P1;
  h ^= k;
  h = rotate(h, 27ul) * P1 + 0x85EBCA77C2B2AE63ul;
  h ^= h >> 33, h *= P2, h ^= h >> 29, h *= P3, h ^= h >> 32;
  out[i] = h;
}
struct u256 {
  ulong4 l;
  u256() = default;
  constexpr u256(ulong x) : l(x, 0, 0, 0) {}
  constexpr explicit u256(ulong4 x) : l(x) {}
  u256 operator+(const u256 b) const {
    u256 r;
    ulong carry = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const ulong s = l[i] + b.l[i], t = s + carry;
      carry = (s < l[i]) | (t < s);
      r.l[i] = t;
    }
    return r;
  }
  u256 operator*(const u256 b) const {
    ulong r[4] = {};
    for (int i = 0; i < 4; i++) {
      ulong carry = 0;
      for (int j = 0; i + j < 4; j++) {
        const ulong low = l[i] * b.l[j], high = mulhi(l[i], b.l[j]);
        const ulong s = r[i + j] + low, t = s + carry;
        carry = high + (s < low) + (t < carry);
        r[i + j] = t;
      }
    }
    return u256(ulong4(r[0], r[1], r[2], r[3]));
  }
  u256 operator>>(uint n) const {
    u256 r = *this;
    for (; n--;) r.l = (r.l >> 1ul) | (ulong4(r.l.yzw, 0) << 63ul);
    return r;
  }
  bool operator>=(u256 b) const {
    for (int i = 3; i >= 0; i--)
      if (l[i] != b.l[i]) return l[i] > b.l[i];
    return true;
  }
};
kernel void big_numbers(device const u256* a [[buffer(0)]], device const u256* b [[buffer(1)]], device u256* out [[buffer(2)]],
                        uint i [[thread_position_in_grid]]) {
  const u256 x = a[i], y = b[i];
  out[4 * i] = x + y;
  out[4 * i + 1] = x * y;
  out[4 * i + 2] = x >> 67;
  out[4 * i + 3] = u256(ulong(x >= y));
}

// feature: BVH ray traversal with a stack, results returned through pointers
struct Ray { packed_float3 origin; float tmin; packed_float3 direction; float tmax; };
struct Node { packed_float3 low; int left; packed_float3 high; int count; };
struct Hit { float t; int triangle; float2 uv; };
static bool slab(const float3 o, const float3 inv, device const Node& n, float tmax) {
  const float3 a = (float3(n.low) - o) * inv, b = (float3(n.high) - o) * inv;
  const float3 lo = min(a, b), hi = max(a, b);
  return max(max3(lo.x, lo.y, lo.z), 0.0f) <= min(min3(hi.x, hi.y, hi.z), tmax);
}
static bool intersect(thread const Ray& r, const float3 a, const float3 b, const float3 c, thread Hit* hit) {
  const float3 d = r.direction, e1 = b - a, e2 = c - a, p = cross(d, e2);
  const float det = dot(e1, p);
  if (abs(det) < 1e-9f) return false;
  const float inv = 1 / det;
  const float3 s = float3(r.origin) - a, q = cross(s, e1);
  const float u = dot(s, p) * inv, v = dot(d, q) * inv, t = dot(e2, q) * inv;
  if (u < 0 || v < 0 || u + v > 1 || t <= r.tmin || t >= hit->t) return false;
  hit->t = t, hit->uv = {u, v};
  return true;
}
kernel void trace(device const Ray* rays [[buffer(0)]], device const Node* nodes [[buffer(1)]],
                  device const packed_float3* vertices [[buffer(2)]], device Hit* hits [[buffer(3)]],
                  uint i [[thread_position_in_grid]]) {
  Ray r = rays[i];
  Hit h = {r.tmax, -1, 0};
  const float3 inv = 1.0 / float3(r.direction);
  int stack[16], top = 0;
  stack[top++] = 0;
  while (top > 0) {
    device const Node& n = nodes[stack[--top]];
    if (!slab(r.origin, inv, n, h.t)) continue;
    if (n.count == 0) {
      stack[top++] = n.left;
      stack[top++] = n.left + 1;
      continue;
    }
    for (int k = n.left; k < n.left + n.count; ++k)
      if (intersect(r, vertices[3 * k], vertices[3 * k + 1], vertices[3 * k + 2], &h)) h.triangle = k;
  }
  hits[i] = h;
}

// feature: isosurface cells counted with a bit table, triangles appended through an atomic counter
constant ushort kEdges[8][3] = {{0, 1, 2}, {0, 3, 4}, {1, 3, 5}, {2, 4, 5}, {0, 1, 2}, {0, 3, 4}, {1, 3, 5}, {2, 4, 5}};
constant uchar2 kPairs[6] = {uchar2(0, 1), {0, 2}, {0, 3}, {1, 2}, {1, 3}, uchar2(2, 3)};
constant packed_uchar4 kTetra[2] = {packed_uchar4(0, 1, 3, 7), packed_uchar4(0, 1, 5, 7)};
kernel void tetrahedra(device const float* field [[buffer(0)]], device packed_float3* out [[buffer(1)]],
                       device atomic_uint& count [[buffer(2)]], constant uint3& size [[buffer(3)]],
                       uint3 cell [[thread_position_in_grid]]) {
  if (any(cell + 1 >= size)) return;
  for (const constant auto& tetra : kTetra) {
    float4 value;
    float3 corner[4];
    for (ushort k = 0; k < 4; ++k) {
      const uint c = tetra[k];
      const uint3 p = cell + uint3(c & 1, c >> 1 & 1, c >> 2 & 1);
      value[k] = field[(p.z * size.y + p.y) * size.x + p.x];
      corner[k] = float3(p);
    }
    const uint inside = dot(float4(value > 0), float4(1, 2, 4, 8));
    if (popcount(inside) != 1) continue;
    constant ushort(&edges)[3] = kEdges[ctz(inside)];
    const uint at = atomic_fetch_add_explicit(&count, 1u, memory_order_relaxed);
    for (ushort k = 0; k < 3; ++k) {
      const uchar2 e = kPairs[edges[k]];
      const float t = value[e.x] / (value[e.x] - value[e.y]);
      out[at * 3 + k] = mix(corner[e.x], corner[e.y], t);
    }
  }
}

// feature: FFT in threadgroup memory with radix templates
template <int R> struct butterfly;
template <> struct butterfly<2> {
  static void run(thread float2* x) { const float2 a = x[0]; x[0] = a + x[1]; x[1] = a - x[1]; }
};
template <> struct butterfly<4> {
  static void run(thread float2* x) {
    const float2 a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = float2(x[1].y - x[3].y, x[3].x - x[1].x);
    x[0] = a + c, x[1] = b + d, x[2] = a - c, x[3] = b - d;
  }
};
static float2 times(float2 a, float2 b) { return {fma(a.x, b.x, -a.y * b.y), fma(a.x, b.y, a.y * b.x)}; }
template <int R>
void stockham(threadgroup float2* in, threadgroup float2* out, int n, int stride, int t) {
  const int m = n / R, k = t % stride, j = t / stride * stride * R + k;
  float2 v[R];
  for (int r = 0; r < R; ++r) {
    float c;
    const float s = sincos(-2 * M_PI_F * k * r / (stride * R), c);
    v[r] = times(in[t + r * m], float2(c, s));
  }
  butterfly<R>::run(v);
  for (int r = 0; r < R; ++r) out[j + r * stride] = v[r];
}
template <int N>
kernel void fft(device const float2* in [[buffer(0)]], device float2* out [[buffer(1)]],
                uint g [[threadgroup_position_in_grid]], uint t [[thread_position_in_threadgroup]]) {
  threadgroup float2 buffers[2][N];
  threadgroup float2 *a = buffers[0], *b = buffers[1];
  constexpr int threads = N / 4;
  for (int i = t; i < N; i += threads) a[i] = in[g * N + i];
  int stride = 1;
  for (; stride * 4 <= N; stride *= 4) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stockham<4>(a, b, N, stride, t);
    threadgroup float2* c = a;
    a = b, b = c;
  }
  if (stride < N) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stockham<2>(a, b, N, stride, t);
    stockham<2>(a, b, N, stride, t + threads);
    a = b;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int i = t; i < N; i += threads) out[g * N + i] = a[i];
}
template [[host_name("fft_64")]] kernel decltype(fft<64>) fft<64>;
template [[host_name("fft_128")]] kernel decltype(fft<128>) fft<128>;

// feature: sparse matrix-vector multiplication, radix sort, image filters on buffers
kernel void spmv_csr(device const uint* row_start [[buffer(0)]], device const uint* column [[buffer(1)]],
                     device const float* value [[buffer(2)]], device const float* x [[buffer(3)]], device float* y [[buffer(4)]],
                     uint row [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  float s = 0;
  for (uint k = row_start[row] + lane, end = row_start[row + 1]; k < end; k += 32) s += value[k] * x[column[k]];
  s += simd_shuffle_down(s, 16), s += simd_shuffle_down(s, 8), s += simd_shuffle_down(s, 4);
  s += simd_shuffle_down(s, 2), s += simd_shuffle_down(s, 1);
  if (lane == 0) y[row] = s;
}
[[kernel, max_total_threads_per_threadgroup(256)]] void radix_sort_block(
    device uint* keys [[buffer(0)]], constant ushort& bits [[buffer(1)]], ushort t [[thread_index_in_threadgroup]],
    ushort lane [[thread_index_in_simdgroup]], ushort sg [[simdgroup_index_in_threadgroup]]) {
  threadgroup uint sorted[256];
  threadgroup ushort totals[8];
  uint key = keys[t];
  for (ushort b = 0; b < bits; ++b) {
    const bool zero = !(key >> b & 1);
    const ushort before = simd_prefix_exclusive_sum(ushort(zero));
    if (lane == 31) totals[sg] = before + zero;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    ushort zeros = 0, mine = 0;
    for (ushort i = 0; i < 8; ++i) {
      if (i == sg) mine = zeros;
      zeros += totals[i];
    }
    const ushort rank = mine + before;
    sorted[zero ? rank : zeros + t - rank] = key;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    key = sorted[t];
  }
  keys[t] = key;
}
enum class Edge : int { clamp, mirror };
template <Edge E>
inline int at_edge(int i, int n) {
  if constexpr (E == Edge::clamp) return clamp(i, 0, n - 1);
  else return i < 0 ? -i - 1 : i >= n ? 2 * n - i - 1 : i;
}
template <Edge E>
kernel void sobel(device const uchar4* in [[buffer(0)]], device uchar4* out [[buffer(1)]], constant int2& size [[buffer(2)]],
                  uint2 gid [[thread_position_in_grid]]) {
  const int2 p = int2(gid);
  if (any(p >= size)) return;
  float gx = 0, gy = 0;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) {
      const int2 q = {at_edge<E>(p.x + dx, size.x), at_edge<E>(p.y + dy, size.y)};
      const float3 rgb = float3(in[q.y * size.x + q.x].rgb) / 255.0;
      const float luma = dot(rgb, float3(0.2126, 0.7152, 0.0722));
      gx += luma * dx * (2 - abs(dy)), gy += luma * dy * (2 - abs(dx));
    }
  }
  const half edge = saturate(half(length(float2(gx, gy))));
  out[p.y * size.x + p.x] = uchar4(uchar3(rint(edge * 255)), in[p.y * size.x + p.x].a);
}
template [[host_name("sobel_clamp")]] kernel decltype(sobel<Edge::clamp>) sobel<Edge::clamp>;
template [[host_name("sobel_mirror")]] kernel decltype(sobel<Edge::mirror>) sobel<Edge::mirror>;
kernel void nv12_to_rgb(constant uchar* y [[buffer(0)]], constant uchar2* uv [[buffer(1)]], device packed_uchar3* rgb [[buffer(2)]],
                        constant uint& width [[buffer(3)]], ushort2 p [[thread_position_in_grid]]) {
  const float3x3 m = float3x3(float3(1, 1, 1), float3(0, -0.343, 1.765), float3(1.4, -0.711, 0));
  const float3 yuv = float3(y[p.y * width + p.x], float2(uv[p.y / 2 * (width / 2) + p.x / 2]) - 128.0) / 255;
  rgb[p.y * width + p.x] = packed_uchar3(uchar3(clamp(m * yuv, 0.0, 1.0) * 255 + 0.5));
}
