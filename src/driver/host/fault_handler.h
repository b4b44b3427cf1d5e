// Faults in kernels (an invalid instruction, a bad pointer, a stack overflow, abort) end the launch with an error that
// names the kernel. All other faults go to the previously installed handlers.
#pragma once

#include <setjmp.h>

#include <functional>
#include <memory>
#include <string>

namespace mpsx::driver::host {

namespace simt {
class Worker;
}

// The function and stack with which a thread continues when a signal handler returns.
struct ResumePoint {
  void (*function)();
  void* stack;
};
// Changes a signal handler's context so that the thread continues there.
void resume_at(void* context, const ResumePoint&);

struct Fault {
  int signal = 0;
  const void* address = nullptr;  // of the faulting access
  bool on_stack = false;          // whether the address is within or just below the kernel's part of the thread's stack
};
// Describes the fault in an error message.
std::string describe(const Fault&);

// While alive, the thread that created it runs a kernel: either on its own stack, where a fault or an interrupt jumps
// to `back` with one of the values below, or as the threads of a Worker, which has its own stacks.
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

// Provides a stack for the calling thread's signal handlers, unless it has one, because a kernel's stack may overflow.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;
};

// Installs the signal handlers. Called again for every library, because they may have been replaced since.
void install_fault_handlers();

// Runs a kernel on the calling thread's stack. Throws Error if it faults, or if it is interruptible and Ctrl-C was
// pressed twice. `since`: interrupt_count() before the launch, or null for a kernel that is not interruptible.
void run_guarded(const char* name, const unsigned* since, const std::function<void()>& kernel);

}  // namespace mpsx::driver::host
