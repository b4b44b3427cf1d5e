// Creates a kernel's tensor parameters from its arguments. Called by the entry points that msl/codegen generates.
#pragma once

namespace mpsx {
template <class P>
struct argument;
template <class E, class S, class D, class... T>
struct argument<metal::tensor<E, S, D, T...>> {
  static MPSX_FN metal::tensor<E, S, D, T...> from(void* p) {
    return metal::tensor<E, S, D, T...>(*static_cast<const tensor_binding*>(p));
  }
};
// On GPUs, the binding is passed by value.
template <class P, unsigned ARGUMENTS>
struct kernel_argument;
template <class E, class S, class D, class... T, unsigned ARGUMENTS>
struct kernel_argument<metal::tensor<E, S, D, T...>, ARGUMENTS> {
  typedef typename kernel_argument<const typename metal::tensor<E, S, D, T...>::mpsx_binding&, ARGUMENTS>::type type;
};
}  // namespace mpsx
