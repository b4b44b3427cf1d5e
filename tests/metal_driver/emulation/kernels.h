// The kernels that the emulated GPU runs: libraries of kernels translated with real threadgroups and SIMD groups, which
// stand for metallibs.
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
  std::string name, condition;  // the function constant that says whether it is there; or empty
};
// Facts of a kernel's source that its record lacks: reflection() of tools/build/emulated_metal.py writes it down.
struct KernelFacts {
  std::vector<KernelBinding> bindings;
  std::set<unsigned> constants, optional_constants;  // in use, and those of them that need no value; by index
};

// Of a function constant; the longest is a long4.
using ConstantValue = std::array<unsigned char, 32>;
using ConstantValues = std::vector<std::optional<ConstantValue>>;  // as the record declares them

class KernelImage {
 public:
  // Null with a reason where the file is not a library of kernels.
  static std::shared_ptr<KernelImage> open(const std::string& path, std::string* reason);
  // Translates and compiles Metal source, with the command in MPSX_EMULATION_COMPILER: COMMAND in.metal out.so
  static std::shared_ptr<KernelImage> compile(const std::string& source, std::string* reason);

  const mpsx_kernel_record* find(const std::string& name) const;
  std::vector<std::string> names() const;
  const KernelFacts* facts(const std::string& name) const;  // null: nothing is known

 private:
  void read_facts(const char* text);

  std::unordered_map<std::string, const mpsx_kernel_record*> records_;
  std::unordered_map<std::string, KernelFacts> facts_;
};

// One dispatch, all it needs being its own.
struct Launch {
  std::shared_ptr<KernelImage> image;
  const mpsx_kernel_record* record = nullptr;
  struct Buffer {
    void* base = nullptr;  // as the GPU sees it
    size_t offset = 0;
    std::vector<unsigned char> value;  // of setBytes
  };
  std::vector<Buffer> buffers;
  std::vector<size_t> threadgroup_bytes;
  ConstantValues constants;
  mpsx::driver::Dispatch shape;

  // Throws mpsx::driver::Error for what the engine finds wrong in the kernel.
  void run();
};

}  // namespace emulation
