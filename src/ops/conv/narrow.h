// Plans and launches the direct convolutions of metal/conv/narrow.metal.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "conv/narrow_params.h"
#include "ops/conv/parts.h"
#include "ops/conv/tensor_cost.h"

namespace mpsx::ops {

// How to compute a convolution with few output channels directly. The times are estimates in microseconds: of the
// kernel, and of a GEMM on the simdgroup tier.
struct NarrowPlan {
  ConvNarrowParams params{};
  uint32_t groups = 0, planes = 0;  // threadgroups per plane and part
  bool complete = true;             // whether all outputs read some input
  double time = 0, gemm_time = 0;
};

inline bool is_column_dense(const ConvAxis& y) {
  return y.stride == 1 && y.taps.back() - y.taps.front() + 1 == int64_t(y.taps.size());
}

// Returns how long a launch takes in which each thread multiplies `blocks` blocks of taps. The constants were measured
// on an H200.
inline double narrow_time(double threads, double outputs, double blocks, double taps) {
  constexpr double kRate = 0.065e6, kBlock = 0.6;  // multiply-adds per core and microsecond; latency of a block's loads
  return std::max(threads * double(kNarrowRows) * outputs * taps / (kRate * conv_cores()), blocks * kBlock);
}

// Returns whether the kernels support the operands of a convolution. Loads coalesce only along contiguous rows, and the
// kernels have no overlay for CPUs.
inline bool has_narrow_kernel(const Tensor& source, int64_t outputs, int64_t groups) {
  return groups == 1 && outputs <= kMaxNarrowOutputs && source.scalar_type() == at::kFloat && source.numel() > 0 &&
         source.stride(-1) == 1 && runtime::elements_per_thread(kNarrowRows, 0) > 0;
}

// Returns a plan, or nothing if the kernels do not support the window. `weight` is [O, C, ...], or [C, O, ...] if
// `backward` is true.
inline std::optional<NarrowPlan> plan_narrow(const Tensor& out_given, const Tensor& source_given,
                                             const Tensor& weight_given, const ConvWindow& w, bool backward) {
  const Tensor out = with_three_dims(out_given), source = with_three_dims(source_given);
  const Tensor weight = with_three_dims(weight_given);
  NarrowPlan plan;
  const std::vector<ConvPart> parts = conv_parts(out, w, backward, plan.complete);
  if (parts.empty() || parts.size() > kMaxNarrowParts) return std::nullopt;
  ConvNarrowParams& p = plan.params;
  p.part_count = uint32_t(parts.size());
  double threads = 0, taps = 0, blocks = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ConvPart& part = parts[i];
    if (!is_column_dense(part.axes[1])) return std::nullopt;
    ConvNarrowPart& to = p.parts[i];
    to.out = part.out.storage_offset() - out.storage_offset();
    for (int d = 0; d < 3; ++d) {
      const ConvAxis& axis = part.axes[size_t(d)];
      to.positions[d] = uint32_t(axis.positions);
      to.taps[d] = uint32_t(axis.taps.size());
      to.tap_step[d] = axis.taps.size() > 1 ? uint32_t(axis.taps[1] - axis.taps[0]) : 1;
      to.padding[d] = int32_t(axis.padding - axis.taps[0]);
      to.weight += part.first[d] * weight.stride(d + 2);
      to.tap_stride[d] = part.step[d] * weight.stride(d + 2);
      p.stride[d] = int32_t(axis.stride);
      p.out_stride[d] = part.out.stride(d + 2);
    }
    if (to.taps[1] * to.taps[2] > kNarrowTaps) return std::nullopt;
    to.by_width = make_fast_divmod(to.positions[2]);
    const uint64_t columns = ceil_div(to.positions[1], kNarrowRows) * to.positions[2];
    plan.groups = std::max(plan.groups, uint32_t(ceil_div(columns, kNarrowThreads)));
    plan.planes = std::max(plan.planes, to.positions[0]);
    const double rows = double(source.size(1)) * to.taps[0] * to.taps[2];
    taps = std::max(taps, rows * to.taps[1]);
    blocks = std::max(blocks, rows * double(ceil_div(to.taps[1], kNarrowTapBlock)));
    threads += double(columns) * to.positions[0] * double(out.size(0));
  }
  for (int d = 0; d < 3; ++d) {
    p.source[d] = uint32_t(source.size(d + 2));
    p.source_stride[d] = source.stride(d + 2);
  }
  p.image_stride = source.stride(0);
  p.channel_stride = source.stride(1);
  p.channels = uint32_t(source.size(1));
  p.out_image = out.stride(0);
  p.out_channel = out.stride(1);
  p.weight_output = weight.stride(backward ? 1 : 0);
  p.weight_channel = weight.stride(backward ? 0 : 1);
  const double size_in_bytes = double(out.element_size());
  plan.time = narrow_time(threads, double(out.size(1)), blocks, taps) +
              copy_time(double(source.numel() + out.numel()) * size_in_bytes);
  const double macs = double(weight.numel()) * double(spatial_size(backward ? source : out)) * double(out.size(0));
  plan.gemm_time = simdgroup_time(macs, out.size(1), source.size(1), w, backward, size_in_bytes);
  return plan;
}

inline void launch_narrow(const NarrowPlan& plan, const Tensor& out_given, const Tensor& source, const Tensor& weight,
                          const Tensor& bias) {
  static const KernelSet kernels[kMaxNarrowOutputs] = {KernelSet("conv_narrow_1"), KernelSet("conv_narrow_2"),
                                                       KernelSet("conv_narrow_3"), KernelSet("conv_narrow_4")};
  const Tensor out = with_three_dims(out_given);
  ConvNarrowParams p = plan.params;
  p.has_bias = bias.defined();
  if (!plan.complete) fill_with_bias(out, bias);
  Launch l(kernels[out.size(1) - 1].get(tag_of(out)));
  l.outputs(out).inputs(source, weight).pointer(p.has_bias ? bias.const_data_ptr() : nullptr).bytes(p);
  l.groups({p.part_count * plan.groups, plan.planes, uint32_t(out.size(0))}, kNarrowThreads, true);
  l.work(uint64_t(kNarrowRows) * kNarrowThreads * p.channels).run();
}

}  // namespace mpsx::ops
