// Helpers for calling operators with boxed arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <tuple>

namespace mpsx::backend {

template <typename Result>
struct PopResult {
  static Result pop(torch::jit::Stack& stack) { return torch::jit::pop(stack).to<Result>(); }
};
template <>
struct PopResult<void> {
  static void pop(torch::jit::Stack&) {}
};
template <typename... Types>
struct PopResult<std::tuple<Types...>> {
  static std::tuple<Types...> pop(torch::jit::Stack& stack) {
    std::tuple<Types...> result;
    std::apply([&](auto&... r) { torch::jit::pop(stack, r...); }, result);
    return result;
  }
};

// Pushes the arguments onto a stack and calls `run`, which replaces them with the results. Returns the results as a
// single value, a tuple or void.
template <typename Result, typename Run, typename... Arguments>
Result call_boxed(const Run& run, const Arguments&... arguments) {
  torch::jit::Stack stack;
  stack.reserve(sizeof...(arguments));
  torch::jit::push(stack, arguments...);
  run(stack);
  return PopResult<Result>::pop(stack);
}

}  // namespace mpsx::backend
