// The kernels of the emulated GPU. Libraries of simt kernels take the place of metallibs.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/driver.h"
#include "metal_stdlib/kernel_abi.h"

namespace emulation {

struct KernelBinding {
  unsigned index;
  bool threadgroup;
  std::string name, condition;  // `condition` names the function constant that enables the binding, or is empty
  bool tensor = false;
  long element = 0;         // MTLTensorDataType if the binding is a tensor
  std::vector<long> sizes{};  // one -1 per dimension if the binding is a tensor
};
// Properties of a kernel. reflection() in tools/build/emulated_metal.py extracts them from the source.
struct KernelFacts {
  std::vector<KernelBinding> bindings;
  std::set<unsigned> constants, optional_constants;  // indices of all used constants and of the optional ones
};

// The value of a function constant, which is at most as large as a long4.
using ConstantValue = std::array<unsigned char, 32>;
using ConstantValues = std::vector<std::optional<ConstantValue>>;  // in the order of the kernel record

class KernelImage {
 public:
  // If the file is not a kernel library, returns null and sets `reason`.
  static std::shared_ptr<KernelImage> open(const std::string& path, std::string* reason);
  // Translates and compiles Metal source with the command in MPSX_EMULATION_COMPILER: COMMAND in.metal out.so
  static std::shared_ptr<KernelImage> compile(const std::string& source, std::string* reason);

  const mpsx_kernel_record* find(const std::string& name) const;
  std::vector<std::string> names() const;
  const KernelFacts* facts(const std::string& name) const;  // null if unknown

 private:
  void read_facts(const char* text);

  std::unordered_map<std::string, const mpsx_kernel_record*> records_;
  std::unordered_map<std::string, KernelFacts> facts_;
};

// A dispatch. It owns copies of all its data.
struct Launch {
  std::shared_ptr<KernelImage> image;
  const mpsx_kernel_record* record = nullptr;
  struct Buffer {
    void* base = nullptr;  // address in the GPU's mapping
    size_t offset = 0;
    size_t size = 0;                     // of the buffer
    std::vector<unsigned char> value{};  // bytes passed to setBytes
    // Declared by the driver's caller.
    mpsx::driver::Access access = mpsx::driver::Access::write;
    size_t begin = 0, end = SIZE_MAX;
  };
  std::vector<Buffer> buffers;
  std::vector<size_t> threadgroup_bytes;
  ConstantValues constants;
  mpsx::driver::Dispatch shape;
  unsigned untracked = 0;  // bit mask of buffers whose hazards Metal does not track
  unsigned interval = 0;   // the number of barriers before it in its encoder

  // Throws mpsx::driver::Error if the kernel faults.
  void run();
};

}  // namespace emulation
