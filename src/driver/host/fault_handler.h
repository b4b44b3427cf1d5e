// Converts faults in kernels (invalid instructions, bad pointers, stack overflows, abort) to errors that name the
// kernel. Forwards all other faults to the handlers that were installed before.
#pragma once

#include <setjmp.h>

#include <functional>
#include <memory>
#include <string>

namespace mpsx::driver::host {

namespace simt {
class Worker;
}

// The function and the stack with which a thread continues when a signal handler returns.
struct ResumePoint {
  void (*function)();
  void* stack;
};
// Changes the context of a signal handler so that the thread resumes at the given point.
void resume_at(void* context, const ResumePoint&);

struct Fault {
  int signal = 0;
  const void* address = nullptr;  // faulting address
  bool on_stack = false;          // whether the address is in, or just below, the kernel's part of the thread's stack
};
std::string describe(const Fault&);

// While this object exists, the calling thread is marked as running a kernel. If the kernel runs on the thread's own
// stack, a fault or an interrupt jumps to `back` with one of the values below. `back` is null for a simt::Worker, which
// runs kernel threads on its own stacks.
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

// Provides an alternate signal stack for the calling thread if it does not have one. Signal handlers need this when a
// kernel has overflowed the thread's stack.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;
};

// Installs the signal handlers. Call this again after loading a library, because a different handler may have replaced
// ours.
void install_fault_handlers();

// Runs a kernel on the calling thread's stack. Throws Error if the kernel faults, or if the user has pressed Ctrl-C
// twice and the kernel is interruptible. `since` is interrupt_count() before the launch, or null if the kernel is not
// interruptible.
void run_guarded(const char* name, const unsigned* since, const std::function<void()>& kernel);

}  // namespace mpsx::driver::host
