// What the fallback needs to know about an operator, found out once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <vector>

#include "backend/library_matmul.h"
#include "runtime/profile.h"

namespace mpsx::backend {

// Of the arguments of an operator, on top of a stack.
using IsSmall = bool(const torch::jit::Stack& stack);

struct OperatorFacts {
  struct Argument {
    bool written;             // Tensor(a!)
    bool optional_generator;  // Generator?
  };
  std::string name;  // "aten::mm" or "aten::add.out"
  std::vector<Argument> arguments;
  bool writes = false;               // any argument written
  bool takes_mixed_devices = false;  // CPU tensors beside device tensors are part of its contract
  runtime::RouteEntry* fallback = nullptr;
  std::atomic<runtime::RouteEntry*> vendor{nullptr};  // once it was called as a vendor operator
  std::atomic<LibraryKernel> library{nullptr};        // asked before torch's CPU kernel; as `vendor`
  const c10::KernelFunction* kernel = nullptr;        // of ours, beside the vendor's
  IsSmall* is_small = nullptr;                        // when it runs although the vendor's is preferred; or null
  std::atomic<uint64_t> bytes{0};                     // that the CPU was given to read or write
  std::atomic<bool> warned{false};
};

OperatorFacts& facts_of(const c10::OperatorHandle& op);

// A copy of the counts of one operator that fell back.
struct FallbackRow {
  std::string name;
  uint64_t calls, nanoseconds, bytes;
};
std::vector<FallbackRow> fallback_rows();

// Forgets counts, and which operators were warned about.
void reset_fallback_rows();

}  // namespace mpsx::backend
