// A shared library of translated kernels: found, checked, opened.
#pragma once

#include <string>
#include <unordered_map>

#include "driver/driver.h"
#include "driver/host/kernel_abi.h"

namespace mpsx::driver::host {

struct HostKernel final : Kernel {
  const mpsx_kernel_record* record = nullptr;
};

// The best library for this CPU among libmpsx_kernels_<isa>.{so,dylib} in a directory. MPSX_ISA forces one. With
// `simt`, libmpsx_kernels_simt, which has one ISA that every CPU runs.
class KernelModule {
 public:
  explicit KernelModule(const std::string& directory, bool simt = false);
  const HostKernel* find(std::string_view name) const;
  const std::unordered_map<std::string_view, HostKernel>& kernels() const { return kernels_; }
  const std::string& compiler() const { return compiler_; }
  const std::string& isa() const { return isa_; }

 private:
  void open(const std::string& path);
  std::unordered_map<std::string_view, HostKernel> kernels_;
  std::string compiler_, isa_;
};

}  // namespace mpsx::driver::host
