/* The ABI of kernels translated to C++, shared by the generated code and the host driver. This is plain C and includes
 * no headers, because translated kernels are compiled as freestanding code. */
#ifndef MPSX_KERNEL_ABI_H
#define MPSX_KERNEL_ABI_H

#define MPSX_KERNEL_ABI_VERSION 6
#define MPSX_MAX_BUFFERS 31 /* Metal's limit; args[31 + n] is the memory of [[threadgroup(n)]] */
#define MPSX_MAX_ARGUMENTS 63
#define MPSX_SIMD_WIDTH 32         /* for SIMT kernels; in wide kernels, a SIMD group has one lane */
#define MPSX_MAX_EXCHANGE_BYTES 64 /* maximum size of a value that lanes of a SIMD group exchange */

/* Defined in code that is compiled with checks (simt_checks.h). */
#if defined(__SANITIZE_THREAD__)
#define MPSX_CHECKED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MPSX_CHECKED
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One dispatch. In wide mode a threadgroup has one thread, so `group` is {1, 1, 1} if the kernel is dispatched by
 * threadgroups. */
typedef struct mpsx_launch {
  unsigned threads[3]; /* grid size in threads */
  unsigned groups[3];  /* grid size in threadgroups */
  unsigned group[3];   /* threads per threadgroup; threadgroups at the end of the grid may have fewer */
  const void* const* constants; /* values of the kernel's function constants; null if undefined */
} mpsx_launch;

/* A function constant of a kernel. */
typedef struct mpsx_function_constant {
  const char* name;
  unsigned index;
  const char* scalar; /* "bool", "int", "float", … */
  unsigned components;
} mpsx_function_constant;

/* Entry point of a wide kernel: runs threads (or threadgroups) [begin, end) of a dispatch, with x varying fastest. */
typedef void (*mpsx_entry)(void* const* args, const mpsx_launch* launch, unsigned long long begin,
                           unsigned long long end);

/* Position of a thread and of its threadgroup, for SIMT kernels. */
typedef struct mpsx_threadgroup {
  unsigned position[3]; /* position in the grid of threadgroups */
  unsigned origin[3];   /* position of the first thread in the grid of threads */
  unsigned size[3];     /* size in threads */
  unsigned threads;     /* number of threads */
  unsigned simdgroups;
} mpsx_threadgroup;
typedef struct mpsx_thread {
  unsigned local[3]; /* position in the threadgroup */
  unsigned index;    /* linear position in the threadgroup */
  unsigned lane;     /* lane in its SIMD group */
  unsigned simdgroup;
  const mpsx_threadgroup* group;
} mpsx_thread;

/* Entry point of a SIMT kernel: runs one thread. */
typedef void (*mpsx_thread_entry)(void* const* args, const mpsx_launch* launch, const mpsx_thread* thread);

/* The values that the converged lanes of a SIMD group exchange. Valid until the caller's next call into the engine. */
typedef struct mpsx_lanes {
  unsigned active;                    /* bit mask of the converged lanes */
  unsigned count;                     /* lanes in the SIMD group, which is smaller at the end of a threadgroup */
  const void* value[MPSX_SIMD_WIDTH]; /* value of each active lane */
  unsigned memo_set;                  /* whether a lane has stored a result for all lanes in `memo` */
  __attribute__((aligned(16))) unsigned char memo[MPSX_MAX_EXCHANGE_BYTES];
} mpsx_lanes;

/* The result of an exchange, returned in registers. */
typedef struct mpsx_exchanged {
  mpsx_lanes* all;
  unsigned active, lane; /* bit mask of the converged lanes; the caller's lane */
} mpsx_exchanged;

/* Where a kernel calls the engine. `address` identifies the call. Error messages show the file and line. */
typedef struct mpsx_site {
  const void* address;
  const char* file;
  int line;
  const char* function; /* for example "simd_sum" */
  unsigned flags;       /* for a barrier: its metal::mem_flags */
} mpsx_site;
#define MPSX_MEM_DEVICE 1u      /* metal::mem_flags::mem_device */
#define MPSX_MEM_THREADGROUP 2u /* metal::mem_flags::mem_threadgroup */
#define MPSX_ATOMIC_LOADS 1u
#define MPSX_ATOMIC_STORES 2u
#define MPSX_ALLOWS_RACES 4u
#define MPSX_DEVICE_FENCE 8u

/* The functions of the engine that SIMT kernels call. When the driver loads a library, it sets the library's pointer
 * `mpsx_simt` to this table. For kernels that do not run on fibers, the functions behave as if the threadgroup had one
 * thread. */
typedef struct mpsx_simt_services {
  void (*threadgroup_barrier)(const mpsx_site* site);
  void (*simdgroup_barrier)(const mpsx_site* site);
  /* Waits until all active lanes have called this with `bytes` bytes at `value`, and returns the values of all lanes.
   * Sets *lane to the caller's lane. */
  mpsx_lanes* (*exchange)(const void* value, unsigned bytes, unsigned* lane, const mpsx_site* site);
  /* Called when a lane reads from lane `source`, which is inactive. If that is a fault, does not return. Otherwise
   * returns the byte that fills the result. */
  int (*inactive_lane)(unsigned source, const mpsx_site* site);
  /* Returns the memory of the threadgroup variable that the source file numbers `key`. */
  void* (*threadgroup_variable)(unsigned key, unsigned bytes, const char* name);
  /* Returns the running thread. Tensor operations (tensor/scope.h) use this and the next three functions. */
  const mpsx_thread* (*current_thread)(void);
  /* Returns the seed for permuting layouts that Metal does not specify. 0 means no permutation. */
  unsigned (*layout_seed)(void);
  /* Waits for all threads of the threadgroup, which must have `simdgroups` full SIMD groups. Returns every thread's
   * value. The values are valid until the caller's next call. */
  const void* const* (*collective)(const void* value, unsigned simdgroups, const mpsx_site* site);
  /* Called when only some lanes have reached an operation that the whole SIMD group must execute. Does not return. */
  void (*incomplete_scope)(unsigned active, const mpsx_site* site);
  /* Sets the site to report for memory faults at addresses without line information. It stays in effect until the next
   * call. May be null. */
  void (*fault_site)(const mpsx_site* site);
  /* Kernels compiled with checks (metal_stdlib/simt_checks.h) call these functions before every memory access. `code`
   * is the return address of the call. `access` combines MPSX_ATOMIC_LOADS and MPSX_ATOMIC_STORES. Other values of
   * `access` are MPSX_ALLOWS_RACES, which exempts the buffer at `address` from the checks for races, and
   * MPSX_DEVICE_FENCE, for an atomic_thread_fence that orders accesses to device memory across threadgroups. */
  void (*read)(const void* address, unsigned long bytes, const void* code);
  void (*write)(const void* address, unsigned long bytes, const void* code);
  void (*atomic)(const void* address, unsigned long bytes, unsigned access, const void* code);
  /* Called before such an access if the address is not a multiple of `bytes`, although the access is aligned according
   * to its type. The alignment of a type with 16 bytes may be just 8. */
  void (*misaligned)(const void* address, unsigned long bytes, unsigned writes, const void* code);
  /* Reports an out-of-range index into an array of type `type`. */
  void (*array_index)(const char* type, long long index, const char* file, int line, const void* code);
} mpsx_simt_services;

enum { MPSX_UNIT_THREADS = 0, MPSX_UNIT_GROUPS = 1, MPSX_UNIT_SIMT = 2 };

typedef struct mpsx_kernel_record {
  const char* name; /* the kernel's host name */
  unsigned unit;    /* MPSX_UNIT_*, the unit of `begin` and `end`; SIMT kernels run one thread per call */
  mpsx_entry entry; /* null for SIMT kernels */
  mpsx_thread_entry thread_entry;    /* null for wide kernels */
  unsigned fibers;                   /* SIMT: whether threads wait for each other and therefore need fibers */
  unsigned buffers;                  /* one more than the highest buffer index in use */
  unsigned static_threadgroup_bytes; /* size of the threadgroup arrays declared in the kernel */
  unsigned max_threads;              /* n of [[max_total_threads_per_threadgroup(n)]], or 1024 */
  const mpsx_function_constant* constants;
  unsigned constant_count;
} mpsx_kernel_record;

/* The table that a kernel library exports as `mpsx_kernel_table`. */
typedef struct mpsx_kernel_table_t {
  unsigned abi_version;
  unsigned count;
  const mpsx_kernel_record* const* records;
  const mpsx_simt_services** simt; /* set by the driver */
  const char* compiler;            /* for example "clang 20.1.2 (ziglang 0.17.0)" */
  const char* isa;                 /* for example "x86-64-v3" */
} mpsx_kernel_table_t;

#ifdef __cplusplus
}
#endif
#endif
