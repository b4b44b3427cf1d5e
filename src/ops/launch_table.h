// A small table that one launch reads. It is copied to the device unless the driver reads process memory synchronously.
#pragma once

#include <ATen/ops/from_blob.h>

#include <utility>
#include <vector>

#include "ops/op.h"

namespace mpsx::ops {

class LaunchTable {
 public:
  LaunchTable() = default;
  // `like` may be any tensor on the device.
  LaunchTable(std::vector<int32_t> values, const Tensor& like) : values_(std::move(values)) {
    const auto& driver = runtime::driver().traits();
    if (!driver.uses_process_memory() || driver.asynchronous)
      copy_ = at::from_blob(values_.data(), {int64_t(values_.size())}, at::kInt).to(like.device());
  }
  // Wraps a dense table that is already on the device.
  explicit LaunchTable(Tensor device) : copy_(std::move(device)) {}

  const int32_t* data() const { return copy_.defined() ? copy_.const_data_ptr<int32_t>() : values_.data(); }

 private:
  std::vector<int32_t> values_;
  Tensor copy_;
};

}  // namespace mpsx::ops
