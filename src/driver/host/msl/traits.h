// <metal_type_traits>.
#pragma once

namespace metal {
struct half;
struct bfloat;
template <class T, T V>
struct integral_constant {
  static constexpr T value = V;
  typedef T value_type;
  typedef integral_constant type;
  constexpr operator T() const { return V; }
};
template <bool B>
using bool_constant = integral_constant<bool, B>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;

template <bool B, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  typedef T type;
};
template <bool B, class T = void>
using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F>
struct conditional {
  typedef T type;
};
template <class T, class F>
struct conditional<false, T, F> {
  typedef F type;
};
template <bool B, class T, class F>
using conditional_t = typename conditional<B, T, F>::type;
template <class...>
using void_t = void;

#define MPSX_TRANSFORM(NAME, FROM, TO)      \
  template <class T>                        \
  struct NAME {                             \
    typedef T type;                         \
  };                                        \
  template <class T>                        \
  struct NAME<FROM> {                       \
    typedef TO type;                        \
  };                                        \
  template <class T>                        \
  using NAME##_t = typename NAME<T>::type;
MPSX_TRANSFORM(remove_const, const T, T)
MPSX_TRANSFORM(remove_volatile, volatile T, T)
MPSX_TRANSFORM(remove_pointer, T*, T)
#undef MPSX_TRANSFORM
template <class T>
struct remove_reference {
  typedef T type;
};
template <class T>
struct remove_reference<T&> {
  typedef T type;
};
template <class T>
struct remove_reference<T&&> {
  typedef T type;
};
template <class T>
using remove_reference_t = typename remove_reference<T>::type;
template <class T>
using remove_cv_t = remove_const_t<remove_volatile_t<T>>;
template <class T>
struct remove_cv {
  typedef remove_cv_t<T> type;
};
template <class T>
using decay_t = remove_cv_t<remove_reference_t<T>>;
template <class T>
struct decay {
  typedef decay_t<T> type;
};
template <class T>
T&& declval() noexcept;

// A trait is a constant first; the struct of the same name wraps it.
#define MPSX_TRAIT(NAME) \
  template <class T>     \
  struct NAME : bool_constant<NAME##_v<T>> {};
template <class A, class B>
constexpr bool is_same_v = false;
template <class A>
constexpr bool is_same_v<A, A> = true;
template <class A, class B>
struct is_same : bool_constant<is_same_v<A, B>> {};

template <class T>
constexpr bool mpsx_is_integral = false;
#define MPSX_INTEGRAL(T) \
  template <>            \
  inline constexpr bool mpsx_is_integral<T> = true;
MPSX_INTEGRAL(bool)
MPSX_INTEGRAL(char)
MPSX_INTEGRAL(signed char)
MPSX_INTEGRAL(unsigned char)
MPSX_INTEGRAL(short)
MPSX_INTEGRAL(unsigned short)
MPSX_INTEGRAL(int)
MPSX_INTEGRAL(unsigned int)
MPSX_INTEGRAL(long)
MPSX_INTEGRAL(unsigned long)
MPSX_INTEGRAL(long long)
MPSX_INTEGRAL(unsigned long long)
#undef MPSX_INTEGRAL
template <class T>
constexpr bool is_integral_v = mpsx_is_integral<remove_cv_t<T>>;
template <class T>
constexpr bool is_floating_point_v =
    is_same_v<remove_cv_t<T>, float> || is_same_v<remove_cv_t<T>, half> || is_same_v<remove_cv_t<T>, bfloat>;
template <class T>
constexpr bool is_arithmetic_v = is_integral_v<T> || is_floating_point_v<T>;
template <class T>
constexpr bool is_scalar_v = is_arithmetic_v<T>;
template <class T>
constexpr bool is_enum_v = __is_enum(T);
template <class T>
constexpr bool is_class_v = __is_class(T) && !is_floating_point_v<T>;
template <class T>
constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);
template <class From, class To>
constexpr bool is_base_of_v = __is_base_of(From, To);
template <class T, bool = is_integral_v<T>>
constexpr bool mpsx_is_signed = is_floating_point_v<T>;
template <class T>
constexpr bool mpsx_is_signed<T, true> = T(-1) < T(0);
template <class T>
constexpr bool is_signed_v = mpsx_is_signed<remove_cv_t<T>>;
template <class T>
constexpr bool is_unsigned_v = is_integral_v<T> && !is_signed_v<T>;
template <class T>
constexpr bool is_pointer_v = false;
template <class T>
constexpr bool is_pointer_v<T*> = true;
template <class T>
constexpr bool is_reference_v = !is_same_v<T, remove_reference_t<T>>;
template <class T>
constexpr bool is_const_v = !is_same_v<T, remove_const_t<T>>;
template <class T>
constexpr bool is_void_v = is_same_v<remove_cv_t<T>, void>;
MPSX_TRAIT(is_integral)
MPSX_TRAIT(is_floating_point)
MPSX_TRAIT(is_arithmetic)
MPSX_TRAIT(is_scalar)
MPSX_TRAIT(is_enum)
MPSX_TRAIT(is_class)
MPSX_TRAIT(is_trivially_copyable)
MPSX_TRAIT(is_signed)
MPSX_TRAIT(is_unsigned)
MPSX_TRAIT(is_pointer)
MPSX_TRAIT(is_reference)
MPSX_TRAIT(is_const)
MPSX_TRAIT(is_void)
#undef MPSX_TRAIT
template <class From, class To, class = void>
constexpr bool is_convertible_v = false;
template <class From, class To>
constexpr bool is_convertible_v<From, To, void_t<decltype(declval<void (&)(To)>()(declval<From>()))>> = true;
template <class From, class To>
struct is_convertible : bool_constant<is_convertible_v<From, To>> {};

template <class T>
struct make_unsigned;
template <class T>
struct make_signed;
#define MPSX_SIGN(S, U)  \
  template <>            \
  struct make_unsigned<S> { \
    typedef U type;      \
  };                     \
  template <>            \
  struct make_unsigned<U> { \
    typedef U type;      \
  };                     \
  template <>            \
  struct make_signed<S> {\
    typedef S type;      \
  };                     \
  template <>            \
  struct make_signed<U> {\
    typedef S type;      \
  };
MPSX_SIGN(char, uchar)
MPSX_SIGN(short, ushort)
MPSX_SIGN(int, uint)
MPSX_SIGN(long, ulong)
#undef MPSX_SIGN
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;
template <class T>
using make_signed_t = typename make_signed<T>::type;

template <class T>
MPSX_FN constexpr T&& forward(remove_reference_t<T>& v) noexcept {
  return static_cast<T&&>(v);
}
template <class T>
MPSX_FN constexpr remove_reference_t<T>&& move(T&& v) noexcept {
  return static_cast<remove_reference_t<T>&&>(v);
}
}  // namespace metal
