// The kernels that the emulated GPU runs: libraries of translated kernels (src/driver/host/kernel_abi.h), which stand for
// metallibs.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/host/kernel_abi.h"

namespace emulation {

class KernelImage {
 public:
  // Null with a reason where the file is not a library of kernels.
  static std::shared_ptr<KernelImage> open(const std::string& path, std::string* reason);
  // Translates and compiles Metal source, with the command in MPSX_EMULATION_COMPILER: COMMAND in.metal out.so
  static std::shared_ptr<KernelImage> compile(const std::string& source, std::string* reason);

  const mpsx_kernel_record* find(const std::string& name) const;
  std::vector<std::string> names() const;

 private:
  std::unordered_map<std::string, const mpsx_kernel_record*> records_;
};

// Arguments as kernels take them: args[i] is buffer i, args[31 + i] threadgroup memory i of `threadgroup_bytes[i]`.
struct Launch {
  std::shared_ptr<KernelImage> image;
  const mpsx_kernel_record* record = nullptr;
  void* args[MPSX_MAX_ARGUMENTS] = {};
  size_t sizes[MPSX_MAX_BUFFERS] = {};
  size_t threadgroup_bytes[MPSX_MAX_ARGUMENTS - MPSX_MAX_BUFFERS] = {};
  std::vector<std::vector<unsigned char>> values;  // what args of setBytes point to
  mpsx_launch grid = {};

  void run();
};

unsigned max_threads(const mpsx_kernel_record&);
unsigned simd_width(const mpsx_kernel_record&);

}  // namespace emulation
