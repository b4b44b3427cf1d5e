// Ctrl-C ends a user's kernel that runs forever: the second SIGINT during its launch interrupts it. The first one goes
// to the previous handler, such as Python's, which raises KeyboardInterrupt after the launch. Linux on x86-64 only.
#pragma once

#include <setjmp.h>

namespace mpsx::driver::host {

// Installs the signal handlers. Called again for every library, because Python may have replaced them since.
void install_interrupt_handlers();
unsigned interrupt_count();  // number of SIGINTs so far
inline bool is_interrupted(unsigned since) { return interrupt_count() - since >= 2; }

// While alive, the thread that created it runs an interruptible kernel, which started after `since` interrupts. `back`:
// the jump target of a kernel on the thread's own stack (RunningKernel), or null for the threads of a simt::Worker.
class Interruptible {
 public:
  explicit Interruptible(unsigned since, sigjmp_buf* back = nullptr);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  sigjmp_buf* const back;
};

}  // namespace mpsx::driver::host
