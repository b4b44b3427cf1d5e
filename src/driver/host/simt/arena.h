// Threadgroup memory of the threadgroup that a CPU thread is running.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace mpsx::driver::host::simt {

// Holds variables and [[threadgroup(n)]] arguments in one block, with gaps between them to catch out-of-bounds
// accesses. Their offsets do not change during a dispatch.
class Arena {
 public:
  static constexpr size_t kGap = 256, kAlignment = 128;
  static constexpr size_t kCapacity = size_t(1) << 20;  // much larger than Metal's limit on threadgroup memory

  struct Variable {
    const char* name;  // null until the variable is created
    size_t offset, bytes;
  };

  void reset();  // removes all variables
  // Returns the memory of variable `key`. On first use, allocates it and sets `made`. Returns null if the arena is
  // full.
  void* variable(unsigned key, size_t bytes, const char* name, bool* made = nullptr);

  char* begin() const { return memory_.get(); }
  size_t used() const { return used_; }    // bytes from begin(), including the gaps
  size_t bytes() const { return bytes_; }  // total size of the variables, which Metal limits
  const std::vector<Variable>& variables() const { return variables_; }

 private:
  struct Free {
    void operator()(char* p) const;
  };
  std::unique_ptr<char, Free> memory_;
  size_t used_ = 0, bytes_ = 0;
  std::vector<Variable> variables_;  // indexed by key
};

}  // namespace mpsx::driver::host::simt
