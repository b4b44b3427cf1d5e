// The conditional operator for half and bfloat. They are classes that convert to and from float, so C++ finds no common
// type of half and float. The translator therefore writes (unmark, (c ? (mark, (a)) : (mark, (b)))). A marked half
// converts only to float, and integers convert to a marked half. Operands of other types, including void, are returned
// unchanged.
#pragma once

namespace mpsx {
template <class H>
struct marked_half {
  H value;
  marked_half() = default;
  MPSX_FN constexpr marked_half(const H& v) : value(v) {}
  template <class I, metal::enable_if_t<metal::is_integral_v<I> || __is_enum(I), int> = 0>
  MPSX_FN constexpr marked_half(I v) : value(H(v)) {}
  // A template, because a plain conversion to float would also convert to other arithmetic types.
  template <class F, metal::enable_if_t<metal::is_same_v<F, float> || metal::is_same_v<F, H>, int> = 0>
  MPSX_FN constexpr operator F() const {
    return F(value);
  }
};
struct mark_t {};
struct unmark_t {};
inline constexpr mark_t mark{};
inline constexpr unmark_t unmark{};
template <class T>
constexpr bool needs_mark = metal::mpsx_is_small<metal::remove_cvref_t<T>>&& __is_class(metal::remove_cvref_t<T>);
template <class T, metal::enable_if_t<!needs_mark<T>, int> = 0>
MPSX_FN constexpr T operator,(mark_t, T&& v) {
  return static_cast<T&&>(v);
}
template <class T, metal::enable_if_t<needs_mark<T>, int> = 0>
MPSX_FN constexpr marked_half<metal::remove_cvref_t<T>> operator,(mark_t, T&& v) {
  return {v};
}
template <class T>
MPSX_FN constexpr T operator,(unmark_t, T&& v) {
  return static_cast<T&&>(v);
}
template <class H>
MPSX_FN constexpr H operator,(unmark_t, marked_half<H>&& v) {
  return v.value;
}
}  // namespace mpsx
