// Reads the PTX library, an index of kernels and their code. python/mpsx/msl/ptx.py writes and documents it.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mpsx::driver::cuda {

// A parameter of an entry point. After all of these, the grid is passed as the last parameter.
struct Parameter {
  enum class Kind : uint8_t { pointer, value, threadgroup } kind;
  uint32_t index;      // index of the buffer or of the threadgroup argument
  uint32_t bytes = 0;  // size of a parameter passed by value
};

// Compressed text.
struct PackedText {
  std::string_view packed;
  size_t size = 0;  // of the text
};

struct PtxKernel {
  std::string name, symbol;
  std::vector<Parameter> parameters;
  PackedText common, code;  // the part that kernels of a file share, and the entry point
  // Bytes of dynamic shared memory that tensor operations need, per threadgroup and per SIMD group. A launch reserves
  // whichever results in the larger total. With `max_staging` bytes, if not 0, the kernel is faster, but a
  // multiprocessor can run only one threadgroup.
  uint32_t staging = 0, simdgroup_staging = 0, max_staging = 0;
  uint32_t additional_threads = 0;  // per threadgroup, after those of the dispatch
};

class PtxLibrary {
 public:
  // `target` is the PTX target of the GPU, for example "sm_90a". Code compiled for `target` is preferred over portable
  // code. Throws Error on failure.
  PtxLibrary(const std::string& path, const std::string& target);
  ~PtxLibrary();
  PtxLibrary(const PtxLibrary&) = delete;
  PtxLibrary& operator=(const PtxLibrary&) = delete;

  const PtxKernel* find(std::string_view name) const;  // null if not found
  std::vector<std::string> names() const;              // sorted
  const std::string& compiler() const { return compiler_; }
  // Returns the PTX of a module that contains only this kernel.
  static std::string text(const PtxKernel&);

 private:
  void read(std::string_view data, const std::string& target);

  void* mapped_ = nullptr;
  size_t mapped_size_ = 0;
  std::string compiler_;
  std::unordered_map<std::string, PtxKernel> kernels_;
};

}  // namespace mpsx::driver::cuda
