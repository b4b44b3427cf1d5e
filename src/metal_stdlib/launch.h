// Building blocks of entry points: argument unpacking, and iteration over the threads or threadgroups of a dispatch.
#pragma once

namespace mpsx {
// Provides the parameter types of a kernel.
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

// Converts a buffer address to parameter type P, a pointer or reference.
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
// Passes a constant argument by value, which lets the compiler assume that no store changes it.
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

// Returns the address of an argument, or the address of zeros if a function constant disables the argument. A kernel
// may read it before the condition that guards it. On a GPU such a read does not fault, so it must not fault here
// either.
template <class P>
MPSX_FN P address_or_zero(void* p) {
  alignas(64) static unsigned char zero[4096];
  return argument<metal::remove_cv_t<P>>::from(p ? p : zero);
}

// The values of the running kernel's function constants. They are per thread, because other threads may run the same
// kernel with other values (on a GPU, each set of values has its own module). The engine owns this memory, so accesses
// are not checked.
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

// Converts a position to the kernel's parameter type: ushort or uint, scalar or a vector of 2 or 3.
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

// Splits threads or threadgroups [begin, end) of a grid into runs along x. Divides only once, because grids may have
// short rows.
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
