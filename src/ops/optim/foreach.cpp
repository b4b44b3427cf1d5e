// Operators on lists of tensors (torch._foreach_*), which torch.optim uses by default on this device. Lists of
// floating-point tensors with equal layouts use the list kernels generated from metal/optim/foreach.def. All other
// lists use PyTorch's composite implementations, which process one tensor at a time.
#include <ATen/CompositeExplicitAutogradFunctions.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "ops/operator.h"
#include "ops/optim/lists.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
using at::TensorList;
using ScalarList = at::ArrayRef<Scalar>;
using Tensors = std::vector<Tensor>;

// The scalar arguments of an operator: one for all tensors, or one per tensor.
class Scalars {
 public:
  // If `rounds` is true, first rounds the scalars to the tensors' dtype, like some of PyTorch's CPU kernels.
  Scalars(const Scalar& one, bool rounds = false) : one_(one), rounds_(rounds) {}
  Scalars(ScalarList many, bool rounds = false) : one_(0), many_(many), rounds_(rounds) {}
  float get(size_t tensor, at::ScalarType type) const {
    const float s = float((many_.empty() ? one_ : many_[tensor]).toDouble());
    if (!rounds_) return s;
    return type == at::kHalf ? float(at::Half(s)) : type == at::kBFloat16 ? float(at::BFloat16(s)) : s;
  }
  bool is_real() const {
    if (one_.isComplex()) return false;
    for (const Scalar& s : many_)
      if (s.isComplex()) return false;
    return true;
  }

 private:
  Scalar one_;
  ScalarList many_;
  bool rounds_;
};

Tensors empty_like(TensorList like) {
  Tensors out;
  out.reserve(like.size());
  for (const Tensor& t : like) out.push_back(at::empty_like(t));
  return out;
}

// Runs a kernel on `lists`: the output followed by the inputs. If the operator is in place, the first input is also the
// output and is listed only once. `value`, if given, is bound to buffer 29.
void run(const KernelSet& kernels, at::ArrayRef<TensorList> lists, bool in_place, const Scalars& scalars,
         const Tensor* value = nullptr) {
  const uint32_t buffers = value ? kListBuffers - 1 : kListBuffers;
  const at::ScalarType type = lists[0][0].scalar_type();
  runtime::KernelEntry& kernel = kernels.get(tag_of(type));
  for_each_batch(
      lists,
      [&](ListBatch& batch) {
        batch.params.input = in_place ? 0 : 1;
        for (uint32_t t = 0; t < batch.params.tensors; ++t) batch.params.scalar[t] = scalars.get(batch.index[t], type);
        Launch launch(kernel);
        batch.bind(launch, 1, buffers);
        if (value) launch.pointer(value->const_data_ptr());
        batch.over_chunks(launch.bytes(batch.params)).run();
      },
      buffers);
}

// run_new returns the results as a new list, and run_in_place writes them to the first input. If the list kernels do
// not support the arguments, they return nullopt or false.
template <typename... Lists>
std::optional<Tensors> run_new(const KernelSet& kernels, const Scalars& scalars, const Tensor* value, TensorList self,
                               Lists... others) {
  if (!scalars.is_real() || !fits_list_kernels({self, others...})) return std::nullopt;
  Tensors out = empty_like(self);
  run(kernels, {TensorList(out), self, others...}, false, scalars, value);
  return out;
}
template <typename... Lists>
bool run_in_place(const KernelSet& kernels, const Scalars& scalars, const Tensor* value, TensorList self,
                  Lists... others) {
  if (!scalars.is_real() || !fits_list_kernels({self, others...})) return false;
  run(kernels, {self, others...}, true, scalars, value);
  for (const Tensor& t : self) t.unsafeGetTensorImpl()->bump_version();  // PyTorch leaves this to the backend
  return true;
}

// Defines the name and the composite implementations of an operator in the table.
#define MPSX_FOREACH_OP(NAME)                                      \
  struct NAME##_op {                                               \
    static constexpr const char* name = "_foreach_" #NAME;         \
    template <typename... A>                                       \
    static Tensors slow(const A&... a) {                           \
      return at::compositeexplicitautograd::_foreach_##NAME(a...); \
    }                                                              \
    template <typename... A>                                       \
    static void slow_(const A&... a) {                             \
      at::compositeexplicitautograd::_foreach_##NAME##_(a...);     \
    }                                                              \
  };
#define MPSX_FOREACH_UNARY(NAME, ...) MPSX_FOREACH_OP(NAME)
#define MPSX_FOREACH_BINARY(NAME, ...) MPSX_FOREACH_OP(NAME)
#define MPSX_FOREACH_SCALED(NAME, ...) MPSX_FOREACH_OP(NAME)
#define MPSX_FOREACH_POINTWISE(NAME, ...) MPSX_FOREACH_OP(NAME)
#include "optim/foreach.def"
#undef MPSX_FOREACH_UNARY
#undef MPSX_FOREACH_BINARY
#undef MPSX_FOREACH_SCALED
#undef MPSX_FOREACH_POINTWISE
MPSX_FOREACH_OP(lerp)

template <typename Op>
constexpr bool rounds = std::is_same_v<Op, add_op> || std::is_same_v<Op, sub_op> || std::is_same_v<Op, pow_op>;

enum class Form { unary, scalar, value, list, pointwise };
template <typename Op, Form F>
const KernelSet& kernels() {
  static const KernelSet set(std::string(Op::name + 1) + (F == Form::scalar  ? "_scalar"
                                                          : F == Form::value ? "_value"
                                                          : F == Form::list  ? "_list"
                                                                             : ""));
  return set;
}

template <typename Op>
struct Unary {
  static Tensors call(TensorList self) {
    at::native::check_foreach_api_restrictions(self);
    if (auto out = run_new(kernels<Op, Form::unary>(), Scalar(), nullptr, self)) return *out;
    return Op::slow(self);
  }
  static void call_(TensorList self) {
    at::native::check_foreach_api_restrictions(self);
    if (!run_in_place(kernels<Op, Form::unary>(), Scalar(), nullptr, self)) Op::slow_(self);
  }
};

template <typename Op>
struct WithScalar {
  static Tensors call(TensorList self, const Scalar& y) {
    at::native::check_foreach_api_restrictions(self);
    if (auto out = run_new(kernels<Op, Form::scalar>(), {y, rounds<Op>}, nullptr, self)) return *out;
    return Op::slow(self, y);
  }
  static void call_(TensorList self, const Scalar& y) {
    at::native::check_foreach_api_restrictions(self);
    if (!run_in_place(kernels<Op, Form::scalar>(), {y, rounds<Op>}, nullptr, self)) Op::slow_(self, y);
  }
};

template <typename Op>
struct WithScalars {
  static Tensors call(TensorList self, ScalarList y) {
    at::native::check_foreach_api_restrictions(self, y);
    if (auto out = run_new(kernels<Op, Form::scalar>(), {y, rounds<Op>}, nullptr, self)) return *out;
    return Op::slow(self, y);
  }
  static void call_(TensorList self, ScalarList y) {
    at::native::check_foreach_api_restrictions(self, y);
    if (!run_in_place(kernels<Op, Form::scalar>(), {y, rounds<Op>}, nullptr, self)) Op::slow_(self, y);
  }
};

// `Alpha` is empty, or the Scalar that multiplies the second operand.
template <typename Op, typename... Alpha>
struct WithList {
  static Tensors call(TensorList self, TensorList other, const Alpha&... alpha) {
    at::native::check_foreach_api_restrictions(self, other);
    if (auto out = run_new(kernels<Op, Form::list>(), alpha_of(alpha...), nullptr, self, other)) return *out;
    return Op::slow(self, other, alpha...);
  }
  static void call_(TensorList self, TensorList other, const Alpha&... alpha) {
    at::native::check_foreach_api_restrictions(self, other);
    if (!run_in_place(kernels<Op, Form::list>(), alpha_of(alpha...), nullptr, self, other))
      Op::slow_(self, other, alpha...);
  }
  static Scalars alpha_of() { return Scalar(1); }
  static Scalars alpha_of(const Scalar& alpha) { return {alpha, rounds<Op>}; }
};

// The second operand is a one-element tensor. A CPU tensor is converted to a scalar; a device tensor is read by the
// kernel.
template <typename Op, typename... Alpha>
struct WithTensor {
  static bool on_device(TensorList self, const Tensor& other) {
    return is_plain(other) && other.numel() == 1 && other.scalar_type() == self[0].scalar_type();
  }
  static Tensors call(TensorList self, const Tensor& other, const Alpha&... alpha) {
    at::native::check_foreach_api_restrictions(self);
    if (on_device(self, other))
      if (auto out = run_new(kernels<Op, Form::value>(), WithList<Op, Alpha...>::alpha_of(alpha...), &other, self))
        return *out;
    return Op::slow(self, other, alpha...);
  }
  static void call_(TensorList self, const Tensor& other, const Alpha&... alpha) {
    at::native::check_foreach_api_restrictions(self);
    if (!on_device(self, other) ||
        !run_in_place(kernels<Op, Form::value>(), WithList<Op, Alpha...>::alpha_of(alpha...), &other, self))
      Op::slow_(self, other, alpha...);
  }
};

template <typename Op>
struct Pointwise {
  static Tensors call(TensorList self, TensorList y, TensorList z, const Scalar& s) {
    at::native::check_foreach_api_restrictions(self, y, z);
    if (auto out = run_new(kernels<Op, Form::pointwise>(), s, nullptr, self, y, z)) return *out;
    return Op::slow(self, y, z, s);
  }
  static void call_(TensorList self, TensorList y, TensorList z, const Scalar& s) {
    at::native::check_foreach_api_restrictions(self, y, z);
    if (!run_in_place(kernels<Op, Form::pointwise>(), s, nullptr, self, y, z)) Op::slow_(self, y, z, s);
  }
  static Tensors call_each(TensorList self, TensorList y, TensorList z, ScalarList s) {
    at::native::check_foreach_api_restrictions(self, y, z, s);
    if (auto out = run_new(kernels<Op, Form::pointwise>(), s, nullptr, self, y, z)) return *out;
    return Op::slow(self, y, z, s);
  }
  static void call_each_(TensorList self, TensorList y, TensorList z, ScalarList s) {
    at::native::check_foreach_api_restrictions(self, y, z, s);
    if (!run_in_place(kernels<Op, Form::pointwise>(), s, nullptr, self, y, z)) Op::slow_(self, y, z, s);
  }
  static Tensors call_packed(TensorList self, TensorList y, TensorList z, const Tensor& s) {
    return call_each(self, y, z, at::native::convert_tensor_to_scalar_list(s, self.size()));
  }
  static void call_packed_(TensorList self, TensorList y, TensorList z, const Tensor& s) {
    call_each_(self, y, z, at::native::convert_tensor_to_scalar_list(s, self.size()));
  }
};

// The weight of lerp is one scalar, one scalar per tensor, or a third list of tensors.
Tensors lerp_list(TensorList self, TensorList end, TensorList weight) {
  at::native::check_foreach_api_restrictions(self, end, weight);
  if (auto out = run_new(kernels<lerp_op, Form::list>(), Scalar(), nullptr, self, end, weight)) return *out;
  return lerp_op::slow(self, end, weight);
}
void lerp_list_(TensorList self, TensorList end, TensorList weight) {
  at::native::check_foreach_api_restrictions(self, end, weight);
  if (!run_in_place(kernels<lerp_op, Form::list>(), Scalar(), nullptr, self, end, weight))
    lerp_op::slow_(self, end, weight);
}
Tensors lerp_scalar(TensorList self, TensorList end, const Scalar& weight) {
  at::native::check_foreach_api_restrictions(self, end);
  if (auto out = run_new(kernels<lerp_op, Form::scalar>(), weight, nullptr, self, end)) return *out;
  return lerp_op::slow(self, end, weight);
}
void lerp_scalar_(TensorList self, TensorList end, const Scalar& weight) {
  at::native::check_foreach_api_restrictions(self, end);
  if (!run_in_place(kernels<lerp_op, Form::scalar>(), weight, nullptr, self, end)) lerp_op::slow_(self, end, weight);
}
Tensors lerp_scalars(TensorList self, TensorList end, ScalarList weight) {
  at::native::check_foreach_api_restrictions(self, end, weight);
  if (auto out = run_new(kernels<lerp_op, Form::scalar>(), weight, nullptr, self, end)) return *out;
  return lerp_op::slow(self, end, weight);
}
void lerp_scalars_(TensorList self, TensorList end, ScalarList weight) {
  at::native::check_foreach_api_restrictions(self, end, weight);
  if (!run_in_place(kernels<lerp_op, Form::scalar>(), weight, nullptr, self, end)) lerp_op::slow_(self, end, weight);
}

void zero_(TensorList self) {
  static const KernelSet zero("foreach_zero");
  at::native::check_foreach_api_restrictions(self);
  if (!run_in_place(zero, Scalar(), nullptr, self)) at::compositeexplicitautograd::_foreach_zero_(self);
}

void copy_(TensorList self, TensorList source, bool non_blocking) {
  static const KernelSet copy("foreach_copy");
  at::native::check_foreach_api_restrictions(self, source);
  if (!fits_list_kernels({self, source}))
    return at::compositeexplicitautograd::_foreach_copy_(self, source, non_blocking);
  run(copy, {self, source}, false, Scalar());
  for (const Tensor& t : self) t.unsafeGetTensorImpl()->bump_version();
}

template <typename Op>
void register_binary(torch::Library& m) {
  const std::string name = Op::name;
  impl(m, name + ".Scalar", &WithScalar<Op>::call);
  impl(m, name + "_.Scalar", &WithScalar<Op>::call_);
  impl(m, name + ".ScalarList", &WithScalars<Op>::call);
  impl(m, name + "_.ScalarList", &WithScalars<Op>::call_);
}

template <typename Op, typename... Alpha>
void register_lists(torch::Library& m) {
  const std::string name = Op::name;
  impl(m, name + ".List", &WithList<Op, Alpha...>::call);
  impl(m, name + "_.List", &WithList<Op, Alpha...>::call_);
}

template <typename Op, typename... Alpha>
void register_tensor(torch::Library& m) {
  const std::string name = Op::name;
  impl(m, name + ".Tensor", &WithTensor<Op, Alpha...>::call);
  impl(m, name + "_.Tensor", &WithTensor<Op, Alpha...>::call_);
}

template <typename Op>
void register_pointwise(torch::Library& m) {
  const std::string name = Op::name;
  impl(m, name + ".Scalar", &Pointwise<Op>::call);
  impl(m, name + "_.Scalar", &Pointwise<Op>::call_);
  impl(m, name + ".ScalarList", &Pointwise<Op>::call_each);
  impl(m, name + "_.ScalarList", &Pointwise<Op>::call_each_);
  impl(m, name + ".Tensor", &Pointwise<Op>::call_packed);
  impl(m, name + "_.Tensor", &Pointwise<Op>::call_packed_);
}

template <typename Op>
void register_unary(torch::Library& m) {
  impl(m, Op::name, &Unary<Op>::call);
  impl(m, std::string(Op::name) + "_", &Unary<Op>::call_);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define MPSX_FOREACH_UNARY(NAME, ...) register_unary<NAME##_op>(m);
#define MPSX_FOREACH_BINARY(NAME, ...) register_binary<NAME##_op>(m), register_lists<NAME##_op>(m);
#define MPSX_FOREACH_SCALED(NAME, ...) register_binary<NAME##_op>(m), register_lists<NAME##_op, Scalar>(m);
#define MPSX_FOREACH_POINTWISE(NAME, ...) register_pointwise<NAME##_op>(m);
#include "optim/foreach.def"
  register_tensor<add_op, Scalar>(m);
  register_tensor<mul_op>(m);
  register_tensor<div_op>(m);
  impl(m, "_foreach_lerp.List", &lerp_list);
  impl(m, "_foreach_lerp_.List", &lerp_list_);
  impl(m, "_foreach_lerp.Scalar", &lerp_scalar);
  impl(m, "_foreach_lerp_.Scalar", &lerp_scalar_);
  impl(m, "_foreach_lerp.ScalarList", &lerp_scalars);
  impl(m, "_foreach_lerp_.ScalarList", &lerp_scalars_);
  impl(m, "_foreach_zero_", &zero_);
  impl(m, "_foreach_copy_", &copy_);
}

}  // namespace mpsx::ops
