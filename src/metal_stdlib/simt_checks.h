// Implements the callbacks of -fsanitize=thread,array-bounds for kernels compiled with checks. They call the driver's
// checker. They are compiled once per library, separately from the kernels. No sanitizer runtime is linked.
//
// Their names and semantics are the same as in LLVM's ThreadSanitizer (compiler-rt, tsan_interface.h and
// tsan_interface_atomic.h) and UndefinedBehaviorSanitizer (ubsan_handlers.h). gcc uses the same interfaces.
#pragma once

#define MPSX_CHECK extern "C" __attribute__((visibility("hidden"), noinline, used, MPSX_UNCHECKED))
#define MPSX_CODE __builtin_return_address(0)

MPSX_CHECK void __tsan_init() {}

#define MPSX_ACCESS(KIND, NAME, BYTES) \
  MPSX_CHECK void __tsan_##NAME(void* p) { mpsx_simt->KIND(p, BYTES, MPSX_CODE); }
#define MPSX_ALIGNED_ACCESS(KIND, BYTES, WRITES)                                                         \
  MPSX_CHECK void __tsan_##KIND##BYTES(void* p) {                                                        \
    if ((unsigned long)p % BYTES != 0) [[unlikely]] mpsx_simt->misaligned(p, BYTES, WRITES, MPSX_CODE);  \
    mpsx_simt->KIND(p, BYTES, MPSX_CODE);                                                                \
  }
#define MPSX_ACCESSES(N)                          \
  MPSX_ALIGNED_ACCESS(read, N, 0)                 \
  MPSX_ALIGNED_ACCESS(write, N, 1)                \
  MPSX_ACCESS(read, unaligned_read##N, N)         \
  MPSX_ACCESS(write, unaligned_write##N, N)       \
  MPSX_ACCESS(read, volatile_read##N, N)          \
  MPSX_ACCESS(write, volatile_write##N, N)
MPSX_ACCESSES(1)
MPSX_ACCESSES(2)
MPSX_ACCESSES(4)
MPSX_ACCESSES(8)
MPSX_ACCESSES(16)
MPSX_CHECK void __tsan_read_range(void* p, unsigned long n) { mpsx_simt->read(p, n, MPSX_CODE); }
MPSX_CHECK void __tsan_write_range(void* p, unsigned long n) { mpsx_simt->write(p, n, MPSX_CODE); }
MPSX_CHECK void __tsan_func_entry(void*) {}
MPSX_CHECK void __tsan_func_exit() {}

MPSX_CHECK void* __tsan_memcpy(void* to, const void* from, unsigned long n) {
  mpsx_simt->read(from, n, MPSX_CODE);
  mpsx_simt->write(to, n, MPSX_CODE);
  return __builtin_memcpy(to, from, n);
}
MPSX_CHECK void* __tsan_memmove(void* to, const void* from, unsigned long n) {
  mpsx_simt->read(from, n, MPSX_CODE);
  mpsx_simt->write(to, n, MPSX_CODE);
  return __builtin_memmove(to, from, n);
}
MPSX_CHECK void* __tsan_memset(void* p, int byte, unsigned long n) {
  mpsx_simt->write(p, n, MPSX_CODE);
  return __builtin_memset(p, byte, n);
}

// The callback for an atomic access must also perform the access. It always uses sequential consistency.
#define MPSX_BOTH (MPSX_ATOMIC_LOADS | MPSX_ATOMIC_STORES)
#define MPSX_REPORT(T, p, ACCESS) mpsx_simt->atomic(const_cast<const T*>(p), sizeof(T), ACCESS, MPSX_CODE)
#define MPSX_UPDATE(BITS, T, NAME)                                                   \
  MPSX_CHECK T __tsan_atomic##BITS##_fetch_##NAME(volatile T* p, T v, int) {         \
    MPSX_REPORT(T, p, MPSX_BOTH);                                                      \
    return __atomic_fetch_##NAME(p, v, __ATOMIC_SEQ_CST);                            \
  }
#define MPSX_EXCHANGE(BITS, T, NAME, WEAK)                                                              \
  MPSX_CHECK int __tsan_atomic##BITS##_compare_exchange_##NAME(volatile T* p, T* was, T v, int, int) {  \
    MPSX_REPORT(T, p, MPSX_BOTH);                                                                         \
    return __atomic_compare_exchange_n(p, was, v, WEAK, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);            \
  }
#define MPSX_ATOMICS(BITS, T)                                                                           \
  MPSX_CHECK T __tsan_atomic##BITS##_load(const volatile T* p, int) {                                   \
    MPSX_REPORT(T, p, MPSX_ATOMIC_LOADS);                                                                 \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                        \
  }                                                                                                     \
  MPSX_CHECK void __tsan_atomic##BITS##_store(volatile T* p, T v, int) {                                \
    MPSX_REPORT(T, p, MPSX_ATOMIC_STORES);                                                                \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                     \
  MPSX_CHECK T __tsan_atomic##BITS##_exchange(volatile T* p, T v, int) {                                \
    MPSX_REPORT(T, p, MPSX_BOTH);                                                                         \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                                     \
  MPSX_CHECK T __tsan_atomic##BITS##_compare_exchange_val(volatile T* p, T was, T v, int, int) {        \
    MPSX_REPORT(T, p, MPSX_BOTH);                                                                         \
    __atomic_compare_exchange_n(p, &was, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                 \
    return was;                                                                                         \
  }                                                                                                     \
  MPSX_EXCHANGE(BITS, T, strong, false)                                                                 \
  MPSX_EXCHANGE(BITS, T, weak, true)                                                                    \
  MPSX_UPDATE(BITS, T, add)                                                                             \
  MPSX_UPDATE(BITS, T, sub)                                                                             \
  MPSX_UPDATE(BITS, T, and)                                                                             \
  MPSX_UPDATE(BITS, T, or)                                                                              \
  MPSX_UPDATE(BITS, T, xor)                                                                             \
  MPSX_UPDATE(BITS, T, nand)
MPSX_ATOMICS(8, unsigned char)
MPSX_ATOMICS(16, unsigned short)
MPSX_ATOMICS(32, unsigned)
MPSX_ATOMICS(64, unsigned long)
MPSX_CHECK void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
MPSX_CHECK void __tsan_atomic_signal_fence(int) {}

// Callbacks for out-of-range indices into arrays of static size.
struct mpsx_ubsan_type {
  // For an integer type, bit 0 of `info` is set if the type is signed, and the other bits are log2 of its width.
  unsigned short kind, info;
  char name[1];
};
struct mpsx_ubsan_bounds {
  const char* file;
  unsigned line, column;
  const mpsx_ubsan_type *array, *index;
};
// Returns whether `type` is an array of one element, which is how WGSL and SPIR-V compilers declare arrays of unknown
// size.
MPSX_CHECK bool mpsx_is_unbounded_array(const char* type) {
  for (; *type; ++type)
    if (type[0] == '[' && type[1] == '1' && type[2] == ']' && type[3] == '\'') return true;
  return false;
}
MPSX_CHECK void __ubsan_handle_out_of_bounds(mpsx_ubsan_bounds* where, unsigned long index) {
  if (mpsx_is_unbounded_array(where->array->name)) return;
  const unsigned bits = 1u << (where->index->info >> 1);
  long long value = (long long)index;
  if (where->index->info & 1u && bits < 64) value = (long long)(index << (64 - bits)) >> (64 - bits);
  mpsx_simt->array_index(where->array->name, value, where->file, int(where->line), MPSX_CODE);
}

// Reports an index from MPSX_ELEMENT (base.h). `function` is the operator: "T& metal::array<int, 4>::operator[](…)".
MPSX_CHECK void mpsx_index_fault(const char* function, long long index) {
  char type[128] = "'";
  unsigned long n = 1;
  while (*function && *function != '&') ++function;
  for (const char* from = function + (*function == '&'); *from && n + 2 < sizeof type; ++from) {
    if (from[0] == ':' && from[1] == ':' && from[2] == 'o' && from[10] == '[') break;
    if (n > 1 || *from != ' ') type[n++] = *from;  // g++ prints a space after &
  }
  type[n] = '\'';
  mpsx_simt->array_index(type, index, nullptr, 0, MPSX_CODE);
}

#undef MPSX_ATOMICS
#undef MPSX_EXCHANGE
#undef MPSX_UPDATE
#undef MPSX_REPORT
#undef MPSX_BOTH
#undef MPSX_ACCESSES
#undef MPSX_ALIGNED_ACCESS
#undef MPSX_ACCESS
#undef MPSX_CODE
#undef MPSX_CHECK
