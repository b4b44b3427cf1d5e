#include "driver/host/simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "driver/driver.h"

#if defined(__x86_64__)
// Saves the registers that the callee must preserve (System V ABI, 3.2.1), except the floating-point control words,
// which kernels do not change. A switch ends with a return instruction, not a jump. Because fibers wait at the same
// call depth, the CPU predicts its target correctly.
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
  ret
.p2align 4
.globl mpsx_simt_start
mpsx_simt_start:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  xorl %ebp, %ebp
  jmpq *%rdx
)");
#elif defined(__aarch64__)
// The callee must preserve x19 to x30 and the low halves of v8 to v15 (AAPCS64, 6.1.1 and 6.1.2).
#  define MPSX_SAVE                  \
    "  stp x29, x30, [sp, #-160]!\n" \
    "  stp x19, x20, [sp, #16]\n"    \
    "  stp x21, x22, [sp, #32]\n"    \
    "  stp x23, x24, [sp, #48]\n"    \
    "  stp x25, x26, [sp, #64]\n"    \
    "  stp x27, x28, [sp, #80]\n"    \
    "  stp d8, d9, [sp, #96]\n"      \
    "  stp d10, d11, [sp, #112]\n"   \
    "  stp d12, d13, [sp, #128]\n"   \
    "  stp d14, d15, [sp, #144]\n"   \
    "  mov x9, sp\n"                 \
    "  str x9, [x0]\n"               \
    "  mov sp, x1\n"
asm(".text\n.p2align 4\n.globl mpsx_simt_switch\nmpsx_simt_switch:\n" MPSX_SAVE R"(
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
  ret
.p2align 4
.globl mpsx_simt_start
mpsx_simt_start:
)" MPSX_SAVE R"(
  mov x29, xzr
  mov x30, xzr
  br x2
)");
#  undef MPSX_SAVE
#else
#  error "mpsx: no context switch for this processor"
#endif

namespace mpsx::driver::host::simt {

Stacks::~Stacks() { unmap(); }

void Stacks::unmap() noexcept {
  if (mapping_) munmap(mapping_, (count_ + 1) * kBytes);
  mapping_ = nullptr;
  count_ = 0;
}

void Stacks::reserve(size_t count, void* owner) {
  if (count <= count_) return;
  unmap();
  guard_ = size_t(sysconf(_SC_PAGESIZE));
  // Map one more stack than needed, for alignment and for a guard page after the last stack.
  void* p =
      mmap(nullptr, (count + 1) * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw OutOfMemory("no memory for the stacks of " + std::to_string(count) + " threads");
  mapping_ = p;
  memory_ = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(p) + kBytes - 1) & ~(kBytes - 1));
  count_ = count;
  for (size_t i = 0; i <= count; ++i) {
    char* const stack = memory_ + i * kBytes;
    mprotect(stack, guard_, PROT_NONE);
    if (i < count) reinterpret_cast<void**>(stack + kBytes)[-1] = owner;
  }
}

void* Stacks::top(size_t i) const noexcept {
  const size_t color = i * 5 % 64 * 64;  // distributes the stacks over 64 cache sets of 64 bytes
#if defined(__x86_64__)
  constexpr size_t kReturnAddress = 8;  // at function entry, the stack pointer is 8 bytes off alignment
#else
  constexpr size_t kReturnAddress = 0;
#endif
  char* p = memory_ + (i + 1) * kBytes - color - 32 - kReturnAddress;
  *reinterpret_cast<void**>(p) = nullptr;
  return p;
}

long Stacks::overflowed(const void* p) const noexcept {
  const auto at = reinterpret_cast<uintptr_t>(p), base = reinterpret_cast<uintptr_t>(memory_);
  if (!mapping_ || at < base || at >= base + count_ * kBytes || (at - base) % kBytes >= guard_) return -1;
  return long((at - base) / kBytes);
}

}  // namespace mpsx::driver::host::simt
