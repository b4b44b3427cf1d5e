// <metal_array>: array<T, N>, an aggregate type (MSL specification 3.2, section 2.13).
#pragma once

namespace metal {
template <class T, size_t N>
struct array {
  T __elems[N];
  typedef T value_type;
  typedef T* iterator;
  typedef const T* const_iterator;
  MPSX_FN constexpr T& operator[](size_t i) { return MPSX_ELEMENT(__elems, N, i); }
  MPSX_FN constexpr const T& operator[](size_t i) const { return MPSX_ELEMENT(__elems, N, i); }
  MPSX_FN constexpr T& at(size_t i) { return (*this)[i]; }
  MPSX_FN constexpr const T& at(size_t i) const { return (*this)[i]; }
  MPSX_FN constexpr T* data() { return __elems; }
  MPSX_FN constexpr const T* data() const { return __elems; }
  MPSX_FN constexpr T* begin() { return __elems; }
  MPSX_FN constexpr const T* begin() const { return __elems; }
  MPSX_FN constexpr T* end() { return __elems + N; }
  MPSX_FN constexpr const T* end() const { return __elems + N; }
  MPSX_FN constexpr T& front() { return __elems[0]; }
  MPSX_FN constexpr const T& front() const { return __elems[0]; }
  MPSX_FN constexpr T& back() { return __elems[N - 1]; }
  MPSX_FN constexpr const T& back() const { return __elems[N - 1]; }
  MPSX_FN constexpr void fill(const T& v) {
    for (size_t i = 0; i < N; ++i) __elems[i] = v;
  }
  static constexpr size_t size() { return N; }
  static constexpr size_t max_size() { return N; }
  static constexpr bool empty() { return N == 0; }
};
template <class T, class... U>
array(T, U...) -> array<T, 1 + sizeof...(U)>;

// A view of contiguous elements.
template <class T>
struct array_ref {
  MPSX_FN constexpr array_ref() : data_(nullptr), size_(0) {}
  MPSX_FN constexpr array_ref(const T* data, size_t size) : data_(data), size_(size) {}
  template <size_t N>
  MPSX_FN constexpr array_ref(const T (&a)[N]) : data_(a), size_(N) {}
  template <size_t N>
  MPSX_FN constexpr array_ref(const array<T, N>& a) : data_(a.data()), size_(N) {}
  MPSX_FN constexpr const T& operator[](size_t i) const { return data_[i]; }
  MPSX_FN constexpr const T* data() const { return data_; }
  MPSX_FN constexpr const T* begin() const { return data_; }
  MPSX_FN constexpr const T* end() const { return data_ + size_; }
  MPSX_FN constexpr size_t size() const { return size_; }
  MPSX_FN constexpr bool empty() const { return size_ == 0; }

 private:
  const T* data_;
  size_t size_;
};
template <class T, size_t N>
MPSX_FN constexpr array_ref<T> make_array_ref(const T (&a)[N]) {
  return a;
}
}  // namespace metal
