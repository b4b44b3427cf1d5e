#include "driver/host/fault_handler.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>

#include "driver/driver.h"
#include "driver/host/interrupt.h"
#include "driver/host/kernel_code.h"
#include "driver/host/machine_context.h"
#include "driver/host/simt/engine.h"

namespace mpsx::driver::host {
namespace {

constexpr size_t kSignalStack = 64 << 10;
constexpr uintptr_t kStackOverflowSlack = 64 << 10;  // faults at most this far below the stack count as overflows
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT};
constexpr int kSignalCount = sizeof kSignals / sizeof *kSignals;
constexpr int kMaxPrevious = 8;

// The handlers that were installed before ours, oldest first. Our handler first calls the one at `newest`. A handler
// that was installed after ours (for example by faulthandler.enable()) may call ours in turn, which then calls the next
// older one.
struct PreviousHandlers {
  struct sigaction actions[kMaxPrevious];
  std::atomic<int> count{0}, newest{-1};
};
PreviousHandlers previous_handlers[kSignalCount];

// The threads that are executing a previous handler. This is not thread_local, because the first access to a
// thread_local variable of a dlopened library allocates memory, which a handler must not do.
struct Forwarding {
  std::atomic<uintptr_t> thread{0};
  uintptr_t frame = 0;
  int depth = 0;
};
Forwarding forwarding_threads[64];

// The kernel that each thread is running. Reading a pthread key does not allocate memory, unlike reading a thread_local
// variable.
pthread_key_t running_key;
std::once_flag running_key_made;

RunningKernel* running_here() { return static_cast<RunningKernel*>(pthread_getspecific(running_key)); }

int index_of(int signal) {
  for (int i = 0; i < kSignalCount; ++i)
    if (kSignals[i] == signal) return i;
  return 0;
}

// Returns whether the thread raised the signal itself, by executing an instruction or by calling abort(). A signal from
// a different thread or process may arrive during a kernel, but the kernel did not cause it.
bool is_raised_here(const siginfo_t& info, void* context) {
#ifdef SI_TKILL
  if (info.si_code > 0) return true;
  return info.si_code == SI_TKILL && info.si_pid == getpid() && !is_kernel_code(program_counter(context));
#else
  (void)context;
  return info.si_code != SI_USER || info.si_pid == getpid();
#endif
}

void write_error(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void take_default_action(int signal, const siginfo_t& info) {
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  sigaction(signal, &plain, nullptr);
  if (!is_synchronous(info)) raise(signal);  // otherwise, executing the instruction again ends the process
}

void call_handler(struct sigaction& action, int signal, siginfo_t* info, void* context) {
  const struct sigaction chosen = action;
  if (chosen.sa_flags & int(SA_RESETHAND)) action.sa_handler = SIG_DFL, action.sa_flags = 0;
  if (chosen.sa_flags & SA_SIGINFO) return chosen.sa_sigaction(signal, info, context);
  if (chosen.sa_handler == SIG_IGN && !is_synchronous(*info)) return;
  if (chosen.sa_handler == SIG_DFL || chosen.sa_handler == SIG_IGN) return take_default_action(signal, *info);
  chosen.sa_handler(signal);
}

void forward_to_previous(int signal, siginfo_t* info, void* context) {
  const auto self = uintptr_t(pthread_self()), frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  Forwarding* mine = nullptr;
  for (Forwarding& p : forwarding_threads)
    if (p.thread == self) mine = &p;
  // If a previous handler has exited with longjmp, its entry is stale. A signal raised inside a previous handler would
  // have a deeper stack frame.
  if (mine && frame >= mine->frame) mine->depth = 0;
  for (Forwarding& p : forwarding_threads) {
    uintptr_t unused = 0;
    if (mine || !p.thread.compare_exchange_strong(unused, self)) continue;
    mine = &p;
    p.depth = 0;
  }
  PreviousHandlers& previous = previous_handlers[index_of(signal)];
  const int level = previous.newest - (mine ? mine->depth : 0);
  if (level < 0) return take_default_action(signal, *info);
  if (!mine) return call_handler(previous.actions[level], signal, info, context);
  const uintptr_t outer = mine->depth ? mine->frame : 0;
  mine->frame = frame;
  ++mine->depth;
  call_handler(previous.actions[level], signal, info, context);
  mine->frame = outer;
  if (--mine->depth == 0) mine->thread = 0;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (RunningKernel* const running = running_here()) {
    if (is_raised_here(*info, context)) {
      const auto sp = stack_pointer(context), at = reinterpret_cast<uintptr_t>(info->si_addr);
      const bool memory = signal == SIGSEGV || signal == SIGBUS;
      running->fault = {signal, memory ? info->si_addr : nullptr,
                        memory && sp && at + kStackOverflowSlack >= sp && at < reinterpret_cast<uintptr_t>(running)};
      if (ResumePoint resume_point;
          kSetsRegisters && running->worker && running->worker->divert(running->fault, resume_point))
        return resume_at(context, resume_point);
      if (running->back) siglongjmp(*running->back, RunningKernel::kFault);
    }
    write_error("mpsx: fatal signal while running kernel ");
    write_error(running->name);
    write_error("\n");
  }
  forward_to_previous(signal, info, context);
}

}  // namespace

void resume_at(void* context, const ResumePoint& resume_point) {
  set_registers(context, reinterpret_cast<uintptr_t>(resume_point.function),
                reinterpret_cast<uintptr_t>(resume_point.stack));
}

std::string describe(const Fault& fault) {
  char text[128];
  if (fault.on_stack) return "stack overflow (SIGSEGV)";
  switch (fault.signal) {
    case SIGILL: return "__builtin_trap() or an invalid instruction (SIGILL)";
    case SIGTRAP: return "__builtin_trap() or a breakpoint (SIGTRAP)";
    case SIGFPE: return "an arithmetic error (SIGFPE)";
    case SIGABRT: return "abort() was called (SIGABRT)";
    default: break;
  }
  std::snprintf(text, sizeof text, "invalid memory access at address %p%s", fault.address,
                fault.signal == SIGBUS ? " (SIGBUS: beyond the end of a mapped file?)" : "");
  return text;
}

RunningKernel::RunningKernel(const char* kernel_name, sigjmp_buf* jump, simt::Worker* w)
    : name(kernel_name), back(jump), worker(w) {
  pthread_setspecific(running_key, this);
}
RunningKernel::~RunningKernel() { pthread_setspecific(running_key, nullptr); }

SignalStack::SignalStack() {
  static std::once_flag caught;
  std::call_once(caught, install_fault_handlers);
  stack_t have = {};
  if (sigaltstack(nullptr, &have) != 0 || !(have.ss_flags & SS_DISABLE)) return;
  memory_.reset(new char[kSignalStack]);
  stack_t mine = {};
  mine.ss_sp = memory_.get();
  mine.ss_size = kSignalStack;
  sigaltstack(&mine, nullptr);
}

SignalStack::~SignalStack() {
  if (!memory_) return;
  stack_t have = {};
  if (sigaltstack(nullptr, &have) != 0 || have.ss_sp != memory_.get()) {
    (void)memory_.release();  // a different library may have saved this stack, so leak it
    return;
  }
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

void install_fault_handlers() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::call_once(running_key_made, [] { pthread_key_create(&running_key, nullptr); });
  for (int i = 0; i < kSignalCount; ++i) {
    struct sigaction now = {}, action = {};
    sigaction(kSignals[i], nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault) continue;
    PreviousHandlers& previous = previous_handlers[i];
    int at = 0;
    while (at < previous.count && previous.actions[at].sa_sigaction != now.sa_sigaction) ++at;
    if (at == kMaxPrevious) --at;
    previous.actions[at] = now;
    if (at == previous.count) ++previous.count;
    previous.newest = at;
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(kSignals[i], &action, nullptr);
  }
}

[[gnu::noinline]] void run_guarded(const char* name, const unsigned* since, const std::function<void()>& kernel) {
  thread_local SignalStack stack;
  (void)stack;
  sigjmp_buf back;
  RunningKernel running(name, &back, nullptr);
  std::optional<Interruptible> interruptible;
  if (since) interruptible.emplace(*since, &back);
  switch (sigsetjmp(back, 0)) {
    case 0: kernel(); return;
    case RunningKernel::kInterrupt: throw Error(std::string(name) + ": interrupted");
    default: throw Error(std::string(name) + ": " + describe(running.fault));
  }
}

}  // namespace mpsx::driver::host
