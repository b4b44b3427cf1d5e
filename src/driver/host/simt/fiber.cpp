#include "driver/host/simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "driver/driver.h"

#if defined(__x86_64__)
// The registers that a call preserves (System V ABI, 3.2.1); kernels change no control words.
asm(R"(
.text
.p2align 4
.globl mpsx_simt_switch
mpsx_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
)");
#elif defined(__aarch64__)
// x19 to x30 and the low halves of v8 to v15 (AAPCS64, 6.1.1 and 6.1.2).
asm(R"(
.text
.p2align 4
.globl mpsx_simt_switch
mpsx_simt_switch:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  br x30
)");
#else
#error "mpsx: no context switch for this processor"
#endif

namespace mpsx::driver::host::simt {

Stacks::~Stacks() { unmap(); }

void Stacks::unmap() noexcept {
  if (memory_) munmap(memory_, count_ * stride_);
  memory_ = nullptr;
  count_ = 0;
}

void Stacks::reserve(size_t count) {
  if (count <= count_) return;
  unmap();
  guard_ = size_t(sysconf(_SC_PAGESIZE));
  stride_ = guard_ + kBytes;
  void* p = mmap(nullptr, count * stride_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw OutOfMemory("no memory for the stacks of " + std::to_string(count) + " threads");
  memory_ = static_cast<char*>(p);
  count_ = count;
  for (size_t i = 0; i < count; ++i) mprotect(memory_ + i * stride_, guard_, PROT_NONE);
}

void* Stacks::start(size_t i, void (*entry)()) const noexcept {
  const size_t colour = i * 5 % 64 * 64;  // 64 sets of 64 bytes
  auto* top = reinterpret_cast<void**>(memory_ + (i + 1) * stride_ - colour);
#if defined(__x86_64__)
  *--top = nullptr;  // where a return address would be: the stack pointer is 8 off a multiple of 16 in a function
  *--top = reinterpret_cast<void*>(entry);
  for (int k = 0; k < 6; ++k) *--top = nullptr;
#else
  top -= 20;
  for (int k = 0; k < 20; ++k) top[k] = nullptr;
  top[1] = reinterpret_cast<void*>(entry);  // x30
#endif
  return top;
}

long Stacks::overflowed(const void* p) const noexcept {
  const auto at = reinterpret_cast<uintptr_t>(p), base = reinterpret_cast<uintptr_t>(memory_);
  if (!memory_ || at < base || at >= base + count_ * stride_ || (at - base) % stride_ >= guard_) return -1;
  return long((at - base) / stride_);
}

}  // namespace mpsx::driver::host::simt
