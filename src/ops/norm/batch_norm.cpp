// batch_norm over (images, channels, …), and its backward pass. Computes statistics for each chunk, merges them in a
// fixed order, and then normalizes in one pass. On a PrivateUse1 device, F.batch_norm and instance_norm call
// native_batch_norm.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>

#include "norm/batch_norm_params.h"
#include "ops/norm/planes.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using Optional = std::optional<Tensor>;
using Result = std::tuple<Tensor, Tensor, Tensor>;

// If there are fewer than kWidth channels, several positions are folded into one row of at least kWidth elements.
constexpr uint32_t kVector = 8, kWidth = 64;

Tensor value_or_none(const Optional& t) { return t.has_value() ? *t : Tensor(); }

// The dimensions and the memory format of a batch, and its partition into chunks.
struct Plan {
  BatchNormParams p{};
  at::MemoryFormat format;
  bool last;  // channels last

  Plan(const char* op, const Tensor& x) : format(x.suggest_memory_format()) {
    TORCH_CHECK(x.dim() >= 2, op, ": expected an input of at least 2 dimensions, got ", x.dim());
    TORCH_CHECK(x.size(0) <= int64_t(UINT32_MAX) && x.size(1) <= int64_t(UINT32_MAX), op,
                ": expected at most 2^32-1 images and channels, got ", x.size(0), " and ", x.size(1));
    p.images = uint32_t(x.size(0));
    p.channels = uint32_t(x.size(1));
    p.elements = uint64_t(x.numel());
    p.plane = p.elements ? p.elements / (uint64_t(p.images) * p.channels) : 0;
    p.fold = p.pieces = 1;
    last = format != at::MemoryFormat::Contiguous || p.plane == 1;
    if (p.elements) last ? cut_rows() : cut_planes();
  }

  uint64_t width() const { return uint64_t(p.channels) * p.fold; }
  // Returns the number of partial results per statistic. There is one for each chunk and column.
  int64_t slots() const { return int64_t(width() * p.chunks); }
  // over_chunks() launches a kernel that only reads the whole batch, and over_planes() one that also writes it. All
  // tensors must have the shape of the batch.
  void over_chunks(runtime::KernelEntry& kernel, Launch& launch, std::initializer_list<Tensor> tensors) {
    if (last) return over_tiles(launch, tensors);
    p.planes = planes(kernel, tensors, {}).shape;
    const PlanePieces pieces(p.plane);
    p.row_threads = pieces.row_threads;
    const uint64_t images = std::min(p.chunk, p.images);
    launch.groups({p.chunks, p.channels}, pieces.threads).work(images * p.piece).run();
  }
  void over_planes(runtime::KernelEntry& kernel, Launch& launch, std::initializer_list<Tensor> inputs,
                   const Tensor& out) {
    if (last) return over_tiles(launch, {*inputs.begin(), *(inputs.end() - 1), out});
    const RowLaunch rows = planes(kernel, inputs, {out});
    p.planes = rows.shape;
    rows.run(launch, p.plane);
  }
  Launch& over_channels(Launch& launch) const {
    const uint64_t slots = uint64_t(p.chunks) * p.fold;
    return launch.groups({p.channels}, runtime::threads_for_row(slots)).work(slots);
  }

 private:
  RowLaunch planes(runtime::KernelEntry& kernel, std::initializer_list<Tensor> inputs,
                   std::initializer_list<Tensor> others) const {
    const uint64_t count = uint64_t(p.images) * p.channels;
    TORCH_CHECK(std::max(p.plane, count) <= UINT32_MAX, "batch_norm: expected at most 2^32-1 planes of as many ",
                "elements, got ", count, " of ", p.plane);
    return share_rows(kernel, count, p.plane, inputs, others);
  }
  void cut_rows() {
    if (p.channels < kWidth) {
      const uint32_t aligned = kVector / std::gcd(p.channels, kVector);
      p.fold = aligned * uint32_t(ceil_div(kWidth, uint64_t(aligned) * p.channels));
    }
    p.span_rows = p.elements / width();
    p.chunks = p.span_chunks = uint32_t(std::max<uint64_t>(1, ceil_div(p.span_rows, kRowChunk)));
    p.groups = p.channels;
    p.group_channels = 1;
  }
  void cut_planes() {
    const PlanePieces pieces(p.plane);
    p.pieces = pieces.count;
    p.piece = pieces.size;
    p.chunk = pieces.planes;
    p.chunks = p.pieces > 1 ? p.images * p.pieces : uint32_t(ceil_div(p.images, p.chunk));
  }
  void over_tiles(Launch& launch, std::initializer_list<Tensor> tensors) {
    p.aligned = rows_aligned(width(), tensors);
    launch.groups({uint32_t(ceil_div(width(), kRowColumns)), p.chunks}, kRowColumns)
        .work(std::min<uint64_t>(width(), kRowColumns) * kRowChunk)
        .run();
  }
};

// Checks the weight, the bias and the statistics. Returns their type: that of the input, or float for a half input.
at::ScalarType parameter_type(const char* op, const Tensor& input,
                              std::initializer_list<std::pair<const char*, const Tensor*>> parameters) {
  auto type = input.scalar_type();
  for (const auto& [name, t] : parameters) {
    if (!t->defined()) continue;
    type = t->scalar_type();
    break;
  }
  for (const auto& [name, t] : parameters) {
    if (!t->defined()) continue;
    TORCH_CHECK(t->device() == input.device(), op, ": Expected all tensors to be on the same device, but found at ",
                "least two devices, ", input.device(), " and ", t->device(), " (of ", name, ")");
    TORCH_CHECK(t->scalar_type() == type && (type == input.scalar_type() || type == at::kFloat), op, ": expected ",
                name, " of type ", type == at::kFloat ? type : input.scalar_type(), " with an input of type ",
                input.scalar_type(), ", got ", t->scalar_type());
    TORCH_CHECK(t->numel() == input.size(1), op, ": expected ", name, " of ", input.size(1), " elements, got ",
                t->numel());
  }
  return type;
}

Result forward(const char* op, const Tensor& input, const Optional& weight_opt, const Optional& bias_opt,
               const Tensor& running_mean, const Tensor& running_var, bool train, double momentum, double eps) {
  static const KernelSet stats("batch_norm_stats"), stats_last("batch_norm_stats_last"), finish("batch_norm_finish"),
      scale("batch_norm_scale"), scale_last("batch_norm_scale_last");
  Plan plan(op, input);
  Tensor weight = value_or_none(weight_opt), bias = value_or_none(bias_opt);
  const auto type = parameter_type(
      op, input,
      {{"weight", &weight}, {"bias", &bias}, {"running_mean", &running_mean}, {"running_var", &running_var}});
  TORCH_CHECK_VALUE(running_mean.defined() == running_var.defined(), op,
                    ": running_mean and running_var must either both be None or neither be None");
  TORCH_CHECK(train || running_mean.defined(), op, ": expected running_mean and running_var when training=False");
  if (weight.defined()) weight = weight.contiguous();
  if (bias.defined()) bias = bias.contiguous();
  const Tensor mean = running_mean.defined() ? running_mean.contiguous() : running_mean;
  const Tensor var = running_var.defined() ? running_var.contiguous() : running_var;

  BatchNormParams& p = plan.p;
  p.train = train;
  p.has_weight = weight.defined();
  p.has_bias = bias.defined();
  p.has_running = mean.defined();
  p.momentum = float(momentum);
  p.eps = float(eps);

  const Tensor x = input.contiguous(plan.format);
  const Tensor out = at::empty_like(x, plan.format);
  const auto options = input.options().dtype(type);
  const Tensor save_mean = at::empty({train ? input.size(1) : 0}, options), save_invstd = at::empty_like(save_mean);
  if (p.channels == 0) return {out, save_mean, save_invstd};
  const int64_t slots = train ? plan.slots() : 0;
  const Tensor scratch = at::empty({3 * (slots + int64_t(plan.width()))}, input.options().dtype(at::kFloat));
  float* partial = static_cast<float*>(scratch.mutable_data_ptr());
  float* coefficients = partial + 3 * slots;
  if (train && p.elements) {
    auto& kernel = (plan.last ? stats_last : stats).get(tag_of(x));
    Launch launch(kernel);
    plan.over_chunks(kernel, launch.pointer(partial).inputs(x).bytes(p), {x});
  }
  Launch channels(finish.get(tag_of(type)));
  channels.pointer(coefficients).outputs(save_mean, save_invstd, mean);
  channels.outputs(var).pointer(partial).inputs(weight, bias).bytes(p);
  plan.over_channels(channels).run();
  if (p.elements) {
    auto& kernel = (plan.last ? scale_last : scale).get(tag_of(x));
    Launch launch(kernel);
    launch.outputs(out).inputs(x).pointer(coefficients).bytes(p);
    plan.over_planes(kernel, launch, {x}, out);
  }
  if (train && mean.defined()) {
    if (!mean.is_same(running_mean)) running_mean.copy_(mean);
    if (!var.is_same(running_var)) running_var.copy_(var);
  }
  return {out, save_mean, save_invstd};
}

bool deliver_all(const char* op, const Result& results, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  return_or_copy(op, std::get<0>(results), out);
  return_or_copy(op, std::get<1>(results), save_mean);
  return return_or_copy(op, std::get<2>(results), save_invstd);
}

bool native(const Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
            const Optional& running_var, bool train, double momentum, double eps, Tensor& out, Tensor& save_mean,
            Tensor& save_invstd) {
  const char* op = "native_batch_norm";
  return has_float_kernel(input) && deliver_all(op,
                                                forward(op, input, weight, bias, value_or_none(running_mean),
                                                        value_or_none(running_var), train, momentum, eps),
                                                out, save_mean, save_invstd);
}
bool legit(const Tensor& input, const Optional& weight, const Optional& bias, Tensor& running_mean, Tensor& running_var,
           bool train, double momentum, double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  const char* op = "_native_batch_norm_legit";
  return has_float_kernel(input) &&
         deliver_all(op, forward(op, input, weight, bias, running_mean, running_var, train, momentum, eps), out,
                     save_mean, save_invstd);
}
bool legit_no_stats(const Tensor& input, const Optional& weight, const Optional& bias, bool train, double momentum,
                    double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  const char* op = "_native_batch_norm_legit";
  return has_float_kernel(input) &&
         deliver_all(op, forward(op, input, weight, bias, Tensor(), Tensor(), train, momentum, eps), out, save_mean,
                     save_invstd);
}

// The variant for torch.export and torch.compile also returns cuDNN's reserve tensor. It is empty here.
bool empty_reserve(const char* op, const Tensor& input, Tensor& reserve) {
  return return_or_copy(op, at::empty({0}, input.options().dtype(at::kByte)), reserve);
}
bool with_update(const Tensor& input, const Optional& weight, const Optional& bias, Tensor& running_mean,
                 Tensor& running_var, double momentum, double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd,
                 Tensor& reserve) {
  return legit(input, weight, bias, running_mean, running_var, true, momentum, eps, out, save_mean, save_invstd) &&
         empty_reserve("_batch_norm_with_update", input, reserve);
}
bool no_update(const Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
               const Optional& running_var, double momentum, double eps, Tensor& out, Tensor& save_mean,
               Tensor& save_invstd, Tensor& reserve) {
  return native(input, weight, bias, running_mean, running_var, false, momentum, eps, out, save_mean, save_invstd) &&
         empty_reserve("_batch_norm_no_update", input, reserve);
}

std::optional<Result> backward(const Tensor& grad_out, const Tensor& input, const Optional& weight_opt,
                               const Optional& running_mean, const Optional& running_var, const Optional& save_mean,
                               const Optional& save_invstd, bool train, double eps, std::array<bool, 3> mask) {
  static const KernelSet sums("batch_norm_bwd_sums"), sums_last("batch_norm_bwd_sums_last"),
      finish("batch_norm_bwd_finish"), scale("batch_norm_bwd_input"), scale_last("batch_norm_bwd_input_last");
  if (!has_float_kernel(input) || !has_float_kernel(grad_out)) return std::nullopt;
  const char* op = "native_batch_norm_backward";
  Plan plan(op, input);
  TORCH_CHECK(grad_out.sizes() == input.sizes() && grad_out.scalar_type() == input.scalar_type(), op,
              ": expected a gradient of shape ", input.sizes(), " and type ", input.scalar_type(), ", got ",
              grad_out.sizes(), " and ", grad_out.scalar_type());
  Tensor weight = value_or_none(weight_opt);
  Tensor mean = value_or_none(train ? save_mean : running_mean),
         spread = value_or_none(train ? save_invstd : running_var);
  TORCH_CHECK(mean.defined() && spread.defined(), op, ": expected ",
              train ? "save_mean and save_invstd" : "running_mean and running_var", " when train=", train);
  const auto type = parameter_type(op, input,
                                   {{train ? "save_mean" : "running_mean", &mean},
                                    {train ? "save_invstd" : "running_var", &spread},
                                    {"weight", &weight}});
  if (weight.defined()) weight = weight.contiguous();
  mean = mean.contiguous();
  spread = spread.contiguous();

  BatchNormParams& p = plan.p;
  p.train = train;
  p.has_weight = weight.defined();
  p.eps = float(eps);
  const Tensor x = input.contiguous(plan.format), dy = grad_out.contiguous(plan.format);
  const auto options = input.options().dtype(type);
  const Tensor grad_weight = at::empty({input.size(1)}, options), grad_bias = at::empty_like(grad_weight);
  const Tensor grad_input = mask[0] ? at::empty_like(x, plan.format) : Tensor();
  if (p.channels > 0) {
    const int64_t slots = plan.slots();
    const Tensor scratch = at::empty({2 * slots + 5 * int64_t(plan.width())}, input.options().dtype(at::kFloat));
    float* partial = static_cast<float*>(scratch.mutable_data_ptr());
    float* coefficients = partial + 2 * slots;
    if (p.elements) {
      auto& kernel = (plan.last ? sums_last : sums).get(tag_of(x), tag_of(type));
      Launch launch(kernel);
      launch.pointer(partial).inputs(dy, x, mean).bytes(p);
      plan.over_chunks(kernel, launch, {dy, x});
    }
    Launch channels(finish.get(tag_of(type)));
    channels.pointer(coefficients).outputs(grad_weight, grad_bias).pointer(partial);
    channels.inputs(mean, spread, weight).bytes(p);
    plan.over_channels(channels).run();
    if (mask[0] && p.elements) {
      auto& kernel = (plan.last ? scale_last : scale).get(tag_of(x));
      Launch launch(kernel);
      launch.outputs(grad_input).inputs(dy, x);
      plan.over_planes(kernel, launch.pointer(coefficients).bytes(p), {dy, x}, grad_input);
    }
  }
  return Result(grad_input, mask[1] ? grad_weight : Tensor(), mask[2] ? grad_bias : Tensor());
}

std::optional<Result> backward_with_reserve(const Tensor& grad_out, const Tensor& input, const Tensor& weight,
                                            const Optional& running_mean, const Optional& running_var,
                                            const Optional& save_mean, const Optional& save_invstd, bool update,
                                            double eps, std::array<bool, 3> mask, const Tensor& /*reserve*/) {
  return backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, update, eps, mask);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"native_batch_norm", &native>(m);
  op<"_native_batch_norm_legit", &legit>(m);
  op<"_native_batch_norm_legit.no_stats", &legit_no_stats>(m);
  op<"_batch_norm_with_update", &with_update>(m);
  op<"_batch_norm_no_update", &no_update>(m);
  op<"native_batch_norm_backward", &backward>(m);
  op<"batch_norm_backward", &backward_with_reserve>(m);
}

}  // namespace mpsx::ops
