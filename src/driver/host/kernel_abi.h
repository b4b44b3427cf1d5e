/* What a kernel translated to C++ looks like from outside. Shared by the code that tools/msl.py writes and by
   the host driver; C only, no headers, since translated kernels are compiled freestanding. */
#ifndef MPSX_KERNEL_ABI_H
#define MPSX_KERNEL_ABI_H

#define MPSX_KERNEL_ABI_VERSION 1
#define MPSX_MAX_BUFFERS 31 /* Metal's limit; args[31 + n] is [[threadgroup(n)]] memory */
#define MPSX_MAX_ARGUMENTS 63

#ifdef __cplusplus
extern "C" {
#endif

/* One dispatch. In wide mode a threadgroup has one thread, so `group` is {1, 1, 1} for a kernel counted in
 * groups. */
typedef struct mpsx_launch {
  unsigned threads[3]; /* the grid in threads */
  unsigned groups[3];  /* the grid in threadgroups */
  unsigned group[3];   /* threads per threadgroup */
} mpsx_launch;

/* Runs the units [begin, end) of a dispatch: threads or threadgroups, x fastest, then y, then z. */
typedef void (*mpsx_entry)(void* const* args, const mpsx_launch* launch, unsigned long long begin,
                           unsigned long long end);

enum { MPSX_UNIT_THREADS = 0, MPSX_UNIT_GROUPS = 1 };

typedef struct mpsx_kernel_record {
  const char* name; /* host name */
  mpsx_entry entry;
  unsigned unit;                     /* MPSX_UNIT_*: what begin and end count */
  unsigned buffers;                  /* highest buffer index in use, plus one */
  unsigned static_threadgroup_bytes; /* threadgroup arrays declared in the kernel */
  unsigned max_threads;              /* [[max_total_threads_per_threadgroup(n)]], else 1024 */
} mpsx_kernel_record;

/* Exported by a kernel library as `mpsx_kernel_table`. */
typedef struct mpsx_kernel_table_t {
  unsigned abi_version;
  unsigned count;
  const mpsx_kernel_record* const* records;
  const char* compiler; /* "clang 20.1.2 (ziglang 0.17.0)" */
  const char* isa;      /* "x86-64-v3" */
} mpsx_kernel_table_t;

#ifdef __cplusplus
}
#endif
#endif
