#include "driver/host/interrupt.h"

#if defined(__linux__) && defined(__x86_64__)
#  include <pthread.h>
#  include <signal.h>

#  include <atomic>

#  include "driver/host/fault_handler.h"
#  include "driver/host/kernel_code.h"
#  include "driver/host/machine_context.h"
#  include "driver/host/simt/engine.h"

namespace mpsx::driver::host {
namespace {

// There is one slot for each thread that runs kernels. When a thread ends, its slot is reused. Slots are never freed,
// because a signal handler may be reading them.
struct Slot {
  std::atomic<bool> in_use{true};
  std::atomic<Interruptible*> running{nullptr};
  unsigned since = 0;
  pthread_t thread = pthread_self();
  Slot* next = nullptr;
};
std::atomic<Slot*> slots{nullptr};
std::atomic<unsigned> count{0};
struct sigaction previous_interrupt, previous_urgent;

Slot& new_slot() {
  for (Slot* s = slots; s; s = s->next) {
    if (s->in_use.exchange(true)) continue;
    s->thread = pthread_self();
    return *s;
  }
  auto* s = new Slot;
  s->next = slots;
  while (!slots.compare_exchange_weak(s->next, s)) {
  }
  return *s;
}
struct Owner {
  Slot& slot = new_slot();
  ~Owner() { slot.in_use = false; }
};
thread_local Owner own;

void forward(const struct sigaction& previous, int signal, siginfo_t* info, void* context) {
  if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
  if (previous.sa_handler == SIG_IGN || signal == SIGURG) return;
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  sigaction(signal, &plain, nullptr);
  raise(signal);
}

bool should_end(const Slot& s) { return s.running && is_interrupted(s.since); }

// Does nothing while the kernel is in a library function such as sin(). In that case, the next Ctrl-C can end the
// kernel.
void end_kernel(void* context) {
  if (!should_end(own.slot)) return;
  if (!is_kernel_code(program_counter(context))) return;
  if (ResumePoint resume_point; simt::Worker::interrupt(resume_point)) return resume_at(context, resume_point);
  if (Interruptible* const running = own.slot.running; running->back)
    siglongjmp(*running->back, RunningKernel::kInterrupt);
}

// The OS chooses the thread that receives SIGINT, so forward the signal to the other threads that run a kernel.
void on_interrupt(int signal, siginfo_t* info, void* context) {
  ++count;
  for (Slot* s = slots; s; s = s->next)
    if (s != &own.slot && should_end(*s)) pthread_kill(s->thread, SIGURG);
  forward(previous_interrupt, signal, info, context);
  end_kernel(context);
}

void on_urgent(int signal, siginfo_t* info, void* context) {
  if (info->si_code != SI_TKILL) return forward(previous_urgent, signal, info, context);
  end_kernel(context);
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*), struct sigaction& previous) {
  struct sigaction now = {}, action = {};
  sigaction(signal, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handler) return;
  previous = now;
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | (now.sa_flags & SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void install_interrupt_handlers() {
  handle(SIGINT, on_interrupt, previous_interrupt);
  handle(SIGURG, on_urgent, previous_urgent);
}
unsigned interrupt_count() { return count; }

Interruptible::Interruptible(unsigned since, sigjmp_buf* jump) : back(jump) {
  own.slot.since = since;
  own.slot.running = this;
}
Interruptible::~Interruptible() { own.slot.running = nullptr; }

}  // namespace mpsx::driver::host

#else

namespace mpsx::driver::host {
void install_interrupt_handlers() {}
unsigned interrupt_count() { return 0; }
Interruptible::Interruptible(unsigned, sigjmp_buf* jump) : back(jump) {}
Interruptible::~Interruptible() = default;
}  // namespace mpsx::driver::host

#endif
