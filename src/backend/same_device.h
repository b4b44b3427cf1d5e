// Checks that all tensors of a call are on the same device.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <string_view>

#include "backend/device.h"

namespace mpsx::backend {

// Collects the devices of tensors. Tensors on devices other than ours are allowed only if they are zero-dimensional.
class SameDevice {
 public:
  void add(const at::Tensor& t) {
    if (!t.defined()) return;
    if (is_mpsx(t.device())) {
      ours_ = true;
    } else if (t.dim() > 0) {
      other_ = t.device();
    }
  }
  // Throws if tensors on our device and tensors on a different device were added.
  void check(std::string_view op) const {
    TORCH_CHECK(!ours_ || !other_, "Expected all tensors to be on the same device, but found at least two devices, ",
                this_device(), " and ", *other_, "! (when checking arguments of ", op, ")");
  }

 private:
  bool ours_ = false;
  std::optional<c10::Device> other_;
};

inline void check_same_device(std::string_view op, std::initializer_list<const at::Tensor*> tensors) {
  SameDevice devices;
  for (const at::Tensor* t : tensors) devices.add(*t);
  devices.check(op);
}

}  // namespace mpsx::backend
