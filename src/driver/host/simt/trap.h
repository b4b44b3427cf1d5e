// Memory faults of kernels (a stack that is full, a wild pointer) end the dispatch, not the process.
#pragma once

#include <memory>

namespace mpsx::driver::host::simt {

// Asked by the handler: where a thread in which address `p` faulted goes on instead, and on which stack. False: the
// fault is not a kernel's, and whoever handled such faults before does.
struct Landing {
  void (*function)();
  void* stack;
};
// Lets the thread whose registers a handler got go on there.
void go(void* context, const Landing&);
using Divert = bool (*)(const void* p, Landing&) noexcept;

// Handles SIGSEGV from now on; a stack for the handler on the calling thread. Does nothing where that is not known.
class Trap {
 public:
  explicit Trap(Divert);
  ~Trap();
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

 private:
  std::unique_ptr<char[]> stack_;
};

}  // namespace mpsx::driver::host::simt
