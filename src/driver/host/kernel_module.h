// Shared libraries of translated kernels.
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
  std::unique_ptr<FunctionConstants> constants;  // null: none of them has a value
  bool of_user = false;                          // and may not end by itself
};

// The best library for this CPU among libmpsx_kernels_<isa>.{so,dylib} in a directory. MPSX_ISA forces one. With
// `simt`, libmpsx_kernels_simt, which is built for one ISA.
std::string choose_library(const std::string& directory, bool simt = false);

// One such file. Closing it is for whoever knows that no thread runs its kernels.
class KernelModule final : public Library {
 public:
  explicit KernelModule(const std::string& path, bool of_user = false) : of_user_(of_user) { open(path); }
  ~KernelModule() override;
  const Kernel* kernel(std::string_view key) const override;
  std::vector<std::string> kernel_names() const override;
  const std::string& compiler() const { return compiler_; }
  const std::string& isa() const { return isa_; }

 private:
  void open(const std::string& path);
  const Kernel* specialised(std::string_view key) const;

  std::unordered_map<std::string_view, HostKernel> kernels_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, HostKernel> specialised_;  // by key; as many as were asked for
  std::string compiler_, isa_;
  void* library_ = nullptr;
  const bool of_user_;
};

}  // namespace mpsx::driver::host
