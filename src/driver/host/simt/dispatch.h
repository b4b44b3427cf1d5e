// Dispatches SIMT kernels on the cores of the CPU.
#pragma once

#include "driver/driver.h"
#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host::simt {

struct Options {
  uint64_t seed = 0;    // 0: threads run in order
  bool strict = false;  // undefined behavior is a fault
  bool interruptible = false;
};

// MPSX_SIMT_SEED, or a random seed. Throws Error if it is not a number.
uint64_t configured_seed();
// MPSX_SIMT_THREADS, the forced size of threadgroups; 0 if it is not set.
uint32_t configured_threads();
// MPSX_SIMT_CORES, the number of GPU cores for which work is laid out; 0 if it is not set.
uint32_t configured_cores();

// `args`: the kernel's arguments without threadgroup memory; `constants` as in mpsx_launch. Throws Error for a fault.
void dispatch(const mpsx_kernel_record&, void* const* args, const void* const* constants, const Argument* arguments,
              size_t count, const Dispatch&, const Options&, ParallelFor);

}  // namespace mpsx::driver::host::simt
