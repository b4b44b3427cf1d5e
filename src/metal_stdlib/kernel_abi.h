/* What a kernel translated to C++ looks like from outside. Shared by the code that tools/msl.py writes and by
   the host driver; C only, no headers, since translated kernels are compiled freestanding. */
#ifndef MPSX_KERNEL_ABI_H
#define MPSX_KERNEL_ABI_H

#define MPSX_KERNEL_ABI_VERSION 3
#define MPSX_MAX_BUFFERS 31 /* Metal's limit; args[31 + n] is [[threadgroup(n)]] memory */
#define MPSX_MAX_ARGUMENTS 63
#define MPSX_SIMD_WIDTH 32          /* of SIMT kernels; a wide kernel's SIMD group is one lane */
#define MPSX_MAX_EXCHANGE_BYTES 64 /* the largest value that lanes of a SIMD group exchange */

#ifdef __cplusplus
extern "C" {
#endif

/* One dispatch. In wide mode a threadgroup has one thread, so `group` is {1, 1, 1} for a kernel counted in
 * groups. */
typedef struct mpsx_launch {
  unsigned threads[3]; /* the grid in threads */
  unsigned groups[3];  /* the grid in threadgroups */
  unsigned group[3];   /* threads per threadgroup, as dispatched: those at the grid's end may have fewer */
  const void* const* constants; /* values of the record's function constants, null where not defined; or null */
} mpsx_launch;

/* A function constant of a kernel. */
typedef struct mpsx_function_constant {
  const char* name;
  unsigned index;
  const char* scalar; /* "bool", "int", "float", … */
  unsigned components;
} mpsx_function_constant;

/* Wide: runs the units [begin, end) of a dispatch: threads or threadgroups, x fastest, then y, then z. */
typedef void (*mpsx_entry)(void* const* args, const mpsx_launch* launch, unsigned long long begin,
                           unsigned long long end);

/* SIMT: where one thread is. */
typedef struct mpsx_threadgroup {
  unsigned position[3]; /* in the grid of threadgroups */
  unsigned origin[3];   /* of its first thread, in the grid of threads */
  unsigned size[3];     /* its threads */
  unsigned threads;     /* the product of `size` */
  unsigned simdgroups;
} mpsx_threadgroup;
typedef struct mpsx_thread {
  unsigned local[3]; /* its position in the threadgroup */
  unsigned index;    /* the same as one number */
  unsigned lane;     /* in its SIMD group */
  unsigned simdgroup;
  const mpsx_threadgroup* group;
} mpsx_thread;

/* SIMT: runs one thread. */
typedef void (*mpsx_thread_entry)(void* const* args, const mpsx_launch* launch, const mpsx_thread* thread);

/* What the lanes of a SIMD group that meet in one place told each other; valid until the caller's next call. */
typedef struct mpsx_lanes {
  unsigned active;                      /* the lanes that met, as bits */
  unsigned count;                       /* lanes that the SIMD group has; less than the width in its last one */
  const void* value[MPSX_SIMD_WIDTH];   /* of each active lane */
  unsigned memo_set;                    /* a result that is the same for all: whoever computes it leaves it here */
  __attribute__((aligned(16))) unsigned char memo[MPSX_MAX_EXCHANGE_BYTES];
} mpsx_lanes;

/* What a kernel gets of it in registers. */
typedef struct mpsx_met {
  mpsx_lanes* all;
  unsigned active, lane; /* the lanes that met, as bits; the caller's */
} mpsx_met;

/* Where a kernel calls the engine: `address` tells calls apart, file and line are for people. */
typedef struct mpsx_site {
  const void* address;
  const char* file;
  int line;
  const char* function; /* "simd_sum" */
  unsigned flags;       /* of a barrier: metal::mem_flags */
} mpsx_site;
#define MPSX_MEM_THREADGROUP 2u /* metal::mem_flags::mem_threadgroup */
#define MPSX_ATOMIC_LOADS 1u
#define MPSX_ATOMIC_STORES 2u

/* What a SIMT kernel asks of the engine. The driver fills the library's pointer `mpsx_simt` at load. Called by a
 * kernel that is not run as fibers, they act as for a group of one thread. */
typedef struct mpsx_simt_services {
  void (*threadgroup_barrier)(const mpsx_site* site);
  void (*simdgroup_barrier)(const mpsx_site* site);
  /* Gives `bytes` at `value`, waits for the other active lanes, returns what all gave; `lane` is the caller's. */
  mpsx_lanes* (*exchange)(const void* value, unsigned bytes, unsigned* lane, const mpsx_site* site);
  /* A lane reads `source`, which is not active. Does not return if that is a fault; else the byte that what is read
   * is made of. */
  int (*inactive_lane)(unsigned source, const mpsx_site* site);
  /* The memory of threadgroup variable number `key` of the file. */
  void* (*threadgroup_variable)(unsigned key, unsigned bytes, const char* name);
  /* Kernels compiled with checks (metal_stdlib/simt_checks.h) report every access to memory before it happens; `code`
   * is the address that the call returns to, `access` is MPSX_ATOMIC_*. */
  void (*read)(const void* address, unsigned long bytes, const void* code);
  void (*write)(const void* address, unsigned long bytes, const void* code);
  void (*atomic)(const void* address, unsigned long bytes, unsigned access, const void* code);
  /* An index that an array, whose type is `type`, does not have. */
  void (*array_index)(const char* type, long long index, const char* file, int line, const void* code);
} mpsx_simt_services;

enum { MPSX_UNIT_THREADS = 0, MPSX_UNIT_GROUPS = 1, MPSX_UNIT_SIMT = 2 };

typedef struct mpsx_kernel_record {
  const char* name; /* host name */
  unsigned unit;    /* MPSX_UNIT_*: what begin and end count; SIMT: threads are run one by one */
  mpsx_entry entry; /* null if SIMT */
  mpsx_thread_entry thread_entry;    /* null unless SIMT */
  unsigned fibers;                   /* SIMT: whether threads wait for each other */
  unsigned buffers;                  /* highest buffer index in use, plus one */
  unsigned static_threadgroup_bytes; /* threadgroup arrays declared in the kernel */
  unsigned max_threads;              /* [[max_total_threads_per_threadgroup(n)]], else 1024 */
  const mpsx_function_constant* constants;
  unsigned constant_count;
} mpsx_kernel_record;

/* Exported by a kernel library as `mpsx_kernel_table`. */
typedef struct mpsx_kernel_table_t {
  unsigned abi_version;
  unsigned count;
  const mpsx_kernel_record* const* records;
  const mpsx_simt_services** simt; /* to be filled in */
  const char* compiler;            /* "clang 20.1.2 (ziglang 0.17.0)" */
  const char* isa;                 /* "x86-64-v3" */
} mpsx_kernel_table_t;

#ifdef __cplusplus
}
#endif
#endif
