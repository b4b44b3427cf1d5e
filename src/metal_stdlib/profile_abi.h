/* What a kernel library that was compiled for profiling (instrument.py) tells the driver; C only, no headers. */
#ifndef MPSX_PROFILE_ABI_H
#define MPSX_PROFILE_ABI_H

#define MPSX_PROFILE_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

enum { MPSX_PROFILE_LOAD = 0, MPSX_PROFILE_STORE = 1, MPSX_PROFILE_ATOMIC = 2 };

/* An instruction that accesses memory; one of several instructions where a GPU's compiler joins them. */
typedef struct mpsx_profile_site {
  unsigned kind;
  unsigned bytes; /* of a lane */
} mpsx_profile_site;

/* Called by the kernels, each time that a thread comes to an access or a basic block. */
typedef struct mpsx_profile_calls {
  void (*access)(const void* p, unsigned site);
  void (*range)(const void* p, unsigned long bytes, unsigned site); /* as many accesses as it takes */
  void (*block)(unsigned block);
} mpsx_profile_calls;

/* Exported as `mpsx_profile_table`. */
typedef struct mpsx_profile_table_t {
  unsigned abi_version, site_count, block_count;
  const mpsx_profile_site* sites;
  const mpsx_profile_calls** calls; /* to be filled in */
} mpsx_profile_table_t;

#ifdef __cplusplus
}
#endif
#endif
