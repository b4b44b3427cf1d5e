// The operators layer_norm, rms_norm and group_norm in torch.ops.mpsx. They use operators that also return the
// statistics that the backward pass needs.
#include "ops/explicit.h"

namespace mpsx::ops::explicit_ops {
namespace {

using MaybeTensor = std::optional<Tensor>;

void check_normalized(const char* op, const Tensor& input, c10::SymIntArrayRef shape, const MaybeTensor& weight,
                      const MaybeTensor& bias) {
  const auto sizes = input.sym_sizes();
  TORCH_CHECK(!shape.empty() && sizes.size() >= shape.size() && sizes.slice(sizes.size() - shape.size()) == shape, op,
              ": expected an input whose last dimensions are ", shape, ", got shape ", sizes);
  for (const MaybeTensor* t : {&weight, &bias})
    TORCH_CHECK(!*t || !(*t)->defined() || (*t)->sym_sizes() == shape, op, ": expected a ",
                t == &weight ? "weight" : "bias", " of shape ", shape, ", got ", (*t)->sym_sizes());
}

Tensor layer_norm(const Tensor& input, c10::SymIntArrayRef shape, const MaybeTensor& weight, const MaybeTensor& bias,
                  double eps) {
  check_same_device("mpsx::layer_norm", input, weight, bias);
  check_normalized("mpsx::layer_norm", input, shape, weight, bias);
  return run<"native_layer_norm">(input, shape, weight, bias, eps);
}

Gradients layer_norm_derivative(const BackwardCall& c) {
  const Stack all = run_all<"native_layer_norm_backward">(
      c.grad(), c.tensor(0), c.argument(1), c.result(1), c.result(2), c.argument(2), c.argument(3),
      std::vector<bool>{c.needs(0), c.needs(2), c.needs(3)});
  return {{0, all[0].toTensor()}, {2, all[1].toTensor()}, {3, all[2].toTensor()}};
}

Tensor rms_norm(const Tensor& input, c10::SymIntArrayRef shape, const MaybeTensor& weight, std::optional<double> eps) {
  check_same_device("mpsx::rms_norm", input, weight);
  check_normalized("mpsx::rms_norm", input, shape, weight, std::nullopt);
  return run<"native_rms_norm">(input, shape, weight, eps);
}

Gradients rms_norm_derivative(const BackwardCall& c) {
  const Stack all = run_all<"native_rms_norm_backward">(c.grad(), c.tensor(0), c.argument(1), c.result(1),
                                                        c.argument(2), std::vector<bool>{c.needs(0), c.needs(2)});
  return {{0, all[0].toTensor()}, {2, all[1].toTensor()}};
}

Tensor group_norm(const Tensor& input, int64_t groups, const MaybeTensor& weight, const MaybeTensor& bias, double eps) {
  check_same_device("mpsx::group_norm", input, weight, bias);
  TORCH_CHECK(input.dim() >= 2, "mpsx::group_norm: expected an input of at least two dimensions, got shape ",
              input.sym_sizes());
  const c10::SymInt channels = input.sym_size(1);
  TORCH_CHECK(groups > 0 && channels % groups == 0, "mpsx::group_norm: expected a number of channels divisible by ",
              groups, " groups, got ", channels);
  for (const MaybeTensor* t : {&weight, &bias})
    TORCH_CHECK(!*t || !(*t)->defined() || ((*t)->dim() == 1 && (*t)->sym_size(0) == channels),
                "mpsx::group_norm: expected a ", t == &weight ? "weight" : "bias", " of ", channels, " elements, got ",
                (*t)->sym_sizes());
  c10::SymInt inner = 1;
  for (const auto& size : input.sym_sizes().slice(2)) inner *= size;
  return run<"native_group_norm">(input, weight, bias, input.sym_size(0), channels, inner, groups, eps);
}

Gradients group_norm_derivative(const BackwardCall& c) {
  const Stack all = run_all<"native_group_norm_backward">(
      c.grad(), c.tensor(0), c.result(1), c.result(2), c.argument(1), c.argument(3), c.argument(4), c.argument(5),
      c.argument(6), std::vector<bool>{c.needs(0), c.needs(1), c.needs(2)});
  return {{0, all[0].toTensor()}, {1, all[1].toTensor()}, {2, all[2].toTensor()}};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  for (const Mirror& mirror : std::initializer_list<Mirror>{
           {"native_layer_norm", "native_layer_norm", "", Accepts::FLOATS},
           {"native_layer_norm_backward", "native_layer_norm_backward", "", Accepts::FLOATS},
           {"native_rms_norm", "_fused_rms_norm", "", Accepts::FLOATS},
           {"native_rms_norm_backward", "_fused_rms_norm_backward", "", Accepts::FLOATS},
           {"native_group_norm", "native_group_norm", "", Accepts::FLOATS},
           {"native_group_norm_backward", "native_group_norm_backward", "", Accepts::FLOATS},
       })
    mirror_aten(m, mirror);
  add_derivative(m, {"native_layer_norm", kept({0, 2, 3}), kept({1, 2}), &layer_norm_derivative});
  add_derivative(m, {"native_rms_norm", kept({0, 2}), kept({1}), &rms_norm_derivative});
  add_derivative(m, {"native_group_norm", kept({0, 1}), kept({1, 2}), &group_norm_derivative});
  for (const char* name : {"native_layer_norm_backward", "native_rms_norm_backward", "native_group_norm_backward"})
    add_not_differentiable(m, name);
  m.def("layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05)"
        " -> Tensor", &layer_norm, {at::Tag::pt2_compliant_tag});
  m.def("rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor", &rms_norm,
        {at::Tag::pt2_compliant_tag});
  m.def("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
        &group_norm, {at::Tag::pt2_compliant_tag});
}

}  // namespace mpsx::ops::explicit_ops
