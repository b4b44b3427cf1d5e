// Lets Ctrl-C end a user's kernel that runs forever. The first SIGINT during a launch goes to the previous handler,
// such as Python's, which raises KeyboardInterrupt after the launch. The second one interrupts the kernel. Supported
// only on Linux on x86-64.
#pragma once

#include <setjmp.h>

namespace mpsx::driver::host {

// Installs the signal handlers. Call again after loading a library, because Python may have replaced them.
void install_interrupt_handlers();
unsigned interrupt_count();  // number of SIGINTs so far
inline bool is_interrupted(unsigned since) { return interrupt_count() - since >= 2; }

// Marks the calling thread as running an interruptible kernel while this object is alive. `since` is interrupt_count()
// at the start. `back` is the jump target of a kernel on the thread's own stack (RunningKernel), or null for a
// simt::Worker.
class Interruptible {
 public:
  explicit Interruptible(unsigned since, sigjmp_buf* back = nullptr);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  sigjmp_buf* const back;
};

}  // namespace mpsx::driver::host
