// group_norm and its backward pass. F.group_norm calls native_group_norm. PyTorch has a composite kernel for it, which
// the registration below overrides.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "norm/batch_norm_params.h"
#include "ops/norm/planes.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using Optional = std::optional<Tensor>;
using Result = std::tuple<Tensor, Tensor, Tensor>;

Tensor contiguous_or_none(const Optional& t) { return t.has_value() && t->defined() ? t->contiguous() : Tensor(); }
GroupNormParams check(const char* op, const Tensor& input, int64_t images, int64_t channels, int64_t plane,
                      int64_t groups) {
  TORCH_CHECK(groups > 0 && channels % groups == 0, op, ": expected a number of groups that divides ", channels,
              " channels, got ", groups);
  TORCH_CHECK(images >= 0 && images <= int64_t(UINT32_MAX) && channels <= int64_t(UINT32_MAX), op,
              ": expected at most 2^32-1 images and channels, got ", images, " and ", channels);
  TORCH_CHECK(input.numel() == images * channels * plane, op, ": expected an input of ", images, "x", channels, "x",
              plane, " elements, got shape ", input.sizes());
  GroupNormParams p{};
  p.images = uint32_t(images);
  p.groups = uint32_t(groups);
  p.channels = uint32_t(channels / groups);
  TORCH_CHECK(plane <= int64_t(UINT32_MAX) && images * channels <= int64_t(UINT32_MAX), op,
              ": expected at most 2^32-1 planes of as many elements, got ", images * channels, " of ", plane);
  p.plane = uint32_t(plane);
  return p;
}

void check_parameter(const char* op, const char* name, const Tensor& input, const Tensor& t, at::ScalarType type,
                     int64_t size) {
  if (!t.defined()) return;
  TORCH_CHECK(t.device() == input.device(), op, ": expected ", name, " on ", input.device(), ", got ", t.device());
  TORCH_CHECK(t.scalar_type() == type, op, ": expected ", name, " of type ", type, " with an input of type ",
              input.scalar_type(), ", got ", t.scalar_type());
  TORCH_CHECK(t.numel() == size, op, ": expected ", name, " of ", size, " elements, got ", t.numel());
}

// Returns the type of the input, or float if the input is half and the parameters are float.
at::ScalarType wider_type(const Tensor& input, const Tensor& first, const Tensor& second) {
  const bool wide = (first.defined() ? first : second.defined() ? second : input).scalar_type() == at::kFloat;
  return wide ? at::kFloat : input.scalar_type();
}

// group_norm uses batch_norm's kernels to read and write the batch, with metal/norm/group_norm_finish.metal in between.
// In channels-last layout, an image is a range of rows. Otherwise, every plane of every image is treated as a separate
// channel.
bool channels_last(const Tensor& input) {
  return input.suggest_memory_format() != at::MemoryFormat::Contiguous && input.numel() > 0;
}
BatchNormParams group_params(const GroupNormParams& p) {
  BatchNormParams r{};
  r.images = p.images;
  r.channels = p.groups * p.channels;
  r.plane = p.plane;
  r.elements = uint64_t(p.images) * p.plane * r.channels;
  r.fold = r.train = 1;
  r.groups = p.groups;
  r.group_channels = p.channels;
  r.has_weight = p.has_weight;
  r.has_bias = p.has_bias;
  r.eps = p.eps;
  return r;
}

struct Batch {
  BatchNormParams r;  // parameters of kernels with one threadgroup per channel group
  bool last;
  uint64_t slots, width;  // partial results per statistic; number of coefficients

  Batch(const GroupNormParams& p, const Tensor& x, uint64_t pieces) : r(group_params(p)), last(channels_last(x)) {
    r.span_rows = p.plane;
    r.span_chunks = uint32_t(last ? ceil_div(p.plane, kRowChunk) : pieces);
    r.chunks = r.span_chunks * (last ? p.images : 1);
    r.channel_slots = r.chunks;
    r.image_slots = r.span_chunks * (last ? 1 : r.channels);
    width = uint64_t(r.images) * r.channels;
    slots = width * r.span_chunks;
  }
  // Treats every plane as a channel of a single image.
  BatchNormParams planes(const RowLaunch& launch) const {
    BatchNormParams q = r;
    q.planes = launch.shape;
    q.channels = q.planes.rows;
    q.images = 1;
    return q;
  }
  RowLaunch share_planes(const runtime::KernelEntry& kernel, std::initializer_list<Tensor> inputs,
                         std::initializer_list<Tensor> others) const {
    return share_rows(kernel, width, r.plane, inputs, others);
  }
  void over_groups(Launch& launch) const {
    const uint64_t size = uint64_t(r.group_channels) * r.span_chunks;
    launch.bytes(r).groups({r.groups, r.images}, runtime::threads_for_row(size)).work(size).run();
  }
  void over_tiles(Launch& launch, std::initializer_list<Tensor> tensors) {
    r.aligned = rows_aligned(r.channels, tensors);
    launch.bytes(r)
        .groups({uint32_t(ceil_div(r.channels, kRowColumns)), r.chunks}, kRowColumns)
        .work(std::min<uint64_t>(r.channels, kRowColumns) * kRowChunk)
        .run();
  }
};

// Computes statistics in chunks. A chunk is a whole plane or a part of one.
void forward_by_chunks(const GroupNormParams& p, const Tensor& x, const Tensor& out, const Tensor& mean,
                       const Tensor& rstd, const Tensor& weight, const Tensor& bias) {
  static const KernelSet stats("batch_norm_stats"), stats_last("batch_norm_stats_last"), finish("group_norm_finish"),
      scale("batch_norm_scale"), scale_last("batch_norm_scale_last");
  const PlanePieces pieces(p.plane);
  Batch batch(p, x, pieces.count);
  const Tensor scratch = at::empty({int64_t(3 * (batch.slots + batch.width))}, x.options().dtype(at::kFloat));
  float* partial = static_cast<float*>(scratch.mutable_data_ptr());
  float* coefficients = partial + 3 * batch.slots;
  auto& sums = (batch.last ? stats_last : stats).get(tag_of(x));
  Launch chunks(sums);
  chunks.pointer(partial).inputs(x);
  if (batch.last) {
    batch.over_tiles(chunks, {x});
  } else {
    BatchNormParams q = batch.planes(batch.share_planes(sums, {x}, {}));
    q.chunk = 1, q.pieces = pieces.count, q.piece = pieces.size, q.chunks = pieces.count;
    q.row_threads = pieces.row_threads;
    chunks.bytes(q).groups({q.chunks, q.channels}, pieces.threads).work(q.piece).run();
  }
  Launch groups(finish.get(tag_of(mean)));
  groups.pointer(coefficients).outputs(mean, rstd).pointer(partial);
  batch.over_groups(groups.inputs(weight, bias));
  auto& all = (batch.last ? scale_last : scale).get(tag_of(x));
  Launch launch(all);
  launch.outputs(out).inputs(x).pointer(coefficients);
  if (batch.last) return batch.over_tiles(launch, {x, out});
  const RowLaunch rows = batch.share_planes(all, {x}, {out});
  rows.run(launch.bytes(batch.planes(rows)), p.plane);
}

void backward_by_chunks(const GroupNormParams& p, const Tensor& dy, const Tensor& x, const Tensor& mean,
                        const Tensor& rstd, const Tensor& weight, const Tensor& grad_input, const Tensor& sums) {
  static const KernelSet planes("group_norm_bwd_sums"), columns("batch_norm_bwd_sums_last"),
      finish("group_norm_bwd_finish"), scale("batch_norm_bwd_input"), scale_last("batch_norm_bwd_input_last");
  Batch batch(p, x, 1);
  const Tensor scratch = at::empty({int64_t(2 * batch.slots + 5 * batch.width)}, x.options().dtype(at::kFloat));
  float* partial = static_cast<float*>(scratch.mutable_data_ptr());
  float* coefficients = partial + 2 * batch.slots;
  auto& kernel = (batch.last ? columns : planes).get(tag_of(x), tag_of(mean));
  Launch chunks(kernel);
  chunks.pointer(partial).inputs(dy, x, mean);
  if (batch.last) {
    batch.over_tiles(chunks, {dy, x});
  } else {
    const RowLaunch rows = batch.share_planes(kernel, {dy, x}, {});
    rows.run(chunks.bytes(batch.planes(rows)), p.plane);
  }
  Launch groups(finish.get(tag_of(mean)));
  groups.pointer(coefficients).outputs(sums).pointer(partial).inputs(mean);
  batch.over_groups(groups.inputs(rstd, weight));
  if (!grad_input.defined()) return;
  auto& all = (batch.last ? scale_last : scale).get(tag_of(x));
  Launch launch(all);
  launch.outputs(grad_input).inputs(dy, x).pointer(coefficients);
  if (batch.last) return batch.over_tiles(launch, {dy, x, grad_input});
  const RowLaunch rows = batch.share_planes(all, {dy, x}, {grad_input});
  rows.run(launch.bytes(batch.planes(rows)), p.plane);
}

std::optional<Result> group_norm(const Tensor& input, const Optional& weight_opt, const Optional& bias_opt,
                                 int64_t images, int64_t channels, int64_t plane, int64_t groups, double eps) {
  static const KernelSet kernels("group_norm");
  if (!has_float_kernel(input)) return std::nullopt;
  const char* op = "native_group_norm";
  GroupNormParams p = check(op, input, images, channels, plane, groups);
  const Tensor weight = contiguous_or_none(weight_opt), bias = contiguous_or_none(bias_opt);
  const auto type = wider_type(input, weight, bias);
  check_parameter(op, "weight", input, weight, type, channels);
  check_parameter(op, "bias", input, bias, type, channels);
  p.has_weight = weight.defined();
  p.has_bias = bias.defined();
  p.eps = float(eps);
  const auto format = input.suggest_memory_format();
  const Tensor x = input.contiguous(format), out = at::empty_like(x, format);
  const Tensor mean = at::empty({images, groups}, input.options().dtype(type)), rstd = at::empty_like(mean);
  if (images == 0) return Result(out, mean, rstd);
  if (input.numel() == 0) return Result(out, mean.zero_(), rstd.fill_(NAN));
  auto& kernel = kernels.get(tag_of(x), tag_of(type));
  const uint64_t size = uint64_t(plane) * p.channels;
  RowLaunch rows = share_rows(kernel, uint64_t(images * groups), size, {x}, {out});
  if (channels_last(input) || size > rows.lane_groups.register_elements) {
    forward_by_chunks(p, x, out, mean, rstd, weight, bias);
    return Result(out, mean, rstd);
  }
  p.shape = rows.shape;
  if (p.plane < rows.vec_size) p.shape.vectorized = 0;
  Launch launch(kernel);
  launch.outputs(out, mean, rstd).inputs(x, weight, bias);
  rows.run(launch.bytes(p), size * 2);
  return Result(out, mean, rstd);
}

std::optional<Result> group_norm_backward(const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                          const Tensor& rstd, const Optional& weight_opt, int64_t images,
                                          int64_t channels, int64_t plane, int64_t groups, std::array<bool, 3> mask) {
  static const KernelSet sums_of("group_norm_bwd_params");
  if (!has_float_kernel(input) || !has_float_kernel(grad_out)) return std::nullopt;
  const char* op = "native_group_norm_backward";
  GroupNormParams p = check(op, input, images, channels, plane, groups);
  TORCH_CHECK(grad_out.sizes() == input.sizes() && grad_out.scalar_type() == input.scalar_type(), op,
              ": expected a gradient of shape ", input.sizes(), " and type ", input.scalar_type(), ", got ",
              grad_out.sizes(), " and ", grad_out.scalar_type());
  const Tensor weight = contiguous_or_none(weight_opt);
  const auto type = wider_type(input, mean, weight);
  check_parameter(op, "mean", input, mean, type, images * groups);
  check_parameter(op, "rstd", input, rstd, type, images * groups);
  check_parameter(op, "weight", input, weight, type, channels);
  p.has_weight = weight.defined();
  const auto format = input.suggest_memory_format();
  const Tensor x = input.contiguous(format), dy = grad_out.contiguous(format);
  const Tensor m = mean.contiguous(), r = rstd.contiguous();
  const Tensor grad_input = mask[0] ? at::empty_like(x, format) : Tensor();
  const auto options = input.options().dtype(type);
  const Tensor sums = at::empty({2 * images * channels}, options.dtype(at::kFloat));
  if (input.numel() > 0)
    backward_by_chunks(p, dy, x, m, r, weight, grad_input, sums);
  else
    sums.zero_();
  Tensor grad_weight, grad_bias;
  if (mask[1] || mask[2]) {
    grad_weight = at::empty({channels}, options);
    grad_bias = at::empty({channels}, options);
    Launch launch(sums_of.get(tag_of(type)));
    launch.outputs(grad_weight, grad_bias).inputs(sums).bytes(p);
    if (channels > 0) launch.threads(uint64_t(channels)).work(2 * uint64_t(images)).run();
  }
  return Result(grad_input, mask[1] ? grad_weight : Tensor(), mask[2] ? grad_bias : Tensor());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"native_group_norm", &group_norm>(m);
  op<"native_group_norm_backward", &group_norm_backward>(m);
}

}  // namespace mpsx::ops
