// The conditional operator for half and bfloat. Both are classes that convert to and from float, so C++ finds no common
// type for operands of type half and float. The translator therefore writes (unmark, (c ? (mark, (a)) : (mark, (b)))).
// Marking wraps a half in a type that converts only to float (or back to half) and that integers convert to. It does
// not change operands of other types, including void.
#pragma once

namespace mpsx {
template <class H>
struct marked_half {
  H value;
  marked_half() = default;
  MPSX_FN constexpr marked_half(const H& v) : value(v) {}
  template <class I, metal::enable_if_t<metal::is_integral_v<I> || __is_enum(I), int> = 0>
  MPSX_FN constexpr marked_half(I v) : value(H(v)) {}
  // This must be a template. A plain conversion to float would allow further conversions, to other arithmetic types.
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
