/* The interface between the driver and a kernel library that was compiled for profiling (instrument.py). Plain C. */
#ifndef MPSX_PROFILE_ABI_H
#define MPSX_PROFILE_ABI_H

#define MPSX_PROFILE_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

enum { MPSX_PROFILE_LOAD = 0, MPSX_PROFILE_STORE = 1, MPSX_PROFILE_ATOMIC = 2 };

/* A memory access: one instruction, or several that a GPU's compiler merges. */
typedef struct mpsx_profile_site {
  unsigned kind;
  unsigned bytes; /* per lane */
} mpsx_profile_site;

/* Kernels call these each time a thread reaches an access or a basic block. */
typedef struct mpsx_profile_calls {
  void (*access)(const void* p, unsigned site);
  void (*range)(const void* p, unsigned long bytes, unsigned site); /* counts as several accesses */
  void (*block)(unsigned block);
} mpsx_profile_calls;

/* Exported as `mpsx_profile_table`. */
typedef struct mpsx_profile_table_t {
  unsigned abi_version, site_count, block_count;
  const mpsx_profile_site* sites;
  const mpsx_profile_calls** calls; /* set by the driver */
} mpsx_profile_table_t;

#ifdef __cplusplus
}
#endif
#endif
