// Reads and sets registers in the context of a signal handler. On unsupported platforms, reading returns 0.
#pragma once

#include <signal.h>

#include <cstdint>

namespace mpsx::driver::host {

inline uintptr_t program_counter([[maybe_unused]] void* context) {
#if defined(__linux__) && defined(__x86_64__)
  return uintptr_t(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__linux__) && defined(__aarch64__)
  return uintptr_t(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
  return 0;
#endif
}

inline uintptr_t stack_pointer([[maybe_unused]] void* context) {
#if defined(__linux__) && defined(__x86_64__)
  return uintptr_t(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
#elif defined(__linux__) && defined(__aarch64__)
  return uintptr_t(static_cast<ucontext_t*>(context)->uc_mcontext.sp);
#elif defined(__APPLE__) && defined(__aarch64__)
  return uintptr_t(static_cast<ucontext_t*>(context)->uc_mcontext->__ss.__sp);
#else
  return 0;
#endif
}

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
constexpr bool kSetsRegisters = true;
#else
constexpr bool kSetsRegisters = false;
#endif

inline void set_registers([[maybe_unused]] void* context, [[maybe_unused]] uintptr_t pc,
                          [[maybe_unused]] uintptr_t sp) {
#if defined(__linux__) && defined(__x86_64__)
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RIP] = greg_t(pc);
  registers[REG_RSP] = greg_t(sp);
#elif defined(__linux__) && defined(__aarch64__)
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
  registers.pc = pc;
  registers.sp = sp;
#endif
}

// Returns whether an instruction of the thread caused the signal, rather than kill(), raise() or a similar call.
inline bool is_synchronous(const siginfo_t& info) {
#ifdef __linux__
  return info.si_code > 0;
#else
  return info.si_code != SI_USER && info.si_signo != SIGABRT;
#endif
}

}  // namespace mpsx::driver::host
