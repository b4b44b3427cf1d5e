// Ctrl-C ends a kernel of the user's that does not end by itself: at the second SIGINT during its launch. The first one
// is for whoever handles it, like Python, which raises KeyboardInterrupt once the launch is over. On Linux, x86-64.
#pragma once

#include <functional>

namespace mpsx::driver::host {

// Notices SIGINT from now on; again for every library, since Python may have put its handler in place since.
void notice_interrupts();
unsigned interrupts();  // so far
inline bool is_interrupted(unsigned since) { return interrupts() - since >= 2; }

// While it lives, the thread that made it runs a kernel that began after so many interrupts.
class Interruptible {
 public:
  explicit Interruptible(unsigned since);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  void* back[5] = {};  // where __builtin_longjmp goes, once `jumps`
  bool jumps = false;
};

// Runs a kernel that has no stack of its own. False: it was interrupted.
bool run_interruptibly(unsigned since, const std::function<void()>& kernel);

}  // namespace mpsx::driver::host
