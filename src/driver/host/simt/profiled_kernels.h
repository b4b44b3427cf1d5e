// Kernels compiled for profiling, and the counts of their launches.
#pragma once

#include <string>

#include "driver/host/simt/launch_counts.h"
#include "metal_stdlib/kernel_abi.h"
#include "metal_stdlib/profile_abi.h"

namespace mpsx::driver::host::simt {

struct ProfiledKernel {
  const mpsx_kernel_record* record;
  const mpsx_profile_table_t* table;
  std::string library;
};

// Returns the version of a kernel that is compiled for profiling, or null if profiling is off. Throws Error on failure.
const ProfiledKernel* profiled_kernel(const mpsx_kernel_record& record);

// Stores the counts of a launch for take_profiled_launches().
void keep_counts(const ProfiledKernel& kernel, const LaunchCounts& counts, const mpsx_launch& launch);

}  // namespace mpsx::driver::host::simt
