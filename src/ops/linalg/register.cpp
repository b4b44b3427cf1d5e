// Registers the operators of torch.linalg. PyTorch's own implementations check the arguments, allocate the results, and
// call these launchers through dispatch stubs. On the host driver, LAPACK runs the operators directly.
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_det_native.h>
#include <ATen/ops/_linalg_slogdet_native.h>
#include <ATen/ops/_linalg_solve_ex_native.h>
#include <ATen/ops/cholesky_inverse_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/geqrf_native.h>
#include <ATen/ops/linalg_cholesky_ex_native.h>
#include <ATen/ops/linalg_householder_product_native.h>
#include <ATen/ops/linalg_inv_ex_native.h>
#include <ATen/ops/linalg_lu_factor_ex_native.h>
#include <ATen/ops/linalg_lu_native.h>
#include <ATen/ops/linalg_lu_solve_native.h>
#include <ATen/ops/linalg_qr_native.h>
#include <ATen/ops/linalg_solve_triangular_native.h>
#include <ATen/ops/lu_unpack_native.h>
#include <ATen/ops/triangular_solve_native.h>

#include "backend/fallback.h"
#include "backend/torch_version.h"
#if MPSX_HAS_CHOLESKY
#  include <ATen/ops/cholesky_native.h>
#endif
#include "ops/linalg/cholesky.h"
#include "ops/linalg/linalg.h"
#include "ops/operator.h"
#include "ops/structured.h"
#include "runtime/profile.h"
#include "vendor/cpu/vendor.h"

namespace mpsx::ops {
namespace {

using linalg::has_kernel;
using linalg::have_kernels;
namespace native = at::native;

// Runs PyTorch's structured implementation. Its meta function allocates or resizes the results.
template <typename Native, typename... Outs, typename... Arguments>
bool run(std::tuple<Outs&...> outs, const Arguments&... arguments) {
  return std::apply(
      [&](auto&... out) {
        Structured<Native, sizeof...(Outs)> op(out...);
        op.meta(arguments...);
        size_t i = 0;
        const std::array<Tensor, sizeof...(Outs)> results{(void(out), op.result(i++))...};
        std::apply([&](const auto&... result) { op.impl(arguments..., result...); }, results);
        return op.return_or_copy(out...);
      },
      outs);
}

bool cholesky_ex(const Tensor& self, bool upper, bool check_errors, Tensor& L, Tensor& info) {
  return has_kernel(self) &&
         run<native::structured_linalg_cholesky_ex_out>(std::tie(L, info), self, upper, check_errors);
}
bool lu_factor_ex(const Tensor& A, bool pivot, bool check_errors, Tensor& LU, Tensor& pivots, Tensor& info) {
  return has_kernel(A) &&
         run<native::structured_linalg_lu_factor_ex_out>(std::tie(LU, pivots, info), A, pivot, check_errors);
}
bool lu(const Tensor& A, bool pivot, Tensor& P, Tensor& L, Tensor& U) {
  return has_kernel(A) && run<native::structured_linalg_lu_out>(std::tie(P, L, U), A, pivot);
}
bool lu_unpack(const Tensor& LU, const Tensor& pivots, bool unpack_data, bool unpack_pivots, Tensor& P, Tensor& L,
               Tensor& U) {
  return (has_kernel(LU) || (is_plain(LU) && tag_of(LU) != Tag::none)) && is_plain(pivots) &&
         run<native::structured_lu_unpack_out>(std::tie(P, L, U), LU, pivots, unpack_data, unpack_pivots);
}
bool lu_solve(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left, bool adjoint, Tensor& out) {
  return have_kernels(LU, B) && is_plain(pivots) &&
         run<native::structured_linalg_lu_solve_out>(std::tie(out), LU, pivots, B, left, adjoint);
}
bool inv_ex(const Tensor& A, bool check_errors, Tensor& inverse, Tensor& info) {
  return has_kernel(A) && run<native::structured_linalg_inv_ex_out>(std::tie(inverse, info), A, check_errors);
}
bool solve_ex(const Tensor& A, const Tensor& B, bool left, bool check_errors, Tensor& result, Tensor& LU,
              Tensor& pivots, Tensor& info) {
  return have_kernels(A, B) && run<native::structured__linalg_solve_ex_out>(std::tie(result, LU, pivots, info), A, B,
                                                                            left, check_errors);
}
bool det(const Tensor& A, Tensor& result, Tensor& LU, Tensor& pivots) {
  return has_kernel(A) && run<native::structured__linalg_det_out>(std::tie(result, LU, pivots), A);
}
bool slogdet(const Tensor& A, Tensor& sign, Tensor& logabsdet, Tensor& LU, Tensor& pivots) {
  return has_kernel(A) && run<native::structured__linalg_slogdet_out>(std::tie(sign, logabsdet, LU, pivots), A);
}
bool qr(const Tensor& A, std::string_view mode, Tensor& Q, Tensor& R) {
  return has_kernel(A) && run<native::structured_linalg_qr_out>(std::tie(Q, R), A, mode);
}
bool triangular_solve(const Tensor& self, const Tensor& A, bool upper, bool transpose, bool unitriangular, Tensor& X,
                      Tensor& M) {
  return have_kernels(self, A) &&
         run<native::structured_triangular_solve_out>(std::tie(X, M), self, A, upper, transpose, unitriangular);
}

// The operators below are not structured.
bool solve_triangular(const Tensor& self, const Tensor& B, bool upper, bool left, bool unitriangular, Tensor& out) {
  if (!have_kernels(self, B)) return false;
  if (out.defined())
    native::linalg_solve_triangular_out(self, B, upper, left, unitriangular, out);
  else
    out = native::linalg_solve_triangular(self, B, upper, left, unitriangular);
  return true;
}
#if MPSX_HAS_CHOLESKY
bool cholesky(const Tensor& self, bool upper, Tensor& out) {
  if (!has_kernel(self)) return false;
  if (out.defined())
    native::cholesky_out(self, upper, out);
  else
    out = native::cholesky(self, upper);
  return true;
}
#endif
bool cholesky_inverse(const Tensor& self, bool upper, Tensor& out) {
  if (!has_kernel(self)) return false;
  if (out.defined())
    native::cholesky_inverse_out(self, upper, out);
  else
    out = native::cholesky_inverse(self, upper);
  return true;
}
bool householder_product(const Tensor& input, const Tensor& tau, Tensor& out) {
  if (!have_kernels(input, tau)) return false;
  if (out.defined())
    native::linalg_householder_product_out(input, tau, out);
  else
    out = native::linalg_householder_product(input, tau);
  return true;
}
bool geqrf(const Tensor& self, Tensor& a, Tensor& tau) {
  if (!has_kernel(self)) return false;
  if (a.defined())
    native::geqrf_out(self, a, tau);
  else
    std::tie(a, tau) = native::geqrf(self);
  return true;
}
// PyTorch has already broadcast the batch dimensions of self and A against each other.
bool cholesky_solve(const Tensor& self, const Tensor& A, bool upper, Tensor& out) {
  if (!have_kernels(self, A)) return false;
  Tensor result = at::empty_strided(self.sizes(), native::batched_matrix_contiguous_strides(self.sizes(), true),
                                    self.options());
  result.copy_(self);
  if (result.numel() > 0)
    linalg::solve_with_cholesky(linalg::matrices(A), linalg::written_matrices("cholesky_solve", result), upper);
  return return_or_copy("_cholesky_solve_helper", result, out);
}

// LAPACK supports neither integers nor 16-bit floats. For these, runs the CPU operator so that it raises its own error,
// even if the CPU fallback is disabled.
class WithCpuRefusal final : public c10::OperatorKernel {
 public:
  WithCpuRefusal(runtime::RouteEntry& route, c10::KernelFunction kernel) : route_(route), kernel_(std::move(kernel)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const {
    const Tensor& first = torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensor();
    const at::ScalarType type = at::toRealValueType(first.scalar_type());
    if (first.layout() == at::kStrided && type != at::kFloat && type != at::kDouble)
      backend::run_on_cpu(op, c10::DispatchKey::CPU, stack, route_, runtime::profiling);
    else
      kernel_.callBoxed(op, keys, stack);
  }

 private:
  runtime::RouteEntry& route_;
  c10::KernelFunction kernel_;
};

// Registers operators whose first argument is a matrix, with the CPU's errors for unsupported dtypes.
class Library {
 public:
  explicit Library(torch::Library& m) : library_(m, vendor::kLapack) {}

  Library& impl(const char* op, c10::KernelFunction kernel) {
    auto& route = runtime::route_entry(std::string("aten::") + op, runtime::Route::vendor, vendor::kLapack);
    library_.impl(op, c10::KernelFunction::makeFromBoxedFunctor(
                          std::make_unique<WithCpuRefusal>(route, std::move(kernel))));
    return *this;
  }

 private:
  vendor::Library library_;
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  vendor::Library(m, vendor::kLapack).impl("lu_unpack.out", out_form("lu_unpack", &lu_unpack));
  Library(m)
      .impl("linalg_cholesky_ex.L", out_form("linalg_cholesky_ex", &cholesky_ex))
      .impl("linalg_lu_factor_ex.out", out_form("linalg_lu_factor_ex", &lu_factor_ex))
      .impl("linalg_lu.out", out_form("linalg_lu", &lu))
      .impl("linalg_lu_solve.out", out_form("linalg_lu_solve", &lu_solve))
      .impl("linalg_inv_ex.inverse", out_form("linalg_inv_ex", &inv_ex))
      .impl("_linalg_solve_ex.result", out_form("_linalg_solve_ex", &solve_ex))
      .impl("_linalg_det.result", out_form("_linalg_det", &det))
      .impl("_linalg_slogdet.sign", out_form("_linalg_slogdet", &slogdet))
      .impl("linalg_qr.out", out_form("linalg_qr", &qr))
      .impl("triangular_solve.X", out_form("triangular_solve", &triangular_solve))
      .impl("linalg_solve_triangular", functional_form("linalg_solve_triangular", &solve_triangular))
      .impl("linalg_solve_triangular.out", out_form("linalg_solve_triangular", &solve_triangular))
#if MPSX_HAS_CHOLESKY
      .impl("cholesky", functional_form("cholesky", &cholesky))
      .impl("cholesky.out", out_form("cholesky", &cholesky))
#endif
      .impl("cholesky_inverse", functional_form("cholesky_inverse", &cholesky_inverse))
      .impl("cholesky_inverse.out", out_form("cholesky_inverse", &cholesky_inverse))
      .impl("linalg_householder_product", functional_form("linalg_householder_product", &householder_product))
      .impl("linalg_householder_product.out", out_form("linalg_householder_product", &householder_product))
      .impl("geqrf", functional_form("geqrf", &geqrf))
      .impl("geqrf.a", out_form("geqrf", &geqrf))
      .impl("_cholesky_solve_helper", functional_form("_cholesky_solve_helper", &cholesky_solve));
}

}  // namespace mpsx::ops
