// Declarations of Metal 4's tensors for clang in the address space check. declarations.h includes this for sources with
// tensors. A tensor's address space is part of its element type.
#pragma once

namespace metal {
constexpr size_t dynamic_extent = size_t(-1);
template <class I, size_t... E>
struct extents {
  constexpr extents();
  template <class... A> constexpr extents(A...);
  static constexpr size_t rank() { return sizeof...(E); }
  static constexpr size_t static_extent(size_t) { return 1; }
  constexpr I extent(size_t) const;
};
template <class I, size_t R, size_t... E> struct mpsx_dynamic_extents : mpsx_dynamic_extents<I, R - 1, size_t(-1), E...> {};
template <class I, size_t... E> struct mpsx_dynamic_extents<I, 0, E...> { typedef extents<I, E...> type; };
template <class I, size_t R> using dextents = typename mpsx_dynamic_extents<I, R>::type;

struct tensor_handle {};
struct tensor_offset {};
struct tensor_inline {};
template <int N> struct execution_threads {};
template <int N> struct execution_simdgroups {};
typedef execution_threads<1> execution_thread;
typedef execution_simdgroups<1> execution_simdgroup;

struct int4b_format {};
struct uint4b_format {};
template <class T> struct mpsx_data_handle { typedef T* type; };
#define MPSX_PACKED(SPACE)                                                           \
  template <> struct mpsx_data_handle<SPACE int4b_format> { typedef SPACE uchar* type; }; \
  template <> struct mpsx_data_handle<SPACE uint4b_format> { typedef SPACE uchar* type; };
MPSX_PACKED(device)
MPSX_PACKED(threadgroup)
#undef MPSX_PACKED

template <class T, class E, class D> struct mpsx_slice;
template <class T, class E, class D = tensor_handle, class... G>
struct tensor {
  typedef T element_type;
  typedef __remove_cv(T) value_type;
  typedef typename mpsx_data_handle<T>::type data_handle_type;
  typedef E extents_type;
  tensor();
  tensor(data_handle_type, const E&);
  template <class I, size_t N> tensor(data_handle_type, const E&, const array<I, N>&);
  template <class U, class F, class C, class... H, class = enable_if_t<is_convertible_v<U*, T*>>>
  tensor(const tensor<U, F, C, H...>&);
  static constexpr size_t get_rank() { return E::rank(); }
  static constexpr size_t get_static_extent(size_t) { return 1; }
  int get_extent(size_t) const;
  int get_stride(size_t) const;
  template <class... I> T& operator[](I...) const;
  template <size_t... S, class... I> typename mpsx_slice<T, dextents<int, sizeof...(I)>, D>::type slice(I...) const;
  template <size_t... S, class... I> typename mpsx_slice<T, dextents<int, sizeof...(I)>, D>::type static_slice(I...) const;
};
template <class T, class E, class D> struct mpsx_slice { typedef tensor<T, E, D> type; };
template <class T, class E> struct mpsx_slice<T, E, tensor_handle> { typedef tensor<T, E, tensor_handle, tensor_offset> type; };
template <class X> constexpr bool is_tensor_handle_v = true;
template <class X> constexpr bool is_tensor_inline_v = true;
template <class X> constexpr bool has_tensor_offset_v = true;
template <class T, class I, size_t... E>
tensor(T*, const extents<I, E...>&) -> tensor<T, extents<I, E...>, tensor_inline>;
template <class T, class I, size_t... E, class J, size_t N>
tensor(T*, const extents<I, E...>&, const array<J, N>&) -> tensor<T, extents<I, E...>, tensor_inline>;

template <class T>
struct mpsx_cooperative {
  typedef T element_type;
  static constexpr size_t get_rank() { return 2; }
  static constexpr ushort get_capacity() { return 1; }
  bool is_valid_element(int) const;
  bool is_valid_element(const T*) const;
  bool get_mask(int) const;
  array<int, 4> get_multidimensional_index(int) const;
  array<int, 4> get_multidimensional_index(const T*) const;
  T& operator[](int);
  T get(int) const;
  void set(int, T);
  T* begin();
  const T* begin() const;
  T* end();
  const T* end() const;
  T* get_iterator(int);
  const T* get_iterator(int) const;
  T* get_iterator(const T*);
  const T* get_iterator(const T*) const;
  template <class I> T* map_iterator(I);
  template <class I> const T* map_iterator(I) const;
  template <class U, class E, class... D> void load(const tensor<U, E, D...>&);
  template <class U, class E, class... D> void store(const tensor<U, E, D...>&) const;
};
}  // namespace metal
namespace mpp {
namespace tensor_ops {
namespace __tensor_ops_detail {
template <class T> using __remove_addrspace_t = T;
}
using __tensor_ops_detail::__remove_addrspace_t;
struct matmul2d_descriptor {
  enum class mode { multiply, multiply_accumulate };
  int m, n, k;
  bool transpose_left, transpose_right, relaxed_precision;
  mode matmul_mode;
  constexpr matmul2d_descriptor(int a, int b, int c = -1, bool d = false, bool e = false, bool f = false,
                                mode g = mode::multiply)
      : m(a), n(b), k(c), transpose_left(d), transpose_right(e), relaxed_precision(f), matmul_mode(g) {}
};
template <matmul2d_descriptor D, class S, class... A>
struct matmul2d {
#define MPSX_TENSOR(NAME)                                                                                   \
  template <class L, class R, class T, class... B> metal::mpsx_cooperative<T> NAME() const;                 \
  template <class L, class R, class T, class... B, class S> metal::mpsx_cooperative<T> NAME(const S&) const;
  MPSX_TENSOR(get_destination_cooperative_tensor)
  MPSX_TENSOR(get_row_reduction_destination_cooperative_tensor)
  MPSX_TENSOR(get_column_reduction_destination_cooperative_tensor)
#undef MPSX_TENSOR
#define MPSX_INPUT(NAME, X)                                                                                 \
  template <class L, class R, class T, class... B> metal::mpsx_cooperative<__remove_cv(X)> NAME() const;    \
  template <class L, class R, class T, class... B, class S> metal::mpsx_cooperative<__remove_cv(X)> NAME(const S&) const;
  MPSX_INPUT(get_left_input_cooperative_tensor, L)
  MPSX_INPUT(get_right_input_cooperative_tensor, R)
#undef MPSX_INPUT
  template <class... X> void run(X&&...) const;
};
}  // namespace tensor_ops
}  // namespace mpp
