// That the tensors of one call lie on one device.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "backend/device.h"

namespace mpsx::backend {

// The devices of the tensors that it has seen. Of another device than ours only numbers may join.
class SameDevice {
 public:
  void see(const at::Tensor& t) {
    if (!t.defined()) return;
    if (is_mpsx(t.device())) {
      ours_ = true;
    } else if (t.dim() > 0) {
      other_ = t.device();
    }
  }
  // Throws if others were seen beside ours.
  void check(std::string_view op) const {
    TORCH_CHECK(!ours_ || !other_, "Expected all tensors to be on the same device, but found at least two devices, ",
                this_device(), " and ", *other_, "! (when checking arguments of ", op, ")");
  }

 private:
  bool ours_ = false;
  std::optional<c10::Device> other_;
};

}  // namespace mpsx::backend
