// Vendor routes: operators that a CPU library does better than our kernel on the host driver (matrix products through
// oneDNN and MKL). They run on the same memory as the fallback but are no fallback: counted apart, never warned about.
#pragma once

#include <torch/library.h>

#include <string>

#include "runtime/profile.h"

namespace mpsx::backend {

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
  runtime::RouteEntry& route_;
  int64_t start_;
};

}  // namespace mpsx::backend
