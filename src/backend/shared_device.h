// Processes of a torch.distributed group on one machine share the one device, while programs number devices by process.
#pragma once

#include <c10/core/Device.h>

namespace mpsx::backend {

// From now on the indices below `processes` mean the one device.
void share_device(int processes);
bool is_device_index(int index);

}  // namespace mpsx::backend
