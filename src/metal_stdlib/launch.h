// Building blocks of entry points: they unpack arguments and iterate over the threads or threadgroups of a dispatch.
#pragma once

namespace mpsx {
// The parameter types of a kernel.
template <class F>
struct signature;
template <class... P>
struct signature<void(P...)> {
  template <int I, class First, class... Rest>
  struct pick : pick<I - 1, Rest...> {};
  template <class First, class... Rest>
  struct pick<0, First, Rest...> {
    typedef First type;
  };
  template <int I>
  using at = typename pick<I, P...>::type;
};

// Converts a buffer address to the parameter type P, which is a pointer or a reference.
template <class P>
struct argument;
template <class T>
struct argument<T*> {
  static MPSX_FN T* from(void* p) { return static_cast<T*>(p); }
};
template <class T>
struct argument<T&> {
  static MPSX_FN T& from(void* p) { return *static_cast<T*>(p); }
};
template <class P>
MPSX_FN P address(void* p) {
  return argument<metal::remove_cv_t<P>>::from(p);
}
// Passes a constant argument by value, so the compiler may assume that no store changes it.
template <class P>
MPSX_FN metal::remove_const_t<metal::remove_reference_t<P>> value(void* p) {
  return argument<P>::from(p);
}

// Like value(), but returns zero for an argument that a function constant disables.
template <class P>
MPSX_FN metal::remove_const_t<metal::remove_reference_t<P>> value_or_zero(void* p) {
  typedef metal::remove_const_t<metal::remove_reference_t<P>> V;
  return p ? argument<P>::from(p) : V();
}

// Returns the address of an argument or, if a function constant disables the argument, the address of zeros. The
// compiler may move a read of the argument before the condition that guards it. That does not fault on a GPU, so it
// must not fault here.
template <class P>
MPSX_FN P address_or_zero(void* p) {
  alignas(64) static unsigned char zero[4096];
  return argument<metal::remove_cv_t<P>>::from(p ? p : zero);
}

// The function constants of the running kernel. They are thread-local, because other threads may be running the kernel
// with different values. (On a GPU, each set of values has its own module.) The engine owns this memory, so accesses to
// it are not checked.
#ifndef MPSX_UNCHECKED_SPACE
#define MPSX_UNCHECKED_SPACE
#endif
static MPSX_THREAD_LOCAL const void* const MPSX_UNCHECKED_SPACE* constants;
MPSX_FN void set_constants(const mpsx_launch* launch) {
  constants = (const void* const MPSX_UNCHECKED_SPACE*)((const MPSX_UNCHECKED_SPACE mpsx_launch*)launch)->constants;
}
MPSX_FN bool constant_defined(int i) { return constants && constants[i]; }
template <class T>
MPSX_FN T function_constant(int i) {
  if (!constant_defined(i)) return T();
  alignas(T) unsigned char bytes[sizeof(T)];
  for (unsigned k = 0; k < sizeof(T); ++k) bytes[k] = ((const MPSX_UNCHECKED_SPACE unsigned char*)constants[i])[k];
  return *reinterpret_cast<T*>(bytes);
}
template <class T>
constexpr const char* scalar_name() {
  typedef typename metal::mpsx_vector<T>::scalar S;
#define MPSX_NAME(N) metal::is_same_v<S, metal::N> ? #N:
  return metal::is_same_v<S, bool>    ? "bool"
         : metal::is_same_v<S, char>  ? "char"
         : metal::is_same_v<S, short> ? "short"
         : metal::is_same_v<S, int>   ? "int"
         : metal::is_same_v<S, long>  ? "long"
         : metal::is_same_v<S, float> ? "float"
         : MPSX_NAME(half) MPSX_NAME(bfloat) MPSX_NAME(uchar) MPSX_NAME(ushort) MPSX_NAME(uint) MPSX_NAME(ulong)
         metal::is_same_v<S, metal::int8_t> ? "char" : "unknown";
#undef MPSX_NAME
}

// Converts a position to the type of the kernel's parameter: ushort or uint, as a scalar or as a vector of 2 or 3.
template <class P>
MPSX_FN P position(unsigned x, unsigned y, unsigned z) {
  typedef typename metal::mpsx_vector<P>::scalar S;
  if constexpr (metal::mpsx_vector<P>::size == 3)
    return P(S(x), S(y), S(z));
  else if constexpr (metal::mpsx_vector<P>::size == 2)
    return P(S(x), S(y));
  else
    return P(x);
}

// Splits threads or threadgroups [begin, end) of a grid into runs along x. It divides only once, not for each run,
// because runs may be short.
struct runs {
  unsigned nx, ny, nz, x0, x1, y, z;
  unsigned long long at, end;
  MPSX_FN runs(const unsigned* grid, unsigned long long begin, unsigned long long stop)
      : nx(grid[0]), ny(grid[1]), nz(grid[2]), x0(0), x1(0), y(0), z(0), at(begin), end(stop) {
    if (begin >= stop) return;
    const unsigned long long row = begin / nx;
    x1 = unsigned(begin - row * nx);
    y = unsigned(row % ny);
    z = unsigned(row / ny);
  }
  MPSX_FN bool next() {
    if (at >= end) return false;
    x0 = x1;
    if (x0 == nx) {
      x0 = 0;
      if (++y == ny) {
        y = 0;
        ++z;
      }
    }
    const unsigned long long left = end - at;
    x1 = left < nx - x0 ? unsigned(x0 + left) : nx;
    at += x1 - x0;
    return true;
  }
};
}  // namespace mpsx
