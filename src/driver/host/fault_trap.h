// Faults in kernels (an invalid instruction, a wild pointer, a full stack, abort) end the launch with an error that
// names the kernel. Faults from anywhere else reach the handlers that were there before.
#pragma once

#include <setjmp.h>

#include <functional>
#include <memory>
#include <string>

namespace mpsx::driver::host {

namespace simt {
class Worker;
}

// Where a thread goes on when a handler returns, and on which stack.
struct Landing {
  void (*function)();
  void* stack;
};
// Makes the thread whose registers a handler got go on there.
void go(void* context, const Landing&);

struct Fault {
  int signal = 0;
  const void* address = nullptr;  // the faulting access
  bool on_stack = false;          // that address is within or just below the kernel's part of the thread's stack
};
// Describes the fault for a message.
std::string describe(const Fault&);

// While it lives, the thread that made it runs a kernel: on its own stack, where a fault or an interrupt jumps to
// `back` (with one of the values below), or as the threads of a Worker, which has stacks of its own.
class RunningKernel {
 public:
  static constexpr int kFault = 1, kInterrupt = 2;
  RunningKernel(const char* name, sigjmp_buf* back, simt::Worker* worker);
  ~RunningKernel();
  RunningKernel(const RunningKernel&) = delete;
  RunningKernel& operator=(const RunningKernel&) = delete;

  const char* const name;
  sigjmp_buf* const back;
  simt::Worker* const worker;
  Fault fault;
};

// A stack for the calling thread's signal handlers, unless it has one: a kernel's own may be full.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;
};

// Handles the signals of faults from now on; again for every library, since another handler may have been set since.
void catch_faults();

// Runs a kernel on the calling thread's stack. Throws Error when it faults, or when it is interruptible (`since` is not
// null, and points to interrupts() before the launch) and Ctrl-C was pressed twice.
void run_guarded(const char* name, const unsigned* since, const std::function<void()>& kernel);

}  // namespace mpsx::driver::host
