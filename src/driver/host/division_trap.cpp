#include "driver/host/division_trap.h"

#if defined(__linux__) && defined(__x86_64__)
#  include <dlfcn.h>
#  include <elf.h>
#  include <link.h>
#  include <ucontext.h>

#  include <atomic>
#  include <cstdint>
#  include <mutex>

namespace mpsx::driver::host {
namespace {

// Where a library lies; nowhere once it is closed, until the next one takes its place in the list.
struct Code {
  std::atomic<uintptr_t> begin, end;
  Code* next;
};
std::atomic<Code*> libraries{nullptr};
std::mutex one_at_a_time;  // for those who change the list

// How long a `div` or `idiv` is, or 0 for anything else; `bytes`: whether its operands are bytes.
size_t division_length(const uint8_t* code, bool& bytes) {
  const uint8_t* p = code;
  while (*p == 0x66) ++p;        // 16 bits
  if ((*p & 0xf0) == 0x40) ++p;  // REX
  if ((*p & 0xfe) != 0xf6) return 0;
  bytes = *p++ == 0xf6;
  const unsigned mode = *p >> 6, operation = *p >> 3 & 7, base = *p & 7;
  if (operation < 6) return 0;
  ++p;
  if (mode != 3) {
    const bool indexed = base == 4;
    const bool wide = mode == 0 && (indexed ? *p & 7 : base) == 5;  // a displacement of 32 bits, and no base
    p += (indexed ? 1 : 0) + (wide || mode == 2 ? 4 : mode == 1 ? 1 : 0);
  }
  return size_t(p - code);
}

}  // namespace

// The quotient is the low half of the dividend, which is right for the least integer by -1; nothing remains.
bool skip_division(void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto at = uintptr_t(registers[REG_RIP]);
  bool bytes = false;
  const size_t length = is_kernel_code(at) ? division_length(reinterpret_cast<const uint8_t*>(at), bytes) : 0;
  if (!length) return false;
  if (bytes)
    registers[REG_RAX] &= ~greg_t(0xff00);
  else
    registers[REG_RDX] = 0;
  registers[REG_RIP] += greg_t(length);
  return true;
}

bool is_kernel_code(uintptr_t at) {
  for (const Code* c = libraries; c; c = c->next)
    if (c->begin <= at && at < c->end) return true;
  return false;
}

void tolerate_division_by_zero(const void* symbol) {
  Dl_info library;
  if (!dladdr(symbol, &library)) return;
  const auto base = reinterpret_cast<uintptr_t>(library.dli_fbase);
  const auto* header = static_cast<const ElfW(Ehdr)*>(library.dli_fbase);
  const auto* segment = reinterpret_cast<const ElfW(Phdr)*>(base + header->e_phoff);
  uintptr_t size = 0;
  for (unsigned i = 0; i < header->e_phnum; ++i)
    if (segment[i].p_type == PT_LOAD && segment[i].p_vaddr + segment[i].p_memsz > size)
      size = segment[i].p_vaddr + segment[i].p_memsz;
  const std::lock_guard lock(one_at_a_time);
  Code* code = libraries;
  while (code && code->begin) code = code->next;
  if (!code) libraries = code = new Code{0, 0, libraries};
  code->begin = base;
  code->end = base + size;
}

void forget_division_by_zero(const void* symbol) {
  const auto at = reinterpret_cast<uintptr_t>(symbol);
  const std::lock_guard lock(one_at_a_time);
  for (Code* code = libraries; code; code = code->next) {
    if (code->begin > at || at >= code->end) continue;
    code->end = 0;
    code->begin = 0;
    return;
  }
}

}  // namespace mpsx::driver::host

#else

namespace mpsx::driver::host {
void tolerate_division_by_zero(const void*) {}
void forget_division_by_zero(const void*) {}
bool skip_division(void*) { return false; }
bool is_kernel_code(uintptr_t) { return false; }
}  // namespace mpsx::driver::host

#endif
