// Dispatches SIMT kernels on the CPU's cores.
#pragma once

#include "driver/driver.h"
#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host::simt {

struct Options {
  uint64_t seed = 0;    // 0 runs threads in order
  bool strict = false;  // report undefined behavior as a fault
  bool interruptible = false;
};

// Returns MPSX_SIMT_SEED, or a random seed if it is not set. Throws Error if the value is not a valid seed.
uint64_t configured_seed();
// Returns MPSX_SIMT_THREADS, the forced threadgroup size, or 0 if it is not set.
uint32_t configured_threads();
// Returns MPSX_SIMT_LARGE_TILES: whether to choose kernels as for a GPU where large tiles of matmul2d are fastest.
bool configured_large_tiles();
// Returns MPSX_SIMT_CORES, the number of GPU cores to lay out work for, or 0 if it is not set.
uint32_t configured_cores();

// `args` are the kernel's arguments without threadgroup memory. `constants` has the format of mpsx_launch::constants.
// Throws Error if a kernel faults.
void dispatch(const mpsx_kernel_record&, void* const* args, const void* const* constants, const Argument* arguments,
              size_t count, const Dispatch&, const Options&, ParallelFor);

}  // namespace mpsx::driver::host::simt
