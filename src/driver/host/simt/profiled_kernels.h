// Kernels compiled for profiling, and what their launches counted.
#pragma once

#include <string>

#include "driver/host/simt/launch_counts.h"
#include "metal_stdlib/profile_abi.h"
#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host::simt {

struct ProfiledKernel {
  const mpsx_kernel_record* record;
  const mpsx_profile_table_t* table;
  std::string library;
};

// The form of a kernel that counts; null if launches are not profiled now. Throws Error.
const ProfiledKernel* profiled_kernel(const mpsx_kernel_record& record);

// Keeps the counts of a launch for take_profiled_launches().
void keep_counts(const ProfiledKernel& kernel, const LaunchCounts& counts, const mpsx_launch& launch);

}  // namespace mpsx::driver::host::simt
