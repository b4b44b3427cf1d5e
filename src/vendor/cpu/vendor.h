// CPU libraries: operators that oneDNN, MKL and PocketFFT, through ATen, do better than our kernels on the host driver,
// or for which we have none. They run on the tensors' own memory like the fallback, but are counted apart and never
// warned about. On every other driver, and with MPSX_VENDOR=off, our kernels run, and what has none falls back.
#pragma once

#include <torch/library.h>

#include "backend/boxed.h"
#include "runtime/profile.h"

namespace mpsx::vendor {

inline constexpr const char* kAten = "ATen";
inline constexpr const char* kLapack = "LAPACK through ATen";
inline constexpr const char* kFft = "MKL/PocketFFT through ATen";
inline constexpr const char* kGemm = "oneDNN/MKL through ATen";

// Whether operators go to the CPU's libraries: MPSX_VENDOR is "on" or "off", by default on for the host driver alone.
// Decided once a process.
bool preferred();

// Registers operators of which `library` has a kernel.
class Library {
 public:
  // A question about the arguments of a call, the last ones on a stack.
  using Condition = bool(const torch::jit::Stack& stack);

  Library(torch::Library& m, const char* library) : m_(m), library_(library) {}

  // `kernel` is ours: what runs where the library is not preferred, or where the arguments are `small`.
  Library& impl(const char* op, c10::KernelFunction kernel, Condition* small = nullptr);
  // We have none.
  Library& impl(const char* op) { return impl(op, {}); }

 private:
  torch::Library& m_;
  const char* library_;
};

// An operator of the CPU that a launcher calls with tensors of the device.
class Operator {
 public:
  // `counted_as`: the name under which its calls are counted.
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
