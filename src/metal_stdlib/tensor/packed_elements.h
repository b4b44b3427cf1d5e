// Tensor elements of 4 bits (macOS 26.4). Two of them share a byte: the one with the even index is in the low half, as
// published probes of Apple GPUs found.
#pragma once

namespace metal {
struct int4b_format {};
struct uint4b_format {};
}  // namespace metal

namespace mpsx {
// Points to elements of 4 bits. Their values have the type T: char for signed elements, uchar for others.
template <class T>
class packed_pointer {
 public:
  packed_pointer() = default;
  MPSX_FN packed_pointer(metal::uchar* bytes, long index = 0) : bytes_(bytes), index_(index) {}
  MPSX_FN packed_pointer operator+(long i) const { return {bytes_, index_ + i}; }
  MPSX_FN T operator[](long i) const {
    const long at = index_ + i;
    const unsigned bits = unsigned(bytes_[at >> 1]) >> (at & 1) * 4 & 15u;
    return T(metal::is_signed_v<T> ? int(bits ^ 8u) - 8 : int(bits));
  }

 private:
  metal::uchar* bytes_;
  long index_;  // index of the first element
};

// How tensors of element type T store their elements: the types of values, of pointers to elements, and of the pointer
// from which a kernel creates a tensor.
template <class T>
struct element_storage {
  typedef metal::remove_cv_t<T> value_type;
  typedef T* pointer;
  typedef T* data_handle;
  static constexpr bool is_packed = false;
};
template <class T>
struct packed_storage {
  typedef T value_type;
  typedef packed_pointer<T> pointer;
  typedef metal::uchar* data_handle;
  static constexpr bool is_packed = true;
};
template <>
struct element_storage<metal::int4b_format> : packed_storage<char> {};
template <>
struct element_storage<metal::uint4b_format> : packed_storage<metal::uchar> {};
}  // namespace mpsx
