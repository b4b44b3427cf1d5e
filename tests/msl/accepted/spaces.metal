// Address-space usage from published kernels that plain clang rejects or that is only just legal.
#include <metal_stdlib>
using namespace metal;

struct Block {
  half scale;
  uchar bits[16];
};
struct Shape {
  int rank;
  long sizes[4];
};
struct Pair {
  float a, b;
  Pair plus(Pair o) const { return {a + o.a, b + o.b}; }
  Pair operator*(float s) const { return {a * s, b * s}; }
};
struct Complex {
  float re, im;
  Complex(float r) thread : re(r), im(0) {}
  Complex(float r, float i) : re(r), im(i) {}
  template <typename T>
  static Complex of(T r) { return Complex(float(r), 0.0f); }
  float norm() const thread { return re * re + im * im; }
  float norm() const device { return re * re + im * im; }
  float norm() const threadgroup { return re * re + im * im; }
  float norm() const constant { return re * re + im * im; }
};
struct Tables {
  device float* rows[2];
  constant Shape* shape;
};
constant float kTable[4] = {0.5, 1.0, 2.0, 4.0};
constant constexpr const uint kWidth = 32;
constexpr constant char kName[] = "table";
constant const char* constant kOther = "pointer";
template <typename T>
constexpr constant T kOne = T(1);
typedef device float* out_ptr;
template <typename P>
using pointee = decltype(*P());

float at(constant Shape& s, long i) { return float(s.sizes[i]); }
float at(device const Shape& s, long i) { return float(s.sizes[i]); }
float at(thread const Shape& s, long i) { return float(s.sizes[i]); }
Pair both(Pair p) { return p.plus(p); }
template <typename T>
T first(device const T* p) { return p[0]; }
template <typename T>
T first(threadgroup const T* p) { return p[0]; }
template <typename P>
float any_first(P p) { return p[0]; }
template <typename T>
void swap_in_thread(thread T& a, thread T& b) {
  const T t = a;
  a = b;
  b = t;
}
inline void note(constant const char* text, device uint* log) { log[0] = uint(text[0]); }
void dequantize(device const Block* block, short half_index, thread half4x4& reg) {
  device const uchar* q = block->bits + 8 * half_index;
  const half d = block->scale;
  for (int i = 0; i < 16; ++i) reg[i / 4][i % 4] = d * half(q[i % 8] & 15);
}
template <typename T, void (*load)(device const T*, short, thread half4x4&)>
float through(device const T* block) {
  half4x4 m;
  load(block, 0, m);
  return float(m[0][0]);
}

kernel void spaces(device float* out [[buffer(0)]], constant Shape& shape [[buffer(1)]],
                   device const Pair* pairs [[buffer(2)]], constant Tables& tables [[buffer(3)]],
                   device const Block* blocks [[buffer(4)]], device atomic_uint* counters [[buffer(5)]],
                   threadgroup float* dynamic [[threadgroup(0)]], uint i [[thread_position_in_grid]],
                   ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float scratch[kWidth];
  threadgroup Pair one_pair;
  threadgroup atomic_uint count;
  Shape local = shape;
  Pair p = pairs[i];
  p = pairs[i + 1];
  const Pair q = both(pairs[i]);
  one_pair = p;
  Pair r = one_pair;
  auto s = pairs[0];
  device const Pair& alias = pairs[2];
  device const Pair* end = &pairs[3];
  thread float* mine = &p.a;
  device float* row = tables.rows[0];
  constant Shape* deep = tables.shape;
  out_ptr o = out + i;
  swap_in_thread(p.a, p.b);
  atomic_store_explicit(&count, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&count, 1u, memory_order_relaxed);
  uint expected = 0;
  atomic_compare_exchange_weak_explicit(counters, &expected, 1u, memory_order_relaxed, memory_order_relaxed);
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst);
  device float4* wide = (device float4*)(out + 4 * i);
  device const half* narrow = (device const half*)blocks;
  device const char* bytes = reinterpret_cast<device const char*>(pairs) + 8;
  threadgroup half* halves = (threadgroup half*)scratch;
  constant uint* words = (constant uint*)&shape;
  auto step = [&](float x) { return x + scratch[lane] + q.a; };
  note("text", (device uint*)out);
  note(kName, (device uint*)out);
  scratch[lane] = dynamic[lane] = at(local, 0) + at(shape, 1) + at(*deep, 2);
  for (auto v : shape.sizes) o[0] += v;
  float4 v = wide[0];
  v.xy = v.zw;
  v.x = step(first(scratch)) + first(row) + any_first(out) + any_first(scratch) + any_first(kTable) + any_first(mine);
  v.yzw *= kOne<float>;
  wide[0] = select(v, float4(alias.a), v < 0.0f);
  if (any(v > float4(0)) && end != nullptr) out[i] = narrow[0] + bytes[0] + halves[0] + words[0];
  out[i] += through<Block, dequantize>(blocks) + r.a + s.b + kTable[lane & 3] + Complex::of(2).norm();
}
