// Sparse operators that torch implements once for all devices, by what they do to indices and values: the kernels that
// it registers for the CPU's sparse tensors serve ours, and what they call comes back to the device's own operators.
// What it implements for the CPU alone is in src/ops/sparse*.cpp, or falls back.
#include <torch/library.h>

#include <string_view>

#include "backend/operator_facts.h"
#include "backend/same_device.h"

namespace mpsx::backend {
namespace {

using c10::DispatchKey;
using torch::jit::Stack;

// As the generated code of other devices does: their kernels would silently mix what they are given.
void check_devices(const OperatorFacts& facts, const Stack& stack) {
  SameDevice seen;
  for (size_t i = stack.size() - facts.arguments.size(); i < stack.size(); ++i) {
    const auto& value = stack[i];
    if (value.isTensor()) seen.see(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorList()) seen.see(t);
  }
  seen.check(facts.name);
}

template <DispatchKey cpu_key>
void on_parts(const c10::OperatorHandle& op, Stack* stack) {
  const auto& facts = facts_of(op);
  if (!facts.takes_mixed_devices) check_devices(facts, *stack);
  op.redispatchBoxed(c10::DispatchKeySet(cpu_key), stack);
}

// Each name is followed by a space.
constexpr std::string_view kBoth =
    "_nnz _pin_memory _to_dense _to_sparse _to_sparse.sparse_dim _to_sparse_bsc _to_sparse_bsr _to_sparse_csc "
    "_to_sparse_csr abs abs.out abs_ add.Tensor add_.Tensor asin asin.out asin_ asinh asinh.out asinh_ atan "
    "atan.out atan_ atanh atanh.out atanh_ ceil ceil.out ceil_ clone conj_physical.out copy_ deg2rad deg2rad.out "
    "deg2rad_ dense_dim empty.memory_format empty_like erf erf.out erf_ erfinv erfinv.out erfinv_ expm1 "
    "expm1.out expm1_ floor floor.out floor_ frac frac.out frac_ is_pinned isinf isnan isneginf isneginf.out "
    "isposinf isposinf.out log1p log1p.out log1p_ mm mm.out mul.Tensor mul_.Tensor neg neg.out neg_ rad2deg "
    "rad2deg.out rad2deg_ relu relu_ resize_as_sparse_ round round.out round_ sgn sgn.out sgn_ sign sign.out "
    "sign_ signbit signbit.out sin sin.out sin_ sinh sinh.out sinh_ sparse_dim sqrt sqrt.out sqrt_ sum "
    "sum.dim_IntList tan tan.out tan_ tanh tanh.out tanh_ threshold_backward threshold_backward.grad_input trunc "
    "trunc.out trunc_ values zero_ ";

constexpr std::string_view kCoo =
    "_coalesced_ _dimI _dimV _indices _sparse_broadcast_to _sparse_coo_tensor_with_dims "
    "_sparse_coo_tensor_with_dims_and_tensors _values any cat copy_sparse_to_sparse_ div.Tensor div.Tensor_mode "
    "div.out div.out_mode div_.Tensor div_.Tensor_mode floor_divide floor_divide.out floor_divide_.Tensor "
    "indices is_coalesced mv nan_to_num nan_to_num.out nan_to_num_ narrow_copy native_norm "
    "native_norm.ScalarOpt_dim_dtype norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype permute pow.Tensor_Scalar "
    "pow.Tensor_Scalar_out sparse_resize_ sparse_resize_and_clear_ sub.Tensor sub.out sub_.Tensor unsqueeze "
    "view_as_complex view_as_real zeros.out ";

constexpr std::string_view kCompressed =
    "_conj_physical addmm angle angle.out ccol_indices col_indices conj_physical_ crow_indices fill_.Scalar "
    "mul.Scalar mul.out mul_.Scalar normal_ resize_ row_indices select.int select_copy.int sparse_mask ";

// From dense tensors.
constexpr std::string_view kDense =
    "_to_sparse _to_sparse.sparse_dim _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr ";

template <DispatchKey cpu_key>
void register_all(torch::Library& m, std::string_view names) {
  while (!names.empty()) {
    const size_t end = names.find(' ');
    m.impl(std::string(names.substr(0, end)).c_str(), torch::CppFunction::makeFromBoxedFunction<&on_parts<cpu_key>>());
    names.remove_prefix(end + 1);
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { register_all<DispatchKey::CPU>(m, kDense); }

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  register_all<DispatchKey::SparseCPU>(m, kBoth);
  register_all<DispatchKey::SparseCPU>(m, kCoo);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  register_all<DispatchKey::SparseCsrCPU>(m, kBoth);
  register_all<DispatchKey::SparseCsrCPU>(m, kCompressed);
}

}  // namespace
}  // namespace mpsx::backend
