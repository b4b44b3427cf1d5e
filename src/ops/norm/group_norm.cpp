// group_norm and its backward. F.group_norm takes native_group_norm, which also has a composite kernel: the
// registration below keeps PyTorch from choosing that one.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "norm/batch_norm_params.h"
#include "ops/operator.h"
#include "ops/rows.h"

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
  p.plane = uint64_t(plane);
  return p;
}

void check_parameter(const char* op, const char* name, const Tensor& input, const Tensor& t, at::ScalarType type,
                     int64_t size) {
  if (!t.defined()) return;
  TORCH_CHECK(t.device() == input.device(), op, ": expected ", name, " on ", input.device(), ", got ", t.device());
  TORCH_CHECK(t.scalar_type() == type, op, ": expected ", name, " of type ", type, " beside an input of type ",
              input.scalar_type(), ", got ", t.scalar_type());
  TORCH_CHECK(t.numel() == size, op, ": expected ", name, " of ", size, " elements, got ", t.numel());
}

// The batch's own type, or float if that is what a parameter beside a half batch has.
at::ScalarType wider_type(const Tensor& input, const Tensor& first, const Tensor& second) {
  const bool wide = (first.defined() ? first : second.defined() ? second : input).scalar_type() == at::kFloat;
  return wide ? at::kFloat : input.scalar_type();
}

Launch& over_groups(Launch& launch, const GroupNormParams& p) {
  const uint64_t size = p.plane * p.channels;
  return launch.groups({p.groups, p.images}, runtime::threads_for_row(size)).work(size * 2);
}

// Channels innermost: batch_norm's kernels over an image's rows (metal/norm/group_norm_last.metal).
bool channels_last(const Tensor& input) {
  return input.suggest_memory_format() != at::MemoryFormat::Contiguous && input.numel() > 0;
}
BatchNormParams row_params(const GroupNormParams& p, std::initializer_list<Tensor> tensors) {
  BatchNormParams r{};
  r.images = p.images;
  r.channels = p.groups * p.channels;
  r.plane = p.plane;
  r.elements = p.images * p.plane * r.channels;
  r.fold = 1;
  r.span_rows = p.plane;
  r.span_chunks = uint32_t(ceil_div(p.plane, kRowChunk));
  r.chunks = r.span_chunks * p.images;
  r.train = 1;
  r.groups = p.groups;
  r.group_channels = p.channels;
  r.has_weight = p.has_weight;
  r.has_bias = p.has_bias;
  r.eps = p.eps;
  r.packed = lines_packed(r.channels, tensors);
  return r;
}
void run_over_tiles(Launch& launch, const BatchNormParams& r) {
  launch.groups({uint32_t(ceil_div(r.channels, kRowColumns)), r.chunks}, kRowColumns)
      .work(std::min<uint64_t>(r.channels, kRowColumns) * kRowChunk)
      .run();
}
void run_over_groups(Launch& launch, const BatchNormParams& r) {
  const uint64_t size = uint64_t(r.group_channels) * r.span_chunks;
  launch.groups({r.groups, r.images}, runtime::threads_for_row(r.group_channels)).work(size).run();
}

void forward_last(const BatchNormParams& r, const Tensor& x, const Tensor& out, const Tensor& mean, const Tensor& rstd,
                  const Tensor& weight, const Tensor& bias) {
  static const KernelSet stats("batch_norm_stats_last"), finish("group_norm_finish_last"),
      scale("batch_norm_scale_last");
  const int64_t width = int64_t(r.channels), slots = 3 * width * r.chunks;
  const Tensor scratch = at::empty({slots + 3 * width * r.images}, x.options().dtype(at::kFloat));
  float* partial = static_cast<float*>(scratch.mutable_data_ptr());
  float* coefficients = partial + slots;
  Launch chunks(stats.get(tag_of(x)));
  run_over_tiles(chunks.pointer(partial).pointer(data_or_null(x)).bytes(r), r);
  Launch groups(finish.get(tag_of(mean)));
  groups.pointer(coefficients)
      .pointer(mutable_data_or_null(mean))
      .pointer(mutable_data_or_null(rstd))
      .pointer(partial)
      .pointer(data_or_null(weight));
  run_over_groups(groups.pointer(data_or_null(bias)).bytes(r), r);
  Launch all(scale.get(tag_of(x)));
  run_over_tiles(all.pointer(mutable_data_or_null(out)).pointer(data_or_null(x)).pointer(coefficients).bytes(r), r);
}

void backward_last(const BatchNormParams& r, const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                   const Tensor& weight, const Tensor& grad_input, const Tensor& sums) {
  static const KernelSet stats("batch_norm_bwd_sums_last"), finish("group_norm_bwd_finish_last"),
      scale("batch_norm_bwd_input_last");
  const int64_t width = int64_t(r.channels), slots = 2 * width * r.chunks;
  const Tensor scratch = at::empty({slots + 4 * width * r.images}, x.options().dtype(at::kFloat));
  float* partial = static_cast<float*>(scratch.mutable_data_ptr());
  float* coefficients = partial + slots;
  Launch chunks(stats.get(tag_of(x), tag_of(mean)));
  run_over_tiles(
      chunks.pointer(partial).pointer(data_or_null(dy)).pointer(data_or_null(x)).pointer(data_or_null(mean)).bytes(r),
      r);
  Launch groups(finish.get(tag_of(mean)));
  groups.pointer(coefficients)
      .pointer(mutable_data_or_null(sums))
      .pointer(partial)
      .pointer(data_or_null(mean))
      .pointer(data_or_null(rstd));
  run_over_groups(groups.pointer(data_or_null(weight)).bytes(r), r);
  if (!grad_input.defined()) return;
  Launch all(scale.get(tag_of(x)));
  run_over_tiles(all.pointer(mutable_data_or_null(grad_input))
                     .pointer(data_or_null(dy))
                     .pointer(data_or_null(x))
                     .pointer(coefficients)
                     .bytes(r),
                 r);
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
  if (channels_last(input)) {
    forward_last(row_params(p, {x, out}), x, out, mean, rstd, weight, bias);
  } else if (images > 0) {
    Launch launch(kernels.get(tag_of(x), tag_of(type)));
    launch.pointer(mutable_data_or_null(out))
        .pointer(mutable_data_or_null(mean))
        .pointer(mutable_data_or_null(rstd))
        .pointer(data_or_null(x))
        .pointer(data_or_null(weight));
    over_groups(launch.pointer(data_or_null(bias)).bytes(p), p).run();
  }
  return Result(out, mean, rstd);
}

std::optional<Result> group_norm_backward(const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                          const Tensor& rstd, const Optional& weight_opt, int64_t images,
                                          int64_t channels, int64_t plane, int64_t groups, std::array<bool, 3> mask) {
  static const KernelSet kernels("group_norm_bwd"), sums_of("group_norm_bwd_params");
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
  p.wants_input = mask[0];
  p.wants_sums = mask[1] || mask[2];
  const auto format = input.suggest_memory_format();
  const Tensor x = input.contiguous(format), dy = grad_out.contiguous(format);
  const Tensor m = mean.contiguous(), r = rstd.contiguous();
  const Tensor grad_input = mask[0] ? at::empty_like(x, format) : Tensor();
  const auto options = input.options().dtype(type);
  const Tensor sums = at::empty({2 * images * channels}, options.dtype(at::kFloat));
  if (channels_last(input)) {
    backward_last(row_params(p, {x, dy}), dy, x, m, r, weight, grad_input, sums);
  } else if (images > 0) {
    Launch launch(kernels.get(tag_of(x), tag_of(type)));
    launch.pointer(mutable_data_or_null(grad_input))
        .pointer(mutable_data_or_null(sums))
        .pointer(data_or_null(dy))
        .pointer(data_or_null(x))
        .pointer(data_or_null(m));
    over_groups(launch.pointer(data_or_null(r)).pointer(data_or_null(weight)).bytes(p), p).run();
  }
  Tensor grad_weight, grad_bias;
  if (p.wants_sums) {
    grad_weight = at::empty({channels}, options);
    grad_bias = at::empty({channels}, options);
    Launch launch(sums_of.get(tag_of(type)));
    launch.pointer(mutable_data_or_null(grad_weight))
        .pointer(mutable_data_or_null(grad_bias))
        .pointer(data_or_null(sums))
        .bytes(p);
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
