// Lets Ctrl-C end a user's kernel that runs forever. The first SIGINT during a launch is passed to the previous handler
// (for example Python's, which raises KeyboardInterrupt after the launch). The second one interrupts the kernel. This
// is supported only on Linux on x86-64.
#pragma once

#include <setjmp.h>

namespace mpsx::driver::host {

// Installs the signal handlers. Call this again after loading a library, because Python may have replaced them.
void install_interrupt_handlers();
unsigned interrupt_count();  // number of SIGINTs received so far
inline bool is_interrupted(unsigned since) { return interrupt_count() - since >= 2; }

// While this object exists, the calling thread is marked as running an interruptible kernel. `since` is
// interrupt_count() at the start. `back` is where to jump if the kernel runs on the thread's own stack (RunningKernel),
// and null for a simt::Worker.
class Interruptible {
 public:
  explicit Interruptible(unsigned since, sigjmp_buf* back = nullptr);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  sigjmp_buf* const back;
};

}  // namespace mpsx::driver::host
