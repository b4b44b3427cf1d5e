// Operators that CPU libraries (oneDNN, MKL and PocketFFT, through ATen) run faster than our kernels on the host
// driver, or for which we have no kernel. Like the fallback, they run on the memory of the tensors, but they are
// counted separately and do not warn. On all other drivers, and with MPSX_VENDOR=off, our kernels run, and operators
// without a kernel use the fallback.
#pragma once

#include <torch/library.h>

#include "backend/boxed.h"
#include "runtime/profile.h"

namespace mpsx::vendor {

inline constexpr const char* kAten = "ATen";
inline constexpr const char* kLapack = "LAPACK through ATen";
inline constexpr const char* kFft = "MKL/PocketFFT through ATen";
inline constexpr const char* kGemm = "oneDNN/MKL through ATen";

// Returns whether to use CPU libraries. MPSX_VENDOR can be "on" or "off". It defaults to "on" for the host driver and
// to "off" for all other drivers. It is read once per process.
bool preferred();

// Registers operators that `library` implements.
class Library {
 public:
  // A predicate on the arguments of a call, which are at the top of the stack.
  using Condition = bool(const torch::jit::Stack& stack);

  Library(torch::Library& m, const char* library) : m_(m), library_(library) {}

  // Registers `op` with `kernel` as this backend's own implementation. It runs if the library is not preferred, or if
  // `prefer_kernel` returns true for the arguments.
  Library& impl(const char* op, c10::KernelFunction kernel, Condition* prefer_kernel = nullptr);
  // Registers an operator that only the library implements.
  Library& impl(const char* op) { return impl(op, {}); }

 private:
  torch::Library& m_;
  const char* library_;
};

// A CPU operator that a launcher calls with device tensors.
class Operator {
 public:
  // `counted_as` is the name of the operator in the statistics.
  Operator(const char* name, const char* library, const char* counted_as);

  template <typename Result, typename... Arguments>
  Result call(const Arguments&... arguments) const {
    return backend::call_boxed<Result>([&](torch::jit::Stack& stack) { run(stack); }, arguments...);
  }

 private:
  void run(torch::jit::Stack& stack) const;

  c10::OperatorHandle handle_;
  runtime::RouteEntry& route_;
};

}  // namespace mpsx::vendor
