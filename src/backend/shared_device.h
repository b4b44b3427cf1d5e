// Device indices of torch.distributed programs, which use one index per process. All processes share the one device.
#pragma once

#include <c10/core/Device.h>

namespace mpsx::backend {

// Makes the indices below `processes`, the size of a group, refer to the device.
void share_device(int processes);

// The number of processes on this machine: LOCAL_WORLD_SIZE if a launcher such as torchrun sets it, else the size of
// the largest group, or 1 without a group.
int device_count();

// Whether the index refers to the device, that is, whether it is below device_count() or the size of a group.
bool is_device_index(int index);

}  // namespace mpsx::backend
