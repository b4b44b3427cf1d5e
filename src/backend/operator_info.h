// Properties of an operator that the fallback needs. They are computed once per operator.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <vector>

#include "runtime/profile.h"

namespace mpsx::backend {

struct OperatorInfo {
  struct Argument {
    bool written;             // Tensor(a!)
    bool optional_generator;  // Generator?
  };
  std::string name;  // "aten::mm" or "aten::add.out"
  std::vector<Argument> arguments;
  bool writes = false;                 // whether the operator writes any argument
  bool accepts_mixed_devices = false;  // whether CPU tensors are accepted alongside device tensors
  runtime::RouteEntry* fallback = nullptr;
  std::atomic<uint64_t> bytes{0};  // total number of bytes passed to the CPU
  std::atomic<bool> warned{false};
};

OperatorInfo& operator_info(const c10::OperatorHandle& op);

// A snapshot of one operator's fallback counts.
struct FallbackCounts {
  std::string name;
  uint64_t calls, nanoseconds, bytes;
};
std::vector<FallbackCounts> fallback_counts();

// Resets the counts and the set of operators already warned about.
void reset_fallback_counts();

}  // namespace mpsx::backend
