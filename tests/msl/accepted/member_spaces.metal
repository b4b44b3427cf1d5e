// Member functions with address spaces, in every kind of class (section 4; section 5.12 for `this`).
#include <metal_stdlib>
using namespace metal;

typedef struct { short4 v[4]; device short4& operator[](const int i) device { return v[i]; } } Anonymous;
typedef struct Tagged {
  float v;
  thread float& get() thread { return v; }
  device float& get() device { return v; }
  threadgroup float& get() threadgroup { return v; }
  float get() const constant { return v; }
} Tagged, Pair[2];
typedef union Bits { float f; uint u; uint bits() const device { return u; } device uint& word() device { return u; } } Bits;
class Row {
 public:
  float a[2];
  const device float& at(uint i) const device { return a[i]; }
  threadgroup float* begin() threadgroup { return a; }
  device Row* self() device { return this; }
  void set(float x) device;
};
void Row::set(float x) device { a[0] = x; }
struct Outer {
  struct Inner { int k; device int& r() device { return k; } };
  typedef struct { int m; device int* q() device { return &m; } } Deep;
  Inner inner;
  Deep deep;
  device Inner& in() device { return inner; }
};
template <typename T>
struct Box {
  T x;
  Box() = default;
  Box(T y) thread : x(y) {}
  device T& get() device { return x; }
  threadgroup T& get() threadgroup { return x; }
  constant T& get() constant { return x; }
  T operator()(int i) const device { return x + T(i); }
  device Box& operator+=(T y) device { x += y; return *this; }
  auto twice() const device -> T { return x + x; }
};
typedef struct {
  int m[2];
  device int& operator[](int i) device { return m[i]; }
  const device int& operator[](int i) const device { return m[i]; }
  thread int& operator[](int i) { return m[i]; }
} Both;

kernel void k(device Anonymous* a [[buffer(0)]], device Tagged* b [[buffer(1)]], device Bits* u [[buffer(2)]],
              device Row* c [[buffer(3)]], device Outer* o [[buffer(4)]], device Box<float>* v [[buffer(5)]],
              constant Tagged& cb [[buffer(6)]], constant Box<int>& cv [[buffer(7)]], device Both* m [[buffer(8)]],
              uint i [[thread_position_in_grid]]) {
  threadgroup Tagged tb;
  threadgroup Row tr;
  Tagged local = b[i];
  thread float& of_local = local.get();
  device float& of_device = b[i].get();
  threadgroup float& of_group = tb.get();
  of_local = of_group = of_device + cb.get();
  a[i][1] = short4(2);
  b[i].v += u[i].bits() + tr.begin()[0] + c[i].self()->at(1);
  u[i].word() = 1;
  c[i].set(5);
  o[i].inner.r() = *o[i].deep.q() + o[i].in().k;
  v[i] += v[i](3) + cv.get() + v[i].twice();
  device float& of_box = v[i].get();
  of_box += 1;
  Both here = m[i];
  thread int& first = here[0];
  device int& second = m[i][1];
  second = first;
  struct Local { float f; device float& r() device { return f; } };
  ((device Local*)b)->r() = 1;
}
