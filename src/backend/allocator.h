// The c10 allocator of the device. It uses the runtime's caching allocator.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace mpsx::backend {

c10::DeviceAllocator* device_allocator();
void register_allocator();

}  // namespace mpsx::backend
