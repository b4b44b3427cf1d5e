// Helpers that layer_norm and rms_norm share: rows, element types and the partition of weight gradients.
#pragma once

#include <ATen/ops/empty.h>

#include <algorithm>

#include "norm/params.h"
#include "ops/operator.h"
#include "ops/rows.h"
#include "runtime/tuning.h"

namespace mpsx::ops {

// Returns the second tag in the name of a kernel: f32 if the input is half and the parameters are float, otherwise
// none.
inline Tag parameter_tag(at::ScalarType input, at::ScalarType parameters) {
  return input == parameters ? Tag::none : Tag::f32;
}
inline bool parameters_fit(at::ScalarType input, at::ScalarType parameters) {
  return is_float_tag(tag_of(input)) && (parameters == input || parameters == at::kFloat);
}
inline Tensor contiguous_or_none(const Tensor& t) { return t.defined() ? t.contiguous() : t; }

inline RowNormParams row_norm_params(int64_t rows, int64_t size, double eps) {
  TORCH_CHECK(rows <= int64_t(UINT32_MAX) && size <= int64_t(UINT32_MAX),
              "normalisation: expected fewer than 2^32 rows of fewer than 2^32 elements, got ", rows, " x ", size);
  RowNormParams p{};
  p.shape.rows = uint32_t(rows), p.shape.size = uint32_t(size), p.eps = float(eps);
  return p;
}

// Disables vector loads unless the weight and the bias are aligned like the rows.
inline RowLaunch share_rows_beside(std::initializer_list<Tensor> parameters, RowLaunch launch) {
  for (const Tensor& t : parameters)
    if (t.defined() && (reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 != 0 || !launch.whole_vectors()))
      launch.shape.vectorized = 0;
  return launch;
}

// Splits the rows of a weight gradient into enough parts to fill a GPU. The partition depends only on the shape.
inline void split_rows(RowNormParams& p) {
  const uint64_t blocks = (p.shape.size + kNormColumns - 1) / kNormColumns;
  const uint64_t wanted = std::clamp<uint64_t>(1024 / std::max<uint64_t>(blocks, 1), 1, (p.shape.rows + 63) / 64);
  p.rows_per_split = uint32_t((p.shape.rows + wanted - 1) / wanted);
  p.splits = (p.shape.rows + p.rows_per_split - 1) / p.rows_per_split;
}

// Fused gradients (metal/norm/fused_gradients.h) need many rows. Each threadgroup must process enough rows to make the
// cost of its partial sums negligible.
constexpr uint64_t kFusedRange = 64, kFusedGroups = 2048;

// Plans the launch, and sets the partition in `p`. Returns nullopt if there are too few rows, or if a row does not fit
// in registers.
inline std::optional<RowLaunch> share_fused(const runtime::KernelEntry& kernel, RowNormParams& p, const Tensor& dy,
                                            const Tensor& x, const Tensor& dx, const Tensor& weight) {
  const uint64_t rows = p.shape.rows, size = p.shape.size;
  if (double(rows) < runtime::tuning().norm_fused_rows) return std::nullopt;
  RowLaunch launch =
      share_rows_beside({weight}, share_rows(kernel, rows, size, {dy, x}, {dx}, kFusedBytes / x.element_size()));
  if (!launch.whole_vectors() || size > launch.lane_groups.register_elements) return std::nullopt;
  p.shape = launch.shape;
  p.rows_per_split = uint32_t(std::max(kFusedRange, ceil_div(rows, kFusedGroups)));
  p.splits = launch.lane_groups.threadgroups = uint32_t(ceil_div(rows, p.rows_per_split));
  return launch;
}
inline uint64_t fused_work(const RowNormParams& p, const RowLaunch& launch) {
  return uint64_t(p.rows_per_split) * p.shape.size * 4 / launch.lane_groups.rows_per_threadgroup;
}

// Launches a kernel over tiles of columns and splits of rows.
inline void launch_splits(Launch& launch, const RowNormParams& p) {
  launch.bytes(p)
      .groups({(p.shape.size + kNormColumns - 1) / kNormColumns, p.splits}, kNormColumns)
      .work(uint64_t(p.rows_per_split) * std::min<uint32_t>(p.shape.size, kNormColumns) * 2)
      .run();
}

// Sums partial gradients [gradient][split][column], where the weight's gradient is the first one. Either output may be
// undefined.
inline void merge_splits(const Tensor& weight, const Tensor& bias, const Tensor& parts, const RowNormParams& p) {
  static const KernelSet kernels("norm_merge");
  const Tensor &first = weight.defined() ? weight : bias, &second = bias.defined() ? bias : weight;
  const uint32_t quantities = uint32_t(weight.defined()) + uint32_t(bias.defined());
  Launch(kernels.get(tag_of(first)))
      .outputs(first, second)
      .pointer(parts.const_data_ptr<float>() + (weight.defined() ? 0 : uint64_t(p.splits) * p.shape.size))
      .bytes(p)
      .groups({uint32_t(ceil_div(p.shape.size, kMergeColumns)), quantities}, kNormColumns)
      .work(uint64_t(p.splits) * std::min<uint32_t>(p.shape.size, kMergeColumns))
      .run();
}

}  // namespace mpsx::ops
