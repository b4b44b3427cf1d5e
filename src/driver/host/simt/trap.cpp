#include "driver/host/simt/trap.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace mpsx::driver::host::simt {
namespace {

constexpr size_t kHandlerStack = 64 << 10;
std::atomic<Divert> divert{nullptr};
struct sigaction previous;

void handle(int signal, siginfo_t* info, void* context) {
  Landing landing;
  const Divert f = divert.load();
  if (f && info->si_code > 0 && f(info->si_addr, landing)) return go(context, landing);
  if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  sigaction(signal, &plain, nullptr);  // the access is tried again, and then ends the process
}

}  // namespace

void go(void* context, const Landing& landing) {
  mcontext_t& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  registers.gregs[REG_RIP] = greg_t(reinterpret_cast<uintptr_t>(landing.function));
  registers.gregs[REG_RSP] = greg_t(reinterpret_cast<uintptr_t>(landing.stack));
#else
  registers.pc = reinterpret_cast<uintptr_t>(landing.function);
  registers.sp = reinterpret_cast<uintptr_t>(landing.stack);
#endif
}

Trap::Trap(Divert f) {
  stack_t have = {};
  if (sigaltstack(nullptr, &have) == 0 && (have.ss_flags & SS_DISABLE)) {
    stack_.reset(new char[kHandlerStack]);
    stack_t mine = {};
    mine.ss_sp = stack_.get();
    mine.ss_size = kHandlerStack;
    sigaltstack(&mine, nullptr);
  }
  static std::once_flag once;
  std::call_once(once, [f] {
    divert = f;
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous);
  });
}

Trap::~Trap() {
  if (!stack_) return;
  stack_t have = {};
  if (sigaltstack(nullptr, &have) != 0 || have.ss_sp != stack_.get()) {
    stack_.release();  // somebody else's business now; better lost than unmapped under a handler
    return;
  }
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

}  // namespace mpsx::driver::host::simt

#else

namespace mpsx::driver::host::simt {
Trap::Trap(Divert) {}
Trap::~Trap() = default;
}  // namespace mpsx::driver::host::simt

#endif
