// mse_loss, smooth_l1_loss, huber_loss, binary_cross_entropy, and their gradients.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "loss/params.h"
#include "ops/operator.h"
#include "runtime/device_error.h"

namespace mpsx::ops {
namespace {

using MaybeTensor = std::optional<Tensor>;

constexpr uint64_t kTile = 8192;  // must match kLossTile in metal/loss/pointwise_loss.metal
constexpr uint64_t kMaxDense = uint64_t(1) << 30;

struct Kernels {
  const char* name;
  KernelSet each, sum, bwd, bwd_reduced;
  explicit Kernels(const std::string& stem, const char* n)
      : name(n),
        each(stem + "_loss"),
        sum(stem + "_loss_sum"),
        bwd(stem + "_loss_bwd"),
        bwd_reduced(stem + "_loss_bwd_reduced") {}
};
const Kernels& mse() {
  static const Kernels k("mse", "mse_loss");
  return k;
}
const Kernels& smooth_l1() {
  static const Kernels k("smooth_l1", "smooth_l1_loss");
  return k;
}
const Kernels& huber() {
  static const Kernels k("huber", "huber_loss");
  return k;
}
const Kernels& bce() {
  static const Kernels k("binary_cross_entropy", "binary_cross_entropy");
  return k;
}

bool same_kind(const Tensor& a, const Tensor& b) {
  return is_plain(b) && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}
bool has_kernel(const Tensor& x, const Tensor& target, const MaybeTensor& weight = {}) {
  return is_plain(x) && is_float_tag(tag_of(x)) && same_kind(x, target) &&
         (!weight || !weight->defined() || same_kind(x, *weight));
}

// Returns `t` in the memory layout of `like`. Copies it if necessary.
Tensor empty_with_layout(const Tensor& t, const Tensor& like) {
  if (t.sizes() == like.sizes() && t.strides() == like.strides()) return t;
  return at::empty_like(like).copy_(t);
}

// Dense operands, broadcast to a common shape and stored in the dimension order of the first operand.
struct Operands {
  Tensor x, target, weight;  // weight may be undefined
  PointwiseLossParams params{};

  Operands(const Tensor& a, const Tensor& b, const MaybeTensor& w, double parameter) {
    const at::DimVector shape = at::infer_size_dimvector(a.sizes(), b.sizes());
    x = a.sizes() == at::IntArrayRef(shape) && a.is_non_overlapping_and_dense() ? a : a.expand(shape).contiguous();
    target = empty_with_layout(b, x);
    if (w && w->defined()) weight = empty_with_layout(*w, x);
    params.count = uint64_t(x.numel());
    params.parameter = float(parameter);
    params.scale = 1.0f;
    params.has_weight = weight.defined();
  }
  const char* at(const Tensor& t, uint64_t begin) const {
    return t.defined() ? static_cast<const char*>(t.const_data_ptr()) + begin * t.element_size() : nullptr;
  }
};

float mean_scale(int64_t reduction, uint64_t count) {
  return reduction == at::Reduction::Mean ? float(1.0 / double(count)) : 1.0f;
}

// Calls body(begin, count) for chunks whose length fits in 32 bits.
template <typename Body>
void pieces(uint64_t count, const Body& body) {
  for (uint64_t begin = 0; begin < count; begin += kMaxDense) body(begin, std::min(kMaxDense, count - begin));
}

// Returns the first operand in the memory layout of the output, which PyTorch's iterator chooses. If `alone` is true,
// the layout depends only on the first operand.
Tensor as_result(const Tensor& a, const Tensor& b, bool alone) {
  if ((alone || a.is_non_overlapping_and_dense()) && at::is_expandable_to(b.sizes(), a.sizes()))
    return a.is_non_overlapping_and_dense() ? a : a.clone();
  at::TensorIterator iter =
      at::TensorIteratorConfig().add_owned_output(Tensor()).add_const_input(a).add_const_input(b).build();
  return iter.output().copy_(a);
}

Tensor forward(const Kernels& kernels, const Tensor& input, const Tensor& target, const MaybeTensor& weight,
               int64_t reduction, double parameter) {
  static const KernelSet total("loss_total");
  const bool alone = &kernels == &bce() || &kernels == &huber();
  Operands o(reduction == at::Reduction::None ? as_result(input, target, alone) : input, target, weight, parameter);
  PointwiseLossParams& p = o.params;
  const Tag tag = tag_of(o.x);
  if (reduction == at::Reduction::None) {
    const Tensor out = at::empty_like(o.x);
    p.vectorized = aligned(out, o.x, o.target, o.weight);
    pieces(o.params.count, [&](uint64_t begin, uint64_t count) {
      p.count = count;
      Launch(kernels.each.get(tag))
          .pointer(static_cast<char*>(out.data_ptr()) + begin * out.element_size())
          .pointer(o.at(o.x, begin))
          .pointer(o.at(o.target, begin))
          .pointer(o.at(o.weight, begin))
          .bytes(p)
          .over(count, size_t(out.element_size()))
          .run();
    });
    return out;
  }
  const Tensor out = at::empty({}, o.x.options());
  const uint64_t tiles = (p.count + kTile - 1) / kTile;
  TORCH_CHECK(tiles <= UINT32_MAX, kernels.name, ": too many elements: ", p.count);
  const Tensor sums = at::empty({int64_t(tiles) + 1}, o.x.options().dtype(at::kFloat));
  if (tiles > 0)
    Launch(kernels.sum.get(tag))
        .outputs(sums)
        .inputs(o.x, o.target)
        .pointer(o.at(o.weight, 0))
        .bytes(p)
        .groups({uint32_t(tiles), 1, 1}, runtime::threads_for_row(kTile))
        .work(kTile)
        .run();
  const auto n = uint32_t(tiles);
  p.scale = mean_scale(reduction, p.count);
  Launch(total.get(tag))
      .outputs(out)
      .inputs(sums)
      .bytes(n)
      .bytes(p)
      .groups({1, 1, 1}, runtime::threads_for_row(tiles))
      .work(tiles)
      .run();
  return out;
}

// Throws if an element of the operand (0: input, 1: target) is not in [0, 1].
void check_unit(const char* op, const Tensor& operand, uint32_t which) {
  static const KernelSet kernels("unit_check");
  const Tensor x = operand.contiguous();
  PointwiseLossParams p{};
  p.count = uint64_t(x.numel());
  const uint64_t tiles = (p.count + kTile - 1) / kTile;
  TORCH_CHECK(tiles <= UINT32_MAX, op, ": too many elements: ", p.count);
  if (tiles == 0) return;
  Launch(kernels.get(tag_of(x)))
      .inputs(x)
      .bytes(p)
      .bytes(which)
      .pointer(runtime::device_error_record(op))
      .groups({uint32_t(tiles), 1, 1}, runtime::threads_for_row(kTile))
      .work(kTile)
      .run();
  runtime::check_device_errors();
}

// Computes the gradient of `input`, multiplied by `factor`.
Tensor backward(const Kernels& kernels, const Tensor& grad_output, const Tensor& input, const Tensor& target,
                const MaybeTensor& weight, int64_t reduction, double parameter, float factor = 1.0f) {
  Operands o(input, target, weight, parameter);
  PointwiseLossParams& p = o.params;
  const bool reduced = grad_output.numel() == 1;
  p.scale = factor * mean_scale(reduction, p.count);
  const Tensor grad_input = at::empty_like(o.x);
  const Tensor grad = reduced ? grad_output.contiguous() : empty_with_layout(grad_output, o.x);
  p.vectorized = aligned(grad_input, reduced ? grad_input : grad, o.x, o.target, o.weight);
  pieces(o.params.count, [&](uint64_t begin, uint64_t count) {
    p.count = count;
    Launch((reduced ? kernels.bwd_reduced : kernels.bwd).get(tag_of(o.x)))
        .pointer(static_cast<char*>(grad_input.data_ptr()) + begin * grad_input.element_size())
        .pointer(o.at(grad, reduced ? 0 : begin))
        .pointer(o.at(o.x, begin))
        .pointer(o.at(o.target, begin))
        .pointer(o.at(o.weight, begin))
        .bytes(p)
        .over(count, size_t(grad_input.element_size()))
        .run();
  });
  return grad_input;
}

bool mse_loss(const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out) {
  return has_kernel(self, target) && return_or_copy("mse_loss", forward(mse(), self, target, {}, reduction, 0), out);
}
bool mse_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out) {
  return has_kernel(self, target) && same_kind(self, grad) &&
         return_or_copy("mse_loss_backward", backward(mse(), grad, self, target, {}, reduction, 0, 2.0f), out);
}

bool smooth_l1_loss(const Tensor& self, const Tensor& target, int64_t reduction, double beta, Tensor& out) {
  TORCH_CHECK(beta >= 0, "smooth_l1_loss does not support negative values for beta.");
  return has_kernel(self, target) &&
         return_or_copy("smooth_l1_loss", forward(smooth_l1(), self, target, {}, reduction, beta), out);
}
bool smooth_l1_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                             double beta, Tensor& out) {
  return has_kernel(self, target) && same_kind(self, grad) &&
         return_or_copy("smooth_l1_loss_backward", backward(smooth_l1(), grad, self, target, {}, reduction, beta), out);
}

bool huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double delta, Tensor& out) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  return has_kernel(self, target) &&
         return_or_copy("huber_loss", forward(huber(), self, target, {}, reduction, delta), out);
}
bool huber_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction, double delta,
                         Tensor& out) {
  return has_kernel(self, target) && same_kind(self, grad) &&
         return_or_copy("huber_loss_backward", backward(huber(), grad, self, target, {}, reduction, delta), out);
}

bool binary_cross_entropy(const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
                          Tensor& out) {
  if (!has_kernel(self, target, weight)) return false;
  check_unit(bce().name, self, 0);
  check_unit(bce().name, target, 1);
  return return_or_copy(bce().name, forward(bce(), self, target, weight, reduction, 0), out);
}
bool binary_cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                   const MaybeTensor& weight, int64_t reduction, Tensor& out) {
  return has_kernel(self, target, weight) && same_kind(self, grad) &&
         return_or_copy("binary_cross_entropy_backward", backward(bce(), grad, self, target, weight, reduction, 0),
                        out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"mse_loss", &mse_loss>(m);
  op<"mse_loss_backward", &mse_loss_backward>(m);
  op<"smooth_l1_loss", &smooth_l1_loss>(m);
  op<"smooth_l1_loss_backward", &smooth_l1_loss_backward>(m);
  op<"huber_loss", &huber_loss>(m);
  op<"huber_loss_backward", &huber_loss_backward>(m);
  op<"binary_cross_entropy", &binary_cross_entropy>(m);
  op<"binary_cross_entropy_backward", &binary_cross_entropy_backward>(m);
}

}  // namespace mpsx::ops
