// A dispatch of a SIMT kernel, over the cores of the CPU.
#pragma once

#include "driver/driver.h"
#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host::simt {

struct Options {
  uint64_t seed = 0;    // 0: threads run in order
  bool strict = false;  // undefined behaviour is a fault
  bool interruptible = false;
};

// MPSX_SIMT_SEED, else one of this process's own. Throws Error for what is no number.
uint64_t chosen_seed();
// MPSX_SIMT_THREADS: the threads that every threadgroup should have; 0 if it is not set.
uint32_t chosen_threads();
// MPSX_SIMT_CORES: the cores of the GPU that work is laid out for; 0 if it is not set.
uint32_t chosen_cores();

// `args`: what kernels see, without threadgroup memory; `constants` as in mpsx_launch. Throws Error for a fault.
void dispatch(const mpsx_kernel_record&, void* const* args, const void* const* constants, const Argument* arguments,
              size_t count, const Dispatch&, const Options&, ParallelFor);

}  // namespace mpsx::driver::host::simt
