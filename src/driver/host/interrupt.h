// Ctrl-C ends a kernel of the user's that does not end by itself: at the second SIGINT during its launch. The first one
// is for whoever handles it, like Python, which raises KeyboardInterrupt once the launch is over. On Linux, x86-64.
#pragma once

#include <setjmp.h>

namespace mpsx::driver::host {

// Notices SIGINT from now on; again for every library, since Python may have put its handler in place since.
void notice_interrupts();
unsigned interrupts();  // so far
inline bool is_interrupted(unsigned since) { return interrupts() - since >= 2; }

// While it lives, the thread that made it runs a kernel that began after so many interrupts. `back`: where a kernel on
// the thread's own stack is left (RunningKernel); null for the threads of a simt::Worker.
class Interruptible {
 public:
  explicit Interruptible(unsigned since, sigjmp_buf* back = nullptr);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  sigjmp_buf* const back;
};

}  // namespace mpsx::driver::host
