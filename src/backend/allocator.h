// The device's c10 allocator, which uses the runtime's caching allocator.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace mpsx::backend {

c10::DeviceAllocator* device_allocator();
void register_allocator();

}  // namespace mpsx::backend
