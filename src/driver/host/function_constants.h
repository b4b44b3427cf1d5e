// The values of a kernel's function constants, out of its key: "axpy|has_bias=1|shape=4,8".
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "driver/host/kernel_abi.h"

namespace mpsx::driver::host {

// A constant is called by its name or by its index; a vector's components have commas between them.
class FunctionConstants {
 public:
  // `text`: the key behind the kernel's name. Throws Error that names the constant and what was expected.
  FunctionConstants(const mpsx_kernel_record& kernel, std::string_view text);
  FunctionConstants(const FunctionConstants&) = delete;
  FunctionConstants& operator=(const FunctionConstants&) = delete;

  // As mpsx_launch::constants.
  const void* const* addresses() const { return addresses_.data(); }

 private:
  struct Value {
    alignas(32) std::array<unsigned char, 32> bytes{};  // the longest is a long4
  };
  const mpsx_kernel_record& kernel_;
  std::vector<Value> values_;
  std::vector<const void*> addresses_;  // null where a constant has no value

  size_t find(std::string_view name) const;
  void set(size_t constant, std::string_view text);
};

}  // namespace mpsx::driver::host
