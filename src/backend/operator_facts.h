// Facts about an operator that the fallback needs, worked out once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <vector>

#include "runtime/profile.h"

namespace mpsx::backend {

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
  std::atomic<uint64_t> bytes{0};  // handed to the CPU to read or write
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
