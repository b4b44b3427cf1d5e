// Device indices in torch.distributed programs. Each process uses a different index, but all indices refer to the same
// device.
#pragma once

#include <c10/core/Device.h>

namespace mpsx::backend {

// Makes all device indices below `processes` valid. `processes` is the size of a process group.
void share_device(int processes);

// Returns LOCAL_WORLD_SIZE, the number of processes on this machine, if a launcher such as torchrun has set it.
// Otherwise, returns the size of the largest process group, or 1 if there is no group.
int device_count();

// Returns whether the index is below device_count() or below the size of a process group.
bool is_device_index(int index);

}  // namespace mpsx::backend
