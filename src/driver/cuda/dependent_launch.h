// Programmatic dependent launch: the threadgroups of a kernel start before the previous kernel has completed, and then
// wait for it. This hides the time to launch a kernel, and whatever the kernel does before it waits.
//
// A kernel can start early when all threadgroups of the previous one have either ended or allowed it, which tensor
// operations do (let_next_kernel_start() in metal_stdlib/cuda/tensor/ptx.h).
//
// Every kernel must wait. Otherwise, it could complete before the previous kernel, and the next one would wait for
// neither. ("CUDA C++ Programming Guide", Programmatic Dependent Launch and Synchronization.)
#pragma once

#include "driver/cuda/device.h"

namespace mpsx::driver::cuda {

// Returns the PTX of a kernel for compute capability 9.0, in which the kernel waits before its first instruction. If
// the kernel already waits (msl/dependent_launch.py), returns it unchanged.
std::string with_dependent_launch(std::string ptx);

// Whether a kernel should start before the previous one has completed, if the threadgroups of each fill a
// multiprocessor or not. Small threadgroups would gather on the multiprocessors that become free first, while the
// others idle.
constexpr bool should_start_early(bool fills_processor, bool previous_fills_processor) {
  return fills_processor || !previous_fills_processor;
}

}  // namespace mpsx::driver::cuda
