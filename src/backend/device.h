// The device's type (PrivateUse1), name and index in PyTorch.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>

namespace mpsx::backend {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
inline constexpr const char* kDeviceName = "mpsx";

// There is only one device. Tensors always have an explicit device index.
inline c10::Device this_device() { return c10::Device(kDeviceType, 0); }
inline bool is_mpsx(c10::Device d) { return d.type() == kDeviceType; }

}  // namespace mpsx::backend
