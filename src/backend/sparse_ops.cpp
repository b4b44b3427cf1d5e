// Sparse operators that PyTorch implements for all devices by operating on indices and values. Its sparse CPU kernels
// also work for our tensors, because the operators that they call run on the device. Operators with CPU-only
// implementations are in src/ops/sparse/ or fall back.
#include <torch/library.h>

#include <string_view>

#include "backend/operator_info.h"
#include "backend/same_device.h"

namespace mpsx::backend {
namespace {

using c10::DispatchKey;
using torch::jit::Stack;

// On other backends, PyTorch's generated code checks the devices. Without this check, the kernels would silently accept
// tensors on different devices.
void check_devices(const OperatorInfo& facts, const Stack& stack) {
  SameDevice devices;
  for (size_t i = stack.size() - facts.arguments.size(); i < stack.size(); ++i) {
    const auto& value = stack[i];
    if (value.isTensor()) devices.add(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorList()) devices.add(t);
  }
  devices.check(facts.name);
}

template <DispatchKey cpu_key>
void call_cpu_kernel(const c10::OperatorHandle& op, Stack* stack) {
  const auto& facts = operator_info(op);
  if (!facts.accepts_mixed_devices) check_devices(facts, *stack);
  op.redispatchBoxed(c10::DispatchKeySet(cpu_key), stack);
}

// Operators that also have in-place and out= variants. A space follows every name.
constexpr std::string_view kUnary =
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac log1p neg rad2deg round sgn sign sin sinh "
    "sqrt tan tanh trunc ";

constexpr std::string_view kBoth =
    "_nnz _pin_memory _to_dense _to_sparse _to_sparse.sparse_dim _to_sparse_bsc _to_sparse_bsr _to_sparse_csc "
    "_to_sparse_csr add.Tensor add_.Tensor clone conj_physical.out copy_ dense_dim empty.memory_format empty_like "
    "is_pinned isinf isnan isneginf isneginf.out isposinf isposinf.out mm mm.out mul.Tensor mul_.Tensor relu relu_ "
    "resize_as_sparse_ signbit signbit.out sparse_dim sum sum.dim_IntList threshold_backward "
    "threshold_backward.grad_input values zero_ ";

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

// Conversions from dense tensors.
constexpr std::string_view kDense =
    "_to_sparse _to_sparse.sparse_dim _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr ";

template <DispatchKey cpu_key>
void register_all(torch::Library& m, std::string_view names, std::initializer_list<const char*> forms = {""}) {
  for (size_t end; (end = names.find(' ')) != names.npos; names.remove_prefix(end + 1))
    for (const char* form : forms)
      m.impl((std::string(names.substr(0, end)) + form).c_str(),
             torch::CppFunction::makeFromBoxedFunction<&call_cpu_kernel<cpu_key>>());
}

template <DispatchKey cpu_key>
void register_layout(torch::Library& m, std::string_view names) {
  register_all<cpu_key>(m, kUnary, {"", "_", ".out"});
  register_all<cpu_key>(m, kBoth);
  register_all<cpu_key>(m, names);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { register_all<DispatchKey::CPU>(m, kDense); }
TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) { register_layout<DispatchKey::SparseCPU>(m, kCoo); }
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) { register_layout<DispatchKey::SparseCsrCPU>(m, kCompressed); }

}  // namespace
}  // namespace mpsx::backend
