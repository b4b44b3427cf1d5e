// Registration of an operator from one launcher:
//
//   bool gelu(const Tensor& self, std::string_view approximate, Tensor& out);
//   ...
//   op<"gelu", &gelu>(m);  // gelu, gelu_ and gelu.out, as far as torch has them
//
// A launcher takes the operator's arguments and then its results, as out= forms do. A result that comes in undefined is
// the launcher's to make; one that is defined is to be resized (at::TensorIterator and `Structured` do both) and
// written. Returning false, before anything was written, declines: there is no kernel for these arguments. A result
// that was given is then tried as a copy of a new one, and otherwise the operator runs on the CPU as a fallback.
//
// An operator without an out= form has a launcher that returns an optional of its result (nullopt declines), or, where
// it only writes its arguments (`Tensor& self` first, or lists), a bool.
#pragma once

#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/op.h"

namespace mpsx::ops {

// An operator's name in a template argument: "relu", "add.Tensor".
struct OperatorName {
  char text[64] = {};
  consteval OperatorName(const char* name, const char* overload = "") {
    size_t n = 0;
    while (*name) text[n++] = *name++;
    if (*overload) text[n++] = '.';
    while (*overload) text[n++] = *overload++;
  }
};

// The names under which torch has the forms of an operator, found by their arguments; empty where it has none. An
// in-place or out= form that torch composes of other operators is left out, since a kernel would cut it off from
// autograd.
struct OperatorForms {
  explicit OperatorForms(const char* name);
  std::string functional, in_place, out;
  bool is_composite;  // so is the functional form
};

// Whether a launcher may write its result there: `out` is undefined, or has the result's type.
inline bool takes(const Tensor& out, at::ScalarType type) { return !out.defined() || out.scalar_type() == type; }

// Brings `result` (of the operator's own result type) into an out= tensor of another type or shape, as PyTorch does.
Tensor& write_out(const char* op, const Tensor& result, Tensor& out);
// Hands a result that other operators made to whoever asked for it. Always true.
bool deliver(const char* op, const Tensor& result, Tensor& out);
// write_out for an in-place form, whose tensor keeps its shape.
void write_in_place(const char* op, const Tensor& result, Tensor& self);

namespace detail {

template <typename Result, typename... Arguments>
Result fall_back(std::string_view name, const Arguments&... arguments) {
  const size_t dot = std::min(name.find('.'), name.size());
  const std::string overload(dot < name.size() ? name.substr(dot + 1) : "");
  return fallback_call<Result>(("aten::" + std::string(name.substr(0, dot))).c_str(), overload.c_str(), arguments...);
}

template <typename F>
struct Signature;
template <typename R, typename... P>
struct Signature<R (*)(P...)> {
  using Result = R;
  using Parameters = std::tuple<P...>;
  static constexpr size_t count = sizeof...(P);
  static constexpr size_t count_results() {
    if constexpr (!std::is_same_v<R, bool>) {
      return 0;
    } else {
      constexpr std::array<bool, sizeof...(P)> results{std::is_same_v<P, Tensor&>...};
      size_t n = 0;
      while (n + 1 < results.size() && results[results.size() - 1 - n]) ++n;
      return n;
    }
  }
  static constexpr size_t results = count_results();
};

template <typename Parameters, typename Indices>
struct Take;
template <typename... P, size_t... I>
struct Take<std::tuple<P...>, std::index_sequence<I...>> {
  using type = std::tuple<std::tuple_element_t<I, std::tuple<P...>>...>;
};
template <typename S>
using ArgumentsOf = typename Take<typename S::Parameters, std::make_index_sequence<S::count - S::results>>::type;

template <size_t>
using TensorAt = Tensor;
template <size_t>
using TensorRefAt = Tensor&;
template <typename Indices>
struct ResultTypes;
template <size_t... I>
struct ResultTypes<std::index_sequence<I...>> {
  using Values = std::conditional_t<sizeof...(I) == 1, Tensor, std::tuple<TensorAt<I>...>>;
  using References = std::conditional_t<sizeof...(I) == 1, Tensor&, std::tuple<TensorRefAt<I>...>>;
};

// A launcher with results at its end.
template <OperatorName NAME, auto F, typename Arguments, typename Results>
struct Writer;
template <OperatorName NAME, auto F, typename... A, size_t... R>
struct Writer<NAME, F, std::tuple<A...>, std::index_sequence<R...>> {
  using Values = typename ResultTypes<std::index_sequence<R...>>::Values;
  using References = typename ResultTypes<std::index_sequence<R...>>::References;

  static const OperatorForms& forms() {
    static const OperatorForms f(NAME.text);
    return f;
  }
  static Values functional(A... arguments) {
    std::array<Tensor, sizeof...(R)> results;
    if (!F(arguments..., results[R]...)) return fall_back<Values>(forms().functional, arguments...);
    return Values(std::move(results[R])...);
  }
  static References out(A... arguments, TensorRefAt<R>... outs) {
    if ((is_plain(outs) && ...) && F(arguments..., outs...)) return References(outs...);
    std::array<Tensor, sizeof...(R)> results;
    if (((outs.device().type() == at::kPrivateUse1) && ...) && F(arguments..., results[R]...))
      (write_out(NAME.text, results[R], outs), ...);
    else
      (void)fall_back<Values>(forms().out, arguments..., outs...);
    return References(outs...);
  }
};

// The in-place form of a launcher whose first argument is a tensor and which has one result.
template <OperatorName NAME, auto F, typename Arguments>
struct InPlace;
template <OperatorName NAME, auto F, typename... A>
struct InPlace<NAME, F, std::tuple<const Tensor&, A...>> {
  static Tensor& in_place(Tensor& self, A... arguments) {
    if (is_plain(self) && F(self, arguments..., self)) return self;
    Tensor result;
    if (self.device().type() == at::kPrivateUse1 && F(self, arguments..., result))
      write_in_place(NAME.text, result, self);
    else
      (void)fall_back<Tensor>(OperatorForms(NAME.text).in_place, self, arguments...);
    return self;
  }
};

// An operator that only writes its arguments.
template <OperatorName NAME, auto F, typename Parameters>
struct ArgumentWriter;
template <OperatorName NAME, auto F, typename... A>
struct ArgumentWriter<NAME, F, std::tuple<Tensor&, A...>> {
  static Tensor& call(Tensor& self, A... arguments) {
    if (!F(self, arguments...)) (void)fall_back<Tensor>(NAME.text, self, arguments...);
    return self;
  }
};
template <OperatorName NAME, auto F, typename... A>
struct ArgumentWriter<NAME, F, std::tuple<A...>> {
  static void call(A... arguments) {
    if (!F(arguments...)) fall_back<void>(NAME.text, arguments...);
  }
};

// An operator of which torch has no form but out=, whose name this is.
template <OperatorName NAME, auto F, typename Parameters>
struct OutWriter;
template <OperatorName NAME, auto F, typename... A>
struct OutWriter<NAME, F, std::tuple<A...>> {
  static Tensor& call(A... arguments) {
    if (!F(arguments...)) (void)fall_back<Tensor>(NAME.text, arguments...);
    return std::get<sizeof...(A) - 1>(std::tuple<A...>(arguments...));
  }
};

// An operator whose launcher returns an optional of its result.
template <OperatorName NAME, auto F, typename Result, typename Parameters>
struct Returner;
template <OperatorName NAME, auto F, typename Result, typename... A>
struct Returner<NAME, F, std::optional<Result>, std::tuple<A...>> {
  static Result call(A... arguments) {
    if (std::optional<Result> result = F(arguments...)) return *std::move(result);
    return fall_back<Result>(NAME.text, arguments...);
  }
};

}  // namespace detail

template <OperatorName NAME, auto F>
void op(torch::Library& m) {
  using S = detail::Signature<decltype(F)>;
  using Arguments = detail::ArgumentsOf<S>;
  if constexpr (!std::is_same_v<typename S::Result, bool>) {
    m.impl(NAME.text, &detail::Returner<NAME, F, typename S::Result, typename S::Parameters>::call);
  } else if constexpr (S::results == 0) {
    m.impl(NAME.text, &detail::ArgumentWriter<NAME, F, typename S::Parameters>::call);
  } else {
    using Writer = detail::Writer<NAME, F, Arguments, std::make_index_sequence<S::results>>;
    const OperatorForms& forms = Writer::forms();
    if (!forms.is_composite) m.impl(forms.functional.c_str(), &Writer::functional);
    if (!forms.out.empty()) m.impl(forms.out.c_str(), &Writer::out);
    if constexpr (S::results == 1 && std::is_same_v<std::tuple_element_t<0, typename S::Parameters>, const Tensor&>)
      if (!forms.in_place.empty()) m.impl(forms.in_place.c_str(), &detail::InPlace<NAME, F, Arguments>::in_place);
  }
}

// The same for an operator whose functional form torch composes of others without autograd going through it, like
// silu_backward: the kernel takes its place.
template <OperatorName NAME, auto F>
void op_over_composite(torch::Library& m) {
  using S = detail::Signature<decltype(F)>;
  m.impl(NAME.text, &detail::Writer<NAME, F, detail::ArgumentsOf<S>, std::make_index_sequence<S::results>>::functional);
  op<NAME, F>(m);
}

// For what torch computes in its out= form alone (arange.start_out): the name is that form's.
template <OperatorName NAME, auto F>
void out_op(torch::Library& m) {
  m.impl(NAME.text, &detail::OutWriter<NAME, F, typename detail::Signature<decltype(F)>::Parameters>::call);
}

}  // namespace mpsx::ops
