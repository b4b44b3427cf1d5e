// The threadgroup memory of the threadgroup that a CPU thread runs.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace mpsx::driver::host::simt {

// Variables and [[threadgroup(n)]] arguments are in one block, separated by gaps in which accesses are out of bounds.
// Their offsets stay the same for a dispatch.
class Arena {
 public:
  static constexpr size_t kGap = 256, kAlignment = 128;
  static constexpr size_t kCapacity = size_t(1) << 20;  // address range, many times Metal's limit of bytes

  struct Variable {
    const char* name;  // null until created
    size_t offset, bytes;
  };

  void reset();  // removes all variables
  // The memory of variable `key`, allocated on first use, which sets `made`. Null if there is no room.
  void* variable(unsigned key, size_t bytes, const char* name, bool* made = nullptr);

  char* begin() const { return memory_.get(); }
  size_t used() const { return used_; }    // bytes from begin(), gaps included
  size_t bytes() const { return bytes_; }  // of all variables, as Metal counts them
  const std::vector<Variable>& variables() const { return variables_; }

 private:
  struct Free {
    void operator()(char* p) const;
  };
  std::unique_ptr<char, Free> memory_;
  size_t used_ = 0, bytes_ = 0;
  std::vector<Variable> variables_;  // by key
};

}  // namespace mpsx::driver::host::simt
