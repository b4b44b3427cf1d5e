// <metal_type_traits>.
#pragma once

namespace metal {
#if MPSX_BUILTIN_HALF
typedef _Float16 half;
#else
struct half;
#endif
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
using mpsx_void_t = void;
template <class T>
struct mpsx_same_t {
  typedef T type;
};
template <class T>
using mpsx_not_deduced = typename mpsx_same_t<T>::type;
template <class... B>
constexpr bool conjunction_v = (B::value && ... && true);
template <class... B>
constexpr bool disjunction_v = (B::value || ... || false);
template <class... B>
struct conjunction : bool_constant<conjunction_v<B...>> {};
template <class... B>
struct disjunction : bool_constant<disjunction_v<B...>> {};
template <class B>
constexpr bool negation_v = !B::value;
template <class B>
struct negation : bool_constant<!B::value> {};

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
MPSX_TRANSFORM(remove_extent, T[], T)
#undef MPSX_TRANSFORM
template <class T, size_t N>
struct remove_extent<T[N]> {
  typedef T type;
};
template <class T>
struct remove_pointer<T* const> {
  typedef T type;
};
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
struct decay {
  typedef remove_cv_t<remove_reference_t<T>> type;
};
template <class T, size_t N>
struct decay<T (&)[N]> {
  typedef T* type;
};
template <class T>
using decay_t = typename decay<T>::type;
template <class T>
using remove_cvref_t = remove_cv_t<remove_reference_t<T>>;
template <class T>
struct remove_cvref {
  typedef remove_cvref_t<T> type;
};
#define MPSX_ADD(NAME, TO)              \
  template <class T>                    \
  struct NAME {                         \
    typedef TO type;                    \
  };                                    \
  template <class T>                    \
  using NAME##_t = typename NAME<T>::type;
MPSX_ADD(add_const, const T)
MPSX_ADD(add_volatile, volatile T)
MPSX_ADD(add_cv, const volatile T)
MPSX_ADD(add_lvalue_reference, T&)
MPSX_ADD(add_rvalue_reference, T&&)
MPSX_ADD(add_pointer, remove_reference_t<T>*)
MPSX_ADD(underlying_type, __underlying_type(T))
#undef MPSX_ADD
template <class T>
T&& declval() noexcept;

// Defines a struct that wraps the constant of the same name with the suffix _v.
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
constexpr bool mpsx_is_pointer = false;
template <class T>
constexpr bool mpsx_is_pointer<T*> = true;
template <class T>
constexpr bool is_arithmetic_v = is_integral_v<T> || is_floating_point_v<T>;
template <class T>
constexpr bool is_scalar_v = is_arithmetic_v<T> || __is_enum(T) || mpsx_is_pointer<T>;
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
constexpr bool is_pointer_v<T* const> = true;
template <class T>
constexpr bool is_reference_v = !is_same_v<T, remove_reference_t<T>>;
template <class T>
constexpr bool is_lvalue_reference_v = false;
template <class T>
constexpr bool is_lvalue_reference_v<T&> = true;
template <class T>
constexpr bool is_rvalue_reference_v = is_reference_v<T> && !is_lvalue_reference_v<T>;
template <class T>
constexpr bool is_const_v = !is_same_v<T, remove_const_t<T>>;
template <class T>
constexpr bool is_volatile_v = !is_same_v<T, remove_volatile_t<T>>;
template <class T>
constexpr bool is_array_v = false;
template <class T>
constexpr bool is_array_v<T[]> = true;
template <class T, size_t N>
constexpr bool is_array_v<T[N]> = true;
template <class T>
constexpr bool is_union_v = __is_union(T);
template <class T>
constexpr bool is_trivial_v = __is_trivially_copyable(T);
template <class T>
constexpr bool is_standard_layout_v = __is_standard_layout(T);
template <class T>
constexpr bool is_pod_v = is_trivial_v<T>&& is_standard_layout_v<T>;
template <class T, class... A>
constexpr bool is_constructible_v = __is_constructible(T, A...);
template <class T>
constexpr bool is_default_constructible_v = __is_constructible(T);
template <class T>
constexpr bool is_copy_constructible_v = __is_constructible(T, const T&);
template <class T, class A>
constexpr bool is_assignable_v = __is_assignable(T, A);
template <class T>
constexpr bool is_fundamental_v = is_arithmetic_v<T>;
template <class T>
constexpr bool is_null_pointer_v = is_same_v<remove_cv_t<T>, decltype(nullptr)>;
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
MPSX_TRAIT(is_lvalue_reference)
MPSX_TRAIT(is_rvalue_reference)
MPSX_TRAIT(is_volatile)
MPSX_TRAIT(is_array)
MPSX_TRAIT(is_union)
MPSX_TRAIT(is_trivial)
MPSX_TRAIT(is_standard_layout)
MPSX_TRAIT(is_pod)
MPSX_TRAIT(is_default_constructible)
MPSX_TRAIT(is_copy_constructible)
MPSX_TRAIT(is_fundamental)
MPSX_TRAIT(is_null_pointer)
#undef MPSX_TRAIT
template <class From, class To, class = void>
constexpr bool is_convertible_v = false;
template <class From, class To>
constexpr bool is_convertible_v<From, To, mpsx_void_t<decltype(declval<void (&)(To)>()(declval<From>()))>> = true;
template <class From, class To>
struct is_convertible : bool_constant<is_convertible_v<From, To>> {};
template <class T, class... A>
struct is_constructible : bool_constant<is_constructible_v<T, A...>> {};
template <class T, class A>
struct is_assignable : bool_constant<is_assignable_v<T, A>> {};
template <class From, class To>
struct is_base_of : bool_constant<is_base_of_v<From, To>> {};

// The common type of T... under the rules for arithmetic operators.
template <class... T>
struct common_type;
template <class T>
struct common_type<T> {
  typedef decay_t<T> type;
};
template <class A, class B>
struct mpsx_common_type {
  typedef decay_t<decltype(declval<A>() + declval<B>())> type;
};
template <class A>
struct mpsx_common_type<A, A> {
  typedef A type;
};
template <class A, class B>
struct common_type<A, B> : mpsx_common_type<decay_t<A>, decay_t<B>> {};
template <class A, class B, class... C>
struct common_type<A, B, C...> : common_type<typename common_type<A, B>::type, C...> {};
template <class... T>
using common_type_t = typename common_type<T...>::type;

template <class F, class... A>
struct invoke_result {
  typedef decltype(declval<F>()(declval<A>()...)) type;
};
template <class F, class... A>
using invoke_result_t = typename invoke_result<F, A...>::type;

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
template <>
struct make_unsigned<signed char> {
  typedef uchar type;
};
template <>
struct make_signed<signed char> {
  typedef signed char type;
};
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
MPSX_FN constexpr T&& forward(remove_reference_t<T>&& v) noexcept {
  return static_cast<T&&>(v);
}
template <class T>
MPSX_FN constexpr remove_reference_t<T>&& move(T&& v) noexcept {
  return static_cast<remove_reference_t<T>&&>(v);
}

template <class T, T... I>
struct integer_sequence {
  typedef T value_type;
  static constexpr size_t size() { return sizeof...(I); }
};
template <size_t... I>
using index_sequence = integer_sequence<size_t, I...>;
#if defined(__clang__)
template <class T, T N>
using make_integer_sequence = __make_integer_seq<integer_sequence, T, N>;
#else
template <class T, T N>
using make_integer_sequence = integer_sequence<T, __integer_pack(N)...>;
#endif
template <size_t N>
using make_index_sequence = make_integer_sequence<size_t, N>;
template <class... T>
using index_sequence_for = make_index_sequence<sizeof...(T)>;
}  // namespace metal
