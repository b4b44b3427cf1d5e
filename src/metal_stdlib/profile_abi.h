/* The interface between the driver and kernel libraries compiled for profiling (instrument.py). Plain C that includes
 * no headers. */
#ifndef MPSX_PROFILE_ABI_H
#define MPSX_PROFILE_ABI_H

#define MPSX_PROFILE_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

enum { MPSX_PROFILE_LOAD = 0, MPSX_PROFILE_STORE = 1, MPSX_PROFILE_ATOMIC = 2 };

/* An instruction that accesses memory. Instructions that a GPU compiler would merge have a common site. */
typedef struct mpsx_profile_site {
  unsigned kind;
  unsigned bytes; /* bytes per lane */
} mpsx_profile_site;

/* Functions that kernels call for each memory access and each basic block that a thread executes. */
typedef struct mpsx_profile_calls {
  void (*access)(const void* p, unsigned site);
  void (*range)(const void* p, unsigned long bytes, unsigned site); /* reports several accesses of the site's size */
  void (*block)(unsigned block);
} mpsx_profile_calls;

/* The table that a library compiled for profiling exports as `mpsx_profile_table`. */
typedef struct mpsx_profile_table_t {
  unsigned abi_version, site_count, block_count;
  const mpsx_profile_site* sites;
  const mpsx_profile_calls** calls; /* set by the driver */
} mpsx_profile_table_t;

#ifdef __cplusplus
}
#endif
#endif
