// Registers all forms of an operator, given a single launcher:
//
//   bool gelu(const Tensor& self, std::string_view approximate, Tensor& out);
//   ...
//   op<"gelu", &gelu>(m);  // registers gelu, gelu_ and gelu.out, if torch defines them
//
// The arguments of a launcher are the operator's arguments, followed by the outputs (ops/output.h). If the launcher has
// no kernel for the arguments, it must return false before it writes anything. If an output was given, the registration
// then tries again with an undefined output and copies the result. If the launcher returns false again, the operator
// falls back to the CPU.
//
// If an operator has no out= form, its launcher returns an optional result, where nullopt means that there is no
// kernel. If an operator only writes its arguments (`Tensor& self` first, or lists), its launcher returns a bool.
#pragma once

#include <torch/library.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/op.h"
#include "ops/output.h"

namespace mpsx::ops {

// The name of an operator as a template argument, such as "relu" or "add.Tensor".
struct OperatorName {
  char text[64] = {};
  consteval OperatorName(const char* name, const char* overload = "") {
    size_t n = 0;
    while (*name) text[n++] = *name++;
    if (*overload) text[n++] = '.';
    while (*overload) text[n++] = *overload++;
  }
};

// The names of an operator's forms, which are identified by their signatures. A name is empty if PyTorch does not
// define the form. In-place and out= forms that PyTorch composes from other operators are excluded, because a kernel
// would bypass autograd.
struct OperatorForms {
  // `name` must have static storage duration, because the returned object is never destroyed.
  static const OperatorForms& of(const char* name);

  const char* name;
  std::string functional, in_place, out;
  bool is_composite;  // whether PyTorch composes the functional form from other operators
};

namespace detail {

// Registers an aten kernel for this device. PyTorch checks that its signature matches that of the CPU kernel.
void register_kernel(const char* name, c10::KernelFunction kernel, c10::impl::CppSignature signature);

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

inline const char* name_of(const OperatorForms* forms) { return forms->name; }
inline const char* name_of(const std::string& name) { return name.c_str(); }

// Throws `e` with the operator's name in front of its message.
[[noreturn]] void rethrow(const driver::Error& e, const char* op);

// The kernels that the dispatcher calls. The launcher is a stored value and not a template argument, so PyTorch's
// kernel wrappers are compiled only once per signature. `About` is the operator's forms or its name.
template <typename F, typename About>
struct Kernel : c10::OperatorKernel {
  Kernel(F launcher_, About about_) : launcher(launcher_), about(std::move(about_)) {}

  // Calls the launcher. If the driver throws, for example because a kernel does not compile, names the operator.
  template <typename... A>
  decltype(auto) launch(A&&... arguments) const {
    try {
      return launcher(std::forward<A>(arguments)...);
    } catch (const driver::Error& e) {
      rethrow(e, name_of(about));
    }
  }

  F launcher;
  About about;
};

template <typename F, typename Arguments = ArgumentsOf<Signature<F>>,
          typename Results = std::make_index_sequence<Signature<F>::results>>
struct Functional;
template <typename F, typename... A, size_t... R>
struct Functional<F, std::tuple<A...>, std::index_sequence<R...>> final : Kernel<F, const OperatorForms*> {
  using Kernel<F, const OperatorForms*>::Kernel;
  using Values = typename ResultTypes<std::index_sequence<R...>>::Values;

  Values operator()(A... arguments) const {
    std::array<Tensor, sizeof...(R)> results;
    if (!this->launch(arguments..., results[R]...)) return fall_back<Values>(this->about->functional, arguments...);
    return Values(std::move(results[R])...);
  }
};

template <typename F, typename Arguments = ArgumentsOf<Signature<F>>,
          typename Results = std::make_index_sequence<Signature<F>::results>>
struct Out;
template <typename F, typename... A, size_t... R>
struct Out<F, std::tuple<A...>, std::index_sequence<R...>> final : Kernel<F, const OperatorForms*> {
  using Kernel<F, const OperatorForms*>::Kernel;
  using Values = typename ResultTypes<std::index_sequence<R...>>::Values;
  using References = typename ResultTypes<std::index_sequence<R...>>::References;

  References operator()(A... arguments, TensorRefAt<R>... outs) const {
    if ((is_plain(outs) && ...) && this->launch(arguments..., outs...)) return References(outs...);
    std::array<Tensor, sizeof...(R)> results;
    if (((outs.device().type() == at::kPrivateUse1) && ...) && this->launch(arguments..., results[R]...))
      (return_or_copy(this->about->name, results[R], outs), ...);
    else
      (void)fall_back<Values>(this->about->out, arguments..., outs...);
    return References(outs...);
  }
};

// The in-place form of a launcher whose first argument is a tensor and which has one output.
template <typename F, typename Arguments = ArgumentsOf<Signature<F>>>
struct InPlace;
template <typename F, typename... A>
struct InPlace<F, std::tuple<const Tensor&, A...>> final : Kernel<F, const OperatorForms*> {
  using Kernel<F, const OperatorForms*>::Kernel;

  Tensor& operator()(Tensor& self, A... arguments) const {
    if (is_plain(self) && this->launch(self, arguments..., self)) return self;
    Tensor result;
    if (self.device().type() == at::kPrivateUse1 && this->launch(self, arguments..., result))
      copy_in_place(this->about->name, result, self);
    else
      (void)fall_back<Tensor>(this->about->in_place, self, arguments...);
    return self;
  }
};

// An operator that only writes its arguments.
template <typename F, typename Parameters = typename Signature<F>::Parameters>
struct ArgumentWriter;
template <typename F, typename... A>
struct ArgumentWriter<F, std::tuple<Tensor&, A...>> final : Kernel<F, const char*> {
  using Kernel<F, const char*>::Kernel;

  Tensor& operator()(Tensor& self, A... arguments) const {
    if (!this->launch(self, arguments...)) (void)fall_back<Tensor>(this->about, self, arguments...);
    return self;
  }
};
template <typename F, typename... A>
struct ArgumentWriter<F, std::tuple<A...>> final : Kernel<F, const char*> {
  using Kernel<F, const char*>::Kernel;

  void operator()(A... arguments) const {
    if (!this->launch(arguments...)) fall_back<void>(this->about, arguments...);
  }
};

// An operator that only has an out= form.
template <typename F, typename Parameters = typename Signature<F>::Parameters>
struct OutWriter;
template <typename F, typename... A>
struct OutWriter<F, std::tuple<A...>> final : Kernel<F, const char*> {
  using Kernel<F, const char*>::Kernel;

  Tensor& operator()(A... arguments) const {
    if (!this->launch(arguments...)) (void)fall_back<Tensor>(this->about, arguments...);
    return std::get<sizeof...(A) - 1>(std::tuple<A...>(arguments...));
  }
};

// An operator whose launcher returns an optional result.
template <typename F, typename Result = typename Signature<F>::Result,
          typename Parameters = typename Signature<F>::Parameters>
struct Returner;
template <typename F, typename Result, typename... A>
struct Returner<F, std::optional<Result>, std::tuple<A...>> final : Kernel<F, const char*> {
  using Kernel<F, const char*>::Kernel;

  Result operator()(A... arguments) const {
    if (std::optional<Result> result = this->launch(arguments...)) return *std::move(result);
    return fall_back<Result>(this->about, arguments...);
  }
};

// One form of an operator, without a fallback.
template <typename F>
struct Plain;
template <typename R, typename... A>
struct Plain<R (*)(A...)> final : Kernel<R (*)(A...), std::string> {
  using Kernel<R (*)(A...), std::string>::Kernel;

  R operator()(A... arguments) const { return this->launch(std::forward<A>(arguments)...); }
};

template <typename R, typename K, typename... P>
c10::impl::CppSignature signature_of(R (K::*)(P...) const) {
  return c10::impl::CppSignature::make<R(P...)>();
}
// Used in place of torch::Library::impl, which instantiates types for every kernel and would double the compile time.
template <typename K, typename F, typename About>
c10::KernelFunction make_kernel(F launcher, About about) {
  return c10::KernelFunction::makeFromUnboxedFunctor<false, K>(
      std::unique_ptr<c10::OperatorKernel>(new K(launcher, about)));
}
template <typename K, typename F, typename About>
void register_kernel(const char* name, F launcher, About about) {
  register_kernel(name, make_kernel<K>(launcher, about), signature_of(&K::operator()));
}

template <typename F>
void register_op(const char* name, F launcher) {
  using S = Signature<F>;
  if constexpr (!std::is_same_v<typename S::Result, bool>) {
    register_kernel<Returner<F>>(name, launcher, name);
  } else if constexpr (S::results == 0) {
    register_kernel<ArgumentWriter<F>>(name, launcher, name);
  } else {
    const OperatorForms& forms = OperatorForms::of(name);
    if (!forms.is_composite) register_kernel<Functional<F>>(forms.functional.c_str(), launcher, &forms);
    if (!forms.out.empty()) register_kernel<Out<F>>(forms.out.c_str(), launcher, &forms);
    if constexpr (S::results == 1 && std::is_same_v<std::tuple_element_t<0, typename S::Parameters>, const Tensor&>)
      if (!forms.in_place.empty()) register_kernel<InPlace<F>>(forms.in_place.c_str(), launcher, &forms);
  }
}

}  // namespace detail

// Returns a single form of a launcher, for code that registers each form separately (vendor::Library).
template <typename F>
c10::KernelFunction functional_form(const char* name, F launcher) {
  return detail::make_kernel<detail::Functional<F>>(launcher, &OperatorForms::of(name));
}
template <typename F>
c10::KernelFunction out_form(const char* name, F launcher) {
  return detail::make_kernel<detail::Out<F>>(launcher, &OperatorForms::of(name));
}
template <typename F>
c10::KernelFunction in_place_form(const char* name, F launcher) {
  return detail::make_kernel<detail::InPlace<F>>(launcher, &OperatorForms::of(name));
}

template <OperatorName NAME, auto F>
void op(torch::Library&) {
  detail::register_op(NAME.text, F);
}

// Like op, but also replaces a functional form that PyTorch composes from other operators (silu_backward). The kernel
// bypasses the autograd of that composite.
template <OperatorName NAME, auto F>
void op_over_composite(torch::Library& m) {
  detail::register_kernel<detail::Functional<decltype(F)>>(NAME.text, F, &OperatorForms::of(NAME.text));
  op<NAME, F>(m);
}

// For operators that have a kernel only for their out= form (arange.start_out).
template <OperatorName NAME, auto F>
void out_op(torch::Library&) {
  detail::register_kernel<detail::OutWriter<decltype(F)>>(NAME.text, F, NAME.text);
}

// Registers a function as one form of an operator. Unlike Library::impl, names the operator in the driver's errors.
template <typename F>
void impl(torch::Library&, const std::string& name, F function) {
  detail::register_kernel<detail::Plain<F>>(name.c_str(), function, name);
}

}  // namespace mpsx::ops
