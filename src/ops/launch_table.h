// A small table that one launch reads: copied to the device, unless the driver reads this process's memory while it
// launches.
#pragma once

#include <ATen/ops/from_blob.h>

#include <utility>
#include <vector>

#include "ops/op.h"

namespace mpsx::ops {

class LaunchTable {
 public:
  LaunchTable() = default;
  // `like`: a tensor on the device.
  LaunchTable(std::vector<int32_t> values, const Tensor& like) : values_(std::move(values)) {
    const auto& driver = runtime::driver().traits();
    if (!driver.adopts_memory() || driver.asynchronous)
      copy_ = at::from_blob(values_.data(), {int64_t(values_.size())}, at::kInt).to(like.device());
  }
  // A dense table that is on the device already.
  explicit LaunchTable(Tensor device) : copy_(std::move(device)) {}

  const int32_t* data() const { return copy_.defined() ? copy_.const_data_ptr<int32_t>() : values_.data(); }

 private:
  std::vector<int32_t> values_;
  Tensor copy_;
};

}  // namespace mpsx::ops
