// Processes of a torch.distributed group on one machine share the one device, while programs number devices by process.
#pragma once

#include <c10/core/Device.h>

namespace mpsx::backend {

// Makes the indices below `processes`, the size of a group, mean the one device.
void share_device(int processes);

// The processes of this machine: LOCAL_WORLD_SIZE where a launcher such as torchrun sets it, else the size of the
// largest group; 1 without a group.
int device_count();

// Whether this index means the device: below device_count(), or below the size of a group.
bool is_device_index(int index);

}  // namespace mpsx::backend
