// Sizes of tensors (MSL specification 4.0, section 2.21). Extent 0 varies fastest in memory.
#pragma once

namespace metal {
inline constexpr size_t dynamic_extent = size_t(-1);

template <class Index, size_t... E>
class extents {
 public:
  typedef Index index_type;
  typedef make_unsigned_t<Index> size_type;
  typedef size_t rank_type;

  static constexpr size_t rank() { return sizeof...(E); }
  static constexpr size_t rank_dynamic() { return (size_t(0) + ... + size_t(E == dynamic_extent)); }
  // Returns the size of dimension d, or dynamic_extent if it is known only at run time.
  static constexpr size_t static_extent(size_t d) {
    constexpr size_t sizes[] = {E..., 0};
    return sizes[d];
  }

  MPSX_FN constexpr extents() : size_{} { set_static(); }
  // Accepts either the sizes of all dimensions or only those of the dynamic dimensions.
  template <class... I, class = enable_if_t<sizeof...(I) != 0 && (is_integral_v<I> && ...) &&
                                            (sizeof...(I) == rank() || sizeof...(I) == rank_dynamic())>>
  MPSX_FN constexpr extents(I... sizes) : size_{} {
    const Index given[] = {Index(sizes)...};
    set(given, sizeof...(I) == rank());
  }
  template <class I, size_t N, class = enable_if_t<N == rank() || N == rank_dynamic()>>
  MPSX_FN constexpr extents(const array<I, N>& sizes) : size_{} {
    Index given[N] = {};
    for (size_t d = 0; d < N; ++d) given[d] = Index(sizes[d]);
    set(given, N == rank());
  }
  template <class I, size_t... F, class = enable_if_t<sizeof...(F) == rank()>>
  MPSX_FN constexpr extents(const extents<I, F...>& other) : size_{} {
    for (size_t d = 0; d < rank(); ++d) size_[d] = Index(other.extent(d));
    set_static();
  }

  MPSX_FN constexpr Index extent(size_t d) const { return size_[d]; }

 private:
  MPSX_FN constexpr void set(const Index* given, bool all) {
    size_t next = 0;
    for (size_t d = 0; d < rank(); ++d)
      if (all || static_extent(d) == dynamic_extent) size_[d] = given[all ? d : next++];
    set_static();
  }
  MPSX_FN constexpr void set_static() {
    for (size_t d = 0; d < rank(); ++d)
      if (static_extent(d) != dynamic_extent) size_[d] = Index(static_extent(d));
  }
  Index size_[rank() ? rank() : 1];
};

template <class Index, size_t R, size_t... E>
struct mpsx_dynamic_extents : mpsx_dynamic_extents<Index, R - 1, dynamic_extent, E...> {};
template <class Index, size_t... E>
struct mpsx_dynamic_extents<Index, 0, E...> {
  typedef extents<Index, E...> type;
};
template <class Index, size_t R>
using dextents = typename mpsx_dynamic_extents<Index, R>::type;
}  // namespace metal
