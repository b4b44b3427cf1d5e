// cooperative_tensor<ElementType, Extents, Layout>: a tensor distributed over the registers of a scope's threads (MSL
// specification 4.0, section 2.22).
#pragma once

namespace mpsx {
// The coordinates of a cooperative tensor's elements. Coordinate 0 is the column.
template <class L>
struct coordinates {
  static constexpr size_t kRank = 2;
  typedef metal::extents<int, size_t(L::kColumns), size_t(L::kRows)> extents_type;
  static MPSX_FN int at(int thread, int i, size_t d) {
    return d == 0 ? element_column<L>(thread, i) : element_row<L>(thread, i);
  }
};
template <class L, bool OF_ROWS>
struct coordinates<reduced_layout<L, OF_ROWS>> {
  static constexpr size_t kRank = 1;
  typedef metal::extents<int, size_t(reduced_layout<L, OF_ROWS>::kSize)> extents_type;
  static MPSX_FN int at(int thread, int i, size_t) { return reduced_layout<L, OF_ROWS>::position(thread, i); }
};
// Stores all elements of a layout to a tensor. A specialization that sets `exists` replaces the generic loop.
template <class L>
struct matrix_store {
  static constexpr bool exists = false;
};
template <class L>
struct layout_scope {
  typedef typename L::scope type;
};
template <class L, bool OF_ROWS>
struct layout_scope<reduced_layout<L, OF_ROWS>> : layout_scope<L> {};
// How often to unroll a loop over the elements that a thread holds. Unrolling the whole loop keeps them in registers,
// unless a single thread holds a matrix that is larger than its registers.
template <class L>
constexpr int kElementUnroll =
    scope_size<typename layout_scope<L>::type>::simdgroups == 0 && L::kCapacity > 256 ? 1 : L::kCapacity;
}  // namespace mpsx

namespace metal {
// Layout is mpsx::cooperative_layout<L, C, Operands...>, where C is the coordinate type.
template <class ElementType, class Extents, class Layout>
class cooperative_tensor {
 public:
  typedef ElementType element_type;
  typedef ElementType value_type;
  typedef Extents extents_type;
  typedef typename Layout::coordinate_type index_type;
  typedef Layout layout_type;
  typedef typename Layout::layout mpsx_layout;
  typedef mpsx::coordinates<mpsx_layout> mpsx_coordinates;
  static constexpr size_t mpsx_rank = mpsx_coordinates::kRank;

  // Iterates over all elements that a thread holds, including invalid ones. Tensor is cooperative_tensor or const.
  template <class Tensor>
  class basic_iterator {
   public:
    MPSX_FN basic_iterator(Tensor* tensor, int i) : tensor_(tensor), i_(i) {}
    MPSX_FN operator basic_iterator<const Tensor>() const { return {tensor_, i_}; }
    MPSX_FN auto& operator*() const { return (*tensor_)[i_]; }
    MPSX_FN auto* operator->() const { return &(*tensor_)[i_]; }
    MPSX_FN basic_iterator& operator++() { return *this += 1; }
    MPSX_FN basic_iterator operator++(int) {
      basic_iterator before(*this);
      ++i_;
      return before;
    }
    MPSX_FN basic_iterator& operator--() { return *this += -1; }
    MPSX_FN basic_iterator operator--(int) {
      basic_iterator before(*this);
      --i_;
      return before;
    }
    MPSX_FN basic_iterator& operator+=(int n) {
      i_ += n;
      return *this;
    }
    MPSX_FN basic_iterator& operator-=(int n) { return *this += -n; }
    MPSX_FN basic_iterator operator+(int n) const { return {tensor_, i_ + n}; }
    MPSX_FN basic_iterator operator-(int n) const { return {tensor_, i_ - n}; }
    MPSX_FN ptrdiff_t operator-(const basic_iterator& other) const { return i_ - other.i_; }
    MPSX_FN auto& operator[](int n) const { return (*tensor_)[i_ + n]; }
    MPSX_FN bool operator==(const basic_iterator& other) const { return i_ == other.i_; }
    MPSX_FN bool operator!=(const basic_iterator& other) const { return i_ != other.i_; }
    MPSX_FN bool operator<(const basic_iterator& other) const { return i_ < other.i_; }
    MPSX_FN bool is_valid_element() const { return tensor_->is_valid_element(i_); }
    MPSX_FN auto get_multidimensional_index() const { return tensor_->get_multidimensional_index(i_); }
    typedef mpsx_layout mpsx_source;
    MPSX_FN int mpsx_index() const { return i_; }

   private:
    Tensor* tensor_;
    int i_;
  };
  typedef basic_iterator<cooperative_tensor> iterator;
  typedef basic_iterator<const cooperative_tensor> const_iterator;

  static constexpr size_t get_rank() { return mpsx_rank; }
  static constexpr ushort get_capacity() { return ushort(mpsx_layout::kCapacity); }
  // Returns whether element i of this thread is inside the tensor.
  MPSX_FN bool is_valid_element(int i) const {
    for (size_t d = 0; d < mpsx_rank; ++d)
      if (coordinate(i, d) >= int(Extents::static_extent(d))) return false;
    return true;
  }
  MPSX_FN bool is_valid_element(const_iterator i) const { return is_valid_element(i.mpsx_index()); }
  MPSX_FN bool is_valid_element(const ElementType* element) const { return is_valid_element(get_iterator(element)); }
  MPSX_FN bool get_mask(int i) const { return is_valid_element(i); }
  // Returns the coordinates of element i, starting with the one that varies fastest. For a matrix, this is (column,
  // row).
  MPSX_FN array<index_type, mpsx_rank> get_multidimensional_index(int i) const {
    array<index_type, mpsx_rank> index;
    for (size_t d = 0; d < mpsx_rank; ++d) index[d] = index_type(coordinate(i, d));
    return index;
  }
  MPSX_FN auto get_multidimensional_index(const_iterator i) const { return get_multidimensional_index(i.mpsx_index()); }
  MPSX_FN auto get_multidimensional_index(const ElementType* element) const {
    return get_multidimensional_index(get_iterator(element));
  }
  MPSX_FN ElementType& operator[](int i) { return MPSX_ELEMENT(elements_, mpsx_layout::kCapacity, i); }
  MPSX_FN const ElementType& operator[](int i) const { return MPSX_ELEMENT(elements_, mpsx_layout::kCapacity, i); }
  // Elements outside the tensor read as zero, and are not written.
  MPSX_FN ElementType get(int i) const { return is_valid_element(i) ? (*this)[i] : ElementType(); }
  MPSX_FN void set(int i, ElementType value) {
    if (is_valid_element(i)) (*this)[i] = value;
  }
  MPSX_FN iterator begin() { return {this, 0}; }
  MPSX_FN const_iterator begin() const { return {this, 0}; }
  MPSX_FN iterator end() { return {this, mpsx_layout::kCapacity}; }
  MPSX_FN const_iterator end() const { return {this, mpsx_layout::kCapacity}; }
  MPSX_FN iterator get_iterator(int i) { return {this, i}; }
  MPSX_FN const_iterator get_iterator(int i) const { return {this, i}; }
  MPSX_FN iterator get_iterator(ElementType* element) { return {this, int(element - elements_)}; }
  MPSX_FN const_iterator get_iterator(const ElementType* element) const { return {this, int(element - elements_)}; }

  // For a tensor with one value per row (or column), returns an iterator to the value of the row (or column) that
  // `other` points to. Requires mpp::tensor_ops::is_iterator_compatible.
  template <class I>
  MPSX_FN iterator map_iterator(const I& other) {
    return {this, mapped_index(other)};
  }
  template <class I>
  MPSX_FN const_iterator map_iterator(const I& other) const {
    return {this, mapped_index(other)};
  }

  // Copies only the elements that are within the extents of both tensors. As in Apple's headers, the element types must
  // be the same.
  template <class E, class S, class D, class... T>
  MPSX_FN void load(const tensor<E, S, D, T...>& source) {
    check_type<tensor<E, S, D, T...>>();
    visit(source, [&](int i, auto& element) __attribute__((always_inline)) { elements_[i] = element; });
  }
  template <class E, class S, class D, class... T>
  MPSX_FN void store(const tensor<E, S, D, T...>& target) const {
    check_type<tensor<E, S, D, T...>>();
    mpsx_store(target);
  }
  // Converts the elements.
  template <class X>
  MPSX_FN void mpsx_store(const X& target) const {
    if constexpr (mpsx::matrix_store<mpsx_layout>::exists)
      mpsx::matrix_store<mpsx_layout>::store(elements_, target);
    else
      visit(target, [&](int i, auto& element)
                        __attribute__((always_inline)) { element = typename X::value_type(elements_[i]); });
  }

  MPSX_FN const ElementType* mpsx_elements() const { return elements_; }
  MPSX_FN ElementType* mpsx_elements() { return elements_; }

 private:
  MPSX_FN int coordinate(int i, size_t d) const {
    return mpsx_coordinates::at(mpsx::scope_thread<typename mpsx::layout_scope<mpsx_layout>::type>(), i, d);
  }
  template <class X>
  static constexpr void check_type() {
    static_assert(is_same_v<remove_cv_t<typename X::value_type>, ElementType>,
                  "load and store: expected a tensor with the cooperative tensor's element type. To convert elements, "
                  "copy them to another cooperative tensor, or store them by their multidimensional index");
  }
  template <class I>
  static MPSX_FN int mapped_index(const I& other) {
    return mpsx_layout::kOfRows ? I::mpsx_source::row_slot(other.mpsx_index())
                                : I::mpsx_source::column_slot(other.mpsx_index());
  }
  template <class T, class F>
  MPSX_FN void visit(const T& tensor, F f) const {
    static_assert(T::get_rank() == mpsx_rank, "load and store: expected a tensor of the cooperative tensor's rank");
    const int thread = mpsx::scope_thread<typename mpsx::layout_scope<mpsx_layout>::type>();
    MPSX_UNROLL_BY(mpsx::kElementUnroll<mpsx_layout>)
    for (int i = 0; i < mpsx_layout::kCapacity; ++i) {
      array<long, mpsx_rank> at;
      bool inside = true;
      for (size_t d = 0; d < mpsx_rank; ++d) {
        at[d] = mpsx_coordinates::at(thread, i, d);
        inside = inside && at[d] < long(Extents::static_extent(d)) && at[d] < long(tensor.get_extent(d));
      }
      if (inside) f(i, tensor[at]);
    }
  }
  ElementType elements_[mpsx_layout::kCapacity] = {};
};
}  // namespace metal

namespace mpsx {
// Operands are the element types of the operands of the operation that the tensor was created for, if it matters.
template <class L, class C = int, class... Operands>
struct cooperative_layout {
  typedef L layout;
  typedef C coordinate_type;
};
template <class T, class L, class C = int, class... Operands>
using cooperative =
    metal::cooperative_tensor<T, typename coordinates<L>::extents_type, cooperative_layout<L, C, Operands...>>;
// Whether a cooperative tensor was created for operands with these element types.
template <class X, class... Operands>
constexpr bool is_for_operands = false;
template <class T, class E, class L, class C, class... Operands>
constexpr bool is_for_operands<metal::cooperative_tensor<T, E, cooperative_layout<L, C, Operands...>>, Operands...> =
    true;

template <class X>
struct is_cooperative {
  static constexpr bool value = false;
};
template <class T, class E, class L>
struct is_cooperative<metal::cooperative_tensor<T, E, L>> {
  static constexpr bool value = true;
};
template <class X>
constexpr bool is_cooperative_v = is_cooperative<metal::remove_cv_t<X>>::value;
}  // namespace mpsx
