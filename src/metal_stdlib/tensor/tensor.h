// tensor<ElementType, Extents, Descriptor>: a view of elements in device or threadgroup memory (MSL specification 4.0,
// section 2.21).
#pragma once

namespace mpsx {
// The translator replaces `threadgroup T` in a tensor's type by threadgroup_space<T> and omits other address spaces.
template <class T>
struct threadgroup_space {};
template <class T>
struct element_space {
  typedef T type;
  static constexpr bool is_threadgroup = false;
};
template <class T>
struct element_space<threadgroup_space<T>> {
  typedef T type;
  static constexpr bool is_threadgroup = true;
};

constexpr unsigned kMaxTensorRank = 8;
// The binding of a parameter of type tensor_handle, as the host passes it (python/mpsx/_shader.pyx).
struct tensor_binding {
  void* data;
  long size[kMaxTensorRank], stride[kMaxTensorRank];
};
}  // namespace mpsx

namespace metal {
struct tensor_handle {};
struct tensor_offset {};
struct tensor_inline {};

template <class ElementType, class Extents, class Descriptor = tensor_handle, class... Tags>
class tensor {
 public:
  typedef typename mpsx::element_space<ElementType>::type element_type;
  typedef mpsx::element_storage<element_type> mpsx_storage;
  typedef typename mpsx_storage::value_type value_type;
  typedef typename mpsx_storage::data_handle data_handle_type;
  typedef Extents extents_type;
  typedef typename Extents::index_type index_type;
  typedef Descriptor descriptor_type;
  typedef mpsx::tensor_binding mpsx_binding;
  static constexpr bool mpsx_in_threadgroup = mpsx::element_space<ElementType>::is_threadgroup;
  static_assert(!mpsx_in_threadgroup || !is_same_v<Descriptor, tensor_handle>,
                "tensor: a tensor in threadgroup memory must be a tensor_inline");

  static constexpr size_t get_rank() { return Extents::rank(); }
  static constexpr size_t get_static_extent(size_t d) { return Extents::static_extent(d); }

  tensor() = default;
  // Creates a packed tensor. Each dimension's stride is the product of the preceding extents.
  MPSX_FN tensor(typename mpsx_storage::pointer data, const Extents& size) : data_(data), size_(size) {
    index_type stride = 1;
    for (size_t d = 0; d < get_rank(); ++d) {
      stride_[d] = stride;
      stride *= size.extent(d);
    }
  }
  template <class I>
  MPSX_FN tensor(typename mpsx_storage::pointer data, const Extents& size, const array<I, Extents::rank()>& strides)
      : data_(data), size_(size) {
    for (size_t d = 0; d < get_rank(); ++d) stride_[d] = index_type(strides[d]);
  }
  // Converts a tensor that has different static extents or a different descriptor.
  template <class E, class F, class D, class... G>
  MPSX_FN tensor(const tensor<E, F, D, G...>& other) : data_(other.mpsx_data()), size_(other.mpsx_extents()) {
    for (size_t d = 0; d < get_rank(); ++d) stride_[d] = index_type(other.get_stride(d));
  }
  explicit MPSX_FN tensor(const mpsx::tensor_binding& bound) : data_(static_cast<data_handle_type>(bound.data)) {
    static_assert(!mpsx_storage::is_packed, "a tensor with elements of 4 bits cannot be bound to a buffer");
    array<index_type, Extents::rank()> size;
    for (size_t d = 0; d < get_rank(); ++d) {
      size[d] = index_type(bound.size[d]);
      stride_[d] = index_type(bound.stride[d]);
    }
    size_ = Extents(size);
  }

  MPSX_FN index_type get_extent(size_t d) const { return size_.extent(d); }
  MPSX_FN index_type get_stride(size_t d) const { return stride_[d]; }
  MPSX_FN typename mpsx_storage::pointer mpsx_data() const { return data_; }
  MPSX_FN const Extents& mpsx_extents() const { return size_; }

  // Returns the element at the given indices, which must be within the extents.
  template <class... I, class = enable_if_t<sizeof...(I) == Extents::rank()>>
  MPSX_FN element_type& operator[](I... i) const {
    const long index[] = {long(i)...};
    return element(index);
  }
  template <class I>
  MPSX_FN element_type& operator[](const array<I, Extents::rank()>& i) const {
    long index[Extents::rank()];
    for (size_t d = 0; d < get_rank(); ++d) index[d] = long(i[d]);
    return element(index);
  }

  // Returns the part of the tensor that starts at `begin`. slice<E...> also sets its extents, which must be within
  // bounds. An extent of dynamic_extent or dynamic_length_v<int> keeps the rest of the dimension.
  template <size_t... E, class... I, class = enable_if_t<sizeof...(I) == Extents::rank()>>
  MPSX_FN auto slice(I... begin) const {
    typedef conditional_t<sizeof...(E) == 0, dextents<index_type, Extents::rank()>,
                          extents<index_type, (E < kDynamicLength ? E : dynamic_extent)...>>
        S;
    static_assert(S::rank() == Extents::rank(), "slice: expected one extent per dimension");
    static_assert(fits_into<S>(), "slice: the static extents exceed the tensor's");
    const long at[] = {long(begin)...};
    array<index_type, Extents::rank()> size, stride;
    for (size_t d = 0; d < get_rank(); ++d) {
      const long left = long(size_.extent(d)) - at[d];
      size[d] = index_type(left > 0 ? left : 0);
      stride[d] = stride_[d];
    }
    typedef conditional_t<is_same_v<Descriptor, tensor_handle>, tensor<ElementType, S, tensor_handle, tensor_offset>,
                          tensor<ElementType, S, Descriptor, Tags...>>
        Slice;
    return Slice(data_ + offset(at), S(size), stride);
  }
  template <size_t... E, class... I>
  MPSX_FN auto static_slice(I... begin) const {
    return slice<E...>(begin...);
  }

 private:
  static constexpr size_t kDynamicLength = size_t(numeric_limits<int>::max());

  // Returns whether no static extent is larger than this tensor's.
  template <class S>
  static constexpr bool fits_into() {
    for (size_t d = 0; d < Extents::rank(); ++d)
      if (S::static_extent(d) != dynamic_extent && Extents::static_extent(d) != dynamic_extent &&
          S::static_extent(d) > Extents::static_extent(d))
        return false;
    return true;
  }
  MPSX_FN element_type& element(const long* index) const {
    static_assert(!mpsx_storage::is_packed, "elements of 4 bits can only be operands of matmul2d");
    return data_[offset(index)];
  }
  MPSX_FN long offset(const long* index) const {
    long sum = 0;
    for (size_t d = 0; d < get_rank(); ++d) sum += index[d] * long(stride_[d]);
    return sum;
  }
  typename mpsx_storage::pointer data_;
  Extents size_;
  index_type stride_[Extents::rank()];
};
template <class T, class I, size_t... E>
tensor(T*, const extents<I, E...>&) -> tensor<T, extents<I, E...>, tensor_inline>;
template <class T, class I, size_t... E, class J, size_t N>
tensor(T*, const extents<I, E...>&, const array<J, N>&) -> tensor<T, extents<I, E...>, tensor_inline>;

// Execution scopes: sets of threads that execute an operation together.
template <int N>
struct execution_threads {};
template <int N>
struct execution_simdgroups {};
typedef execution_threads<1> execution_thread;
typedef execution_simdgroups<1> execution_simdgroup;
}  // namespace metal

namespace mpsx {
template <class X>
struct is_tensor {
  static constexpr bool value = false;
};
template <class E, class S, class D, class... T>
struct is_tensor<metal::tensor<E, S, D, T...>> {
  static constexpr bool value = true;
};
template <class X>
constexpr bool is_tensor_v = is_tensor<metal::remove_cv_t<X>>::value;

// Whether X is a tensor with the descriptor D, or with the tag D.
template <class X, class D>
constexpr bool has_descriptor = false;
template <class E, class S, class D, class... T>
constexpr bool has_descriptor<metal::tensor<E, S, D, T...>, D> = true;
template <class X, class D>
constexpr bool has_tag = false;
template <class D, class E, class S, class F, class... T>
constexpr bool has_tag<metal::tensor<E, S, F, T...>, D> = (false || ... || metal::is_same_v<T, D>);

// The number of threads and SIMD groups in a scope. In wide mode, a threadgroup has one thread.
#if defined(MPSX_SIMT) || defined(MPSX_CUDA)
constexpr int kSimdThreads = MPSX_SIMD_WIDTH;
#else
constexpr int kSimdThreads = 1;
#endif
template <class Scope>
struct scope_size;
template <>
struct scope_size<metal::execution_thread> {
  static constexpr int threads = 1, simdgroups = 0;
};
template <int N>
struct scope_size<metal::execution_simdgroups<N>> {
  static constexpr int threads = kSimdThreads == 1 ? 1 : N * kSimdThreads, simdgroups = N;
};
}  // namespace mpsx

namespace metal {
template <class X>
constexpr bool is_tensor_handle_v = mpsx::has_descriptor<remove_cv_t<X>, tensor_handle>;
template <class X>
constexpr bool is_tensor_inline_v = mpsx::has_descriptor<remove_cv_t<X>, tensor_inline>;
template <class X>
constexpr bool has_tensor_offset_v = mpsx::has_tag<remove_cv_t<X>, tensor_offset>;
template <class X>
struct is_tensor_handle : bool_constant<is_tensor_handle_v<X>> {};
template <class X>
struct is_tensor_inline : bool_constant<is_tensor_inline_v<X>> {};
template <class X>
struct has_tensor_offset : bool_constant<has_tensor_offset_v<X>> {};
}  // namespace metal

#include "argument.h"
