// Loads shared libraries of translated kernels.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "driver/driver.h"
#include "driver/function_constants.h"
#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host {

struct HostKernel final : Kernel {
  const mpsx_kernel_record* record = nullptr;
  std::unique_ptr<FunctionConstants> constants;  // null if no constant has a value
  bool is_user_kernel = false;                   // whether it is a user's kernel, which must be interruptible
};

// Returns the path of the library to load from a directory: the best libmpsx_kernels_<isa>.{so,dylib} for this CPU, or
// the one that MPSX_ISA selects. If `simt` is true, returns libmpsx_kernels_simt, which is built for a single ISA.
std::string find_library(const std::string& directory, bool simt = false);

// A library of translated kernels. It must not be destroyed while a thread runs its kernels.
class KernelModule final : public Library {
 public:
  explicit KernelModule(const std::string& path, bool is_user_kernel = false) : is_user_library_(is_user_kernel) {
    open(path);
  }
  ~KernelModule() override;
  const Kernel* kernel(std::string_view key) const override;
  std::vector<std::string> kernel_names() const override;
  const std::string& compiler() const { return compiler_; }
  const std::string& isa() const { return isa_; }

 private:
  void open(const std::string& path);
  const Kernel* specialized(std::string_view key) const;

  std::unordered_map<std::string_view, HostKernel> kernels_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, HostKernel> specialized_;  // by key
  std::string compiler_, isa_;
  void* library_ = nullptr;
  const bool is_user_library_;
};

}  // namespace mpsx::driver::host
