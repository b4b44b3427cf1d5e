// The conditional operator on half and bfloat. As classes that convert to float and back they have no type in common
// with float, as far as C++ is concerned; a marked one converts in one direction only. The translator writes
// (unmark, (c ? (mark, (a)) : (mark, (b)))), where operands of other types stay what they are, void included.
#pragma once

namespace mpsx {
template <class H>
struct marked_half {
  H value;
  MPSX_FN constexpr operator H() const { return value; }
  MPSX_FN constexpr operator float() const { return float(value); }
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
