// Dispatches SIMT kernels on the cores of the CPU.
#pragma once

#include "driver/driver.h"
#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host::simt {

struct Options {
  uint64_t seed = 0;    // 0 runs threads in order
  bool strict = false;  // whether to report undefined behavior as a fault
  bool interruptible = false;
};

// Returns MPSX_SIMT_SEED, or a random seed if it is not set. Throws Error if it is not a valid seed.
uint64_t configured_seed();
// Returns MPSX_SIMT_THREADS, which overrides the threadgroup size, or 0 if it is not set.
uint32_t configured_threads();
// Returns MPSX_SIMT_LARGE_TILES, which says whether to choose kernels as if large tiles of matmul2d were fastest.
bool configured_large_tiles();
// Returns MPSX_SIMT_CORES, the number of GPU cores for which to lay out work, or 0 if it is not set.
uint32_t configured_cores();

// `args` are the kernel's arguments, except threadgroup memory. `constants` has the format of mpsx_launch::constants.
// Throws Error if a kernel faults.
void dispatch(const mpsx_kernel_record&, void* const* args, const void* const* constants, const Argument* arguments,
              size_t count, const Dispatch&, const Options&, ParallelFor);

}  // namespace mpsx::driver::host::simt
