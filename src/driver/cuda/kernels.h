// Looks up kernels by key and compiles them on first use. A library contains kernels for certain values of function
// constants, so the values in a key only identify the kernel. A key may end with kThreads and a number. The kernel is
// then compiled with few enough registers for a threadgroup of that size.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "driver/cuda/cubin_cache.h"
#include "driver/cuda/ptx_library.h"

namespace mpsx::driver::cuda {

constexpr std::string_view kThreads = "|[threads]=";  // no function constant has such a name

struct CudaKernel final : Kernel {
  CUfunction function = nullptr;
  std::vector<Parameter> parameters;
  uint32_t buffers = 0, threadgroups = 0;       // highest index of each kind plus one
  uint32_t staging = 0, simdgroup_staging = 0;  // copied from PtxKernel
  uint32_t additional_threads = 0;              // likewise
  uint32_t max_staging = 0;                     // likewise, or 0 if the kernel cannot use more than `staging`
  // Returns the size of the memory that stages a threadgroup's tensor operations, at the start of dynamic shared
  // memory. `alone` says that a multiprocessor runs only one threadgroup.
  uint32_t staging_bytes(uint32_t threads, bool alone) const {
    const uint32_t needed = std::max(staging, simdgroup_staging * ((threads + simd_width - 1) / simd_width));
    return alone ? std::max(needed, max_staging) : needed;
  }
};

class Kernels final : public Library {
 public:
  Kernels(const Device&, const std::string& path);

  const Kernel* kernel(std::string_view key) const override { return const_cast<Kernels*>(this)->get(key); }
  std::vector<std::string> kernel_names() const override { return library_.names(); }
  const std::string& compiler() const { return library_.compiler(); }

 private:
  struct Loaded {
    explicit Loaded(const Api& a) : api(a) {}
    ~Loaded();
    const Api& api;
    CudaKernel kernel;
    CUmodule module = nullptr;
  };
  // A thread that loads a kernel holds its mutex, so threads load different kernels at the same time.
  struct Entry {
    std::mutex mutex;
    std::unique_ptr<Loaded> loaded;
  };
  const CudaKernel* get(std::string_view key);
  std::unique_ptr<Loaded> load(std::string_view key, const PtxKernel&);
  std::string compile(const PtxKernel&, unsigned registers);

  const Device& device_;
  const bool line_info_;  // NVIDIA's tools show lines of Metal source, but some matmuls take a third longer to compile
  PtxLibrary library_;
  const CubinCache cache_;
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;  // by key
};

}  // namespace mpsx::driver::cuda
