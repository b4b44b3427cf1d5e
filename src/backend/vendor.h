// Vendor routes: operators that a CPU library does better than our kernel on the host driver (matrix products through
// oneDNN and MKL). They run on the same memory as the fallback but are no fallback: counted apart, never warned about.
// Where our kernels exist, they run instead on every other driver, and on all of them with MPSX_VENDOR=off.
#pragma once

#include <torch/library.h>

#include <string>

#include "backend/library_memory.h"
#include "backend/operator_facts.h"
#include "runtime/profile.h"

namespace mpsx::backend {

// Whether operators that have both run in the vendor's library: MPSX_VENDOR is "on" or "off", by default on for the
// host driver alone. Decided once a process.
bool prefers_vendor();

// Our kernels of the operators in the vendor table, which register_vendor_ops() puts beside the vendor's. `small`: for
// which arguments, the last ones of a stack, ours run although the vendor's are there.
class VendorAlternatives {
 public:
  template <typename F>
  void impl(const char* op, F* function, IsSmall* small = nullptr) {
    add(op, c10::KernelFunction::makeFromUnboxedRuntimeFunction(function), small);
  }

 private:
  static void add(const char* op, c10::KernelFunction kernel, IsSmall* small);
};

// Registers the CPU's kernel for `op` ("mm.out") as its mpsx kernel; `library` says whose it is.
void register_vendor(torch::Library& library_block, const std::string& op, const std::string& library);

// Whose kernel runs a vendor operator ("aten::mm.out"); empty if none was registered.
std::string vendor_library(const std::string& op);

// Counts a vendor call that a kernel of ours makes itself, its time while profiling. Scope = the call.
class VendorCall {
 public:
  explicit VendorCall(runtime::RouteEntry& route);
  ~VendorCall();
  VendorCall(const VendorCall&) = delete;
  VendorCall& operator=(const VendorCall&) = delete;

 private:
  LibraryMemory memory_;
  runtime::RouteEntry& route_;
  int64_t start_;
};

}  // namespace mpsx::backend
