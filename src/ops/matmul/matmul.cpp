// Launches the kernels in metal/matmul/matmul.metal.
#include "ops/matmul/matmul.h"

#include <ATen/Context.h>
#include <ATen/ops/_addmm_activation_meta.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_meta.h>
#include <ATen/ops/view_as_real.h>

#include "lib/row_params.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/gemm_args.h"
#include "ops/matmul/tensor_tier.h"
#include "ops/operator.h"
#include "ops/structured.h"
#include "vendor/cpu/vendor.h"

namespace mpsx::ops {
namespace {

using at::Scalar;

const MatmulKernels& plain_kernels() {
  static const MatmulKernels k{KernelSet("matmul"), KernelSet("gemv"), KernelSet("gemv_t")};
  return k;
}

// Copies an operand that kernels cannot load in 16-byte vectors, if enough tiles read it for the copy to pay off.
// `tiled` is the size of the output along the other operand: N for a, M for b.
void align(Tensor& operand, MatmulStrides& strides, uint32_t& vectorized, uint64_t tiled) {
  constexpr uint64_t kManyTiles = 8;
  const bool repeats = operand.dim() == 3 && operand.size(0) > 1 && operand.stride(0) == 0;
  if (vectorized || repeats || operand.dim() < 2 || tiled < kManyTiles * kTile64) return;
  const bool transposed = operand.stride(-1) != 1 && operand.stride(-2) == 1;
  const Tensor rows = transposed ? operand.transpose(-2, -1) : operand;
  const int64_t width = rows.size(-1);
  auto size = rows.sizes().vec();
  size.back() = round_up_to_vector(width, rows);
  const Tensor copy = at::empty(size, rows.options().memory_format(std::nullopt)).narrow(-1, 0, width).copy_(rows);
  operand = transposed ? copy.transpose(-2, -1) : copy;
  strides = matmul_strides(operand);
  vectorized = 1;
}

void launch_tiled(GemmArgs& args) {
  static const KernelSet tile128_kernels("matmul_128");
  MatmulParams& p = args.p;
  const bool one_type = args.a.scalar_type() == args.b.scalar_type();
  const bool tile128 = one_type && prefers_tile128(p.M, p.N, args.batch, args.a.element_size());
  const uint64_t threads = gemm_threads(p.M, p.N, args.batch);
  const Tensor partials = args.set_split_k(tile128 ? SplitK{1, p.K} : choose_split_k(threads, p.K));
  Launch l(args.of(tile128 ? tile128_kernels : args.kernels.tiled));
  args.bind(l).outputs(partials);
  set_gemm_grid(l, p.M, p.N, args.batch * p.split_k, p.k_per_split, tile128).run();
  args.reduce_split_k(partials);
}

// Launches a GEMV for a matrix b whose columns are contiguous. Each output element is a dot product of contiguous
// vectors.
void launch_gemv(GemmArgs& args) {
  MatmulParams& p = args.p;
  runtime::KernelEntry& kernel = args.of(args.kernels.gemv);
  const uint64_t vec = std::max<uint64_t>(1, 16 / args.b.element_size());
  const runtime::LaneGroups lane_groups =
      runtime::lane_groups_for(kernel, uint64_t(p.N) * p.M * args.batch, p.K, vec, kRegisterElements);
  p.row_threads = lane_groups.lanes;
  args.set_split_k({1, p.K});
  Launch l(kernel);
  args.bind(l);
  l.groups({uint32_t(ceil_div(p.N, lane_groups.rows_per_threadgroup)), p.M, uint32_t(args.batch)},
           lane_groups.threadgroup_size);
  l.work((p.K + 16) * lane_groups.rows_per_threadgroup).run();
}

// Launches the GEMV for 8-bit weights that can be loaded in vectors, or returns false for other weights.
bool launch_gemv_int8(GemmArgs& args) {
  static const KernelSet kernels("gemv_int8_vectors");
  constexpr uint64_t kVec = 16;
  MatmulParams& p = args.p;
  if (args.b.scalar_type() != at::kChar || !is_float_tag(tag_of(args.out)) || !p.vectorize_a || !p.vectorize_b ||
      p.a.column != 1 || p.b.row != 1 || p.K % kVec != 0)
    return false;
  runtime::KernelEntry& kernel = kernels.get(tag_of(args.out));
  const auto lane_groups = gemv_int_lane_groups(kernel, p.M, p.N, p.K / kVec);
  p.row_threads = lane_groups.lanes;
  const uint64_t rows = uint64_t(lane_groups.rows_per_threadgroup) * kGemvRows;
  Launch l(kernel);
  args.bind(l).groups({uint32_t(ceil_div(p.N, rows)), p.M}, lane_groups.threadgroup_size);
  l.work((p.K + 16) * rows).run();
  return true;
}

// Launches a GEMV for a matrix b whose rows are contiguous.
void launch_gemv_t(GemmArgs& args) {
  const MatmulParams& p = args.p;
  const uint64_t blocks = ceil_div(p.N, kGemvColumns), threads = blocks * p.M * args.batch * kGemvColumns;
  const bool can_split = is_float_tag(tag_of(args.out));
  const Tensor partials =
      args.set_split_k(can_split ? choose_split_k(threads, p.K, runtime::tuning().gemv_split_k) : SplitK{1, p.K});
  Launch l(args.of(args.kernels.gemv_t));
  args.bind(l).outputs(partials);
  l.groups({uint32_t(blocks), p.M, uint32_t(args.batch) * p.split_k}, kGemvColumns);
  l.work(uint64_t(p.k_per_split + 1) * std::min<uint32_t>(p.N, kGemvColumns)).run();
  args.reduce_split_k(partials);
}

void launch(const MatmulKernels& kernels, Tag from, const Tensor& out, const Tensor& a, const Tensor& b,
            const Tensor& c, const Tensor& scale, MatmulParams p) {
  if (out.numel() == 0) return;
  GemmArgs args{kernels, from, out, a, b, c, scale, p, out.dim() == 3 ? uint64_t(out.size(0)) : 1};
  MatmulParams& q = args.p;
  // Compute a single output column as a row of the transposed GEMM.
  if (q.N == 1 && q.M > 1 && !q.has_scale) args.transpose();
  if (q.M == 1) q.a.row = 0;
  q.vectorize_a = is_vectorizable(args.a.const_data_ptr(), args.a.element_size(), q.a.row, q.a.column, q.a.batch);
  q.vectorize_b = is_vectorizable(args.b.const_data_ptr(), args.b.element_size(), q.b.column, q.b.row, q.b.batch);
  if (is_float_tag(tag_of(out)) && q.M > 1) {
    if (args.a.scalar_type() == args.b.scalar_type()) {  // mixed types are converted element by element
      align(args.a, q.a, q.vectorize_a, q.N);
      align(args.b, q.b, q.vectorize_b, q.M);
    }
    if (!launch_tensor_tier(args)) launch_tiled(args);
  } else if (q.b.row == 1 || q.b.column != 1 || q.has_scale) {
    if (!launch_gemv_int8(args)) launch_gemv(args);
  } else {
    launch_gemv_t(args);
  }
}

MatmulParams params_of(const Tensor& out, const Tensor& a, const Tensor& b, const GemmEpilogue& epilogue) {
  TORCH_CHECK(std::max({out.size(-1), out.size(-2), a.size(-1), out.size(0)}) <= int64_t(INT32_MAX),
              "matmul: expected sizes below 2^31, got ", a.sizes(), " and ", b.sizes());
  MatmulParams p{};
  p.a = matmul_strides(a);
  p.b = matmul_strides(b);
  p.out = matmul_strides(out);
  p.M = uint32_t(out.size(-2));
  p.N = uint32_t(out.size(-1));
  p.K = uint32_t(a.size(-1));
  p.activation = epilogue.activation;
  set_alpha_beta(p, out, epilogue.alpha, epilogue.beta);
  return p;
}

// Implements mm and bmm.
template <typename Meta>
bool matmul(const Tensor& self, const Tensor& mat2, Tensor& out) {
  if (!all_have_matmul_kernels(self, mat2)) return false;
  Structured<Meta> outputs(out);
  outputs.meta(self, mat2);
  check_same_dtype(self, mat2);
  gemm(outputs.result(), self, mat2);
  return outputs.return_or_copy(out);
}

// Runs the GEMM of an operator such as addmm. Its meta function has allocated the output and checked everything except
// the dtypes.
template <typename Outputs>
bool addmm_into(const Outputs& outputs, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                const Scalar& alpha, Tensor& out, uint32_t activation = kActivationNone) {
  check_same_dtype(a, b);
  check_self_dtype(self, a);
  gemm(outputs.result(), a, b, {alpha, beta, self.expand(outputs.result().sizes()), activation});
  return outputs.return_or_copy(out);
}

// Implements addmm and baddbmm.
template <typename Meta>
bool addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, Tensor& out) {
  if (!all_have_matmul_kernels(self, a, b)) return false;
  Structured<Meta> outputs(out);
  outputs.meta(self, a, b, beta, alpha);
  return addmm_into(outputs, self, a, b, beta, alpha, out);
}

bool addmm_activation(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                      const Scalar& alpha, bool use_gelu, Tensor& out) {
  if (!all_have_matmul_kernels(self, mat1, mat2) || !is_float_tag(tag_of(self))) return false;
  Structured<at::meta::structured__addmm_activation> outputs(out);
  outputs.meta(self, mat1, mat2, beta, alpha, use_gelu);
  return addmm_into(outputs, self, mat1, mat2, beta, alpha, out, use_gelu ? kActivationGelu : kActivationRelu);
}

// Computes addbmm as a single GEMM, in which the batch is folded into K.
bool addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha,
            Tensor& out) {
  if (!all_have_matmul_kernels(self, batch1, batch2)) return false;
  TORCH_CHECK(batch1.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(batch2.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(batch1.size(0) == batch2.size(0), "batch1 and batch2 must have same number of batches, got ",
              batch1.size(0), " and ", batch2.size(0));
  TORCH_CHECK(batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (", batch1.size(1), "x",
              batch1.size(2), " and ", batch2.size(1), "x", batch2.size(2), ")");
  check_same_dtype(batch1, batch2);
  check_self_dtype(self, batch1);
  TORCH_CHECK(accepts(out, self.scalar_type()), "addbmm: expected out of type ", self.scalar_type(), ", got ",
              out.scalar_type());
  const int64_t M = batch1.size(1), N = batch2.size(2), K = batch1.size(0) * batch1.size(2);
  const Tensor c = self.expand({M, N});
  const bool fresh = !out.defined() || (out.is_same(self) && out.sizes() != c.sizes());
  const Tensor result = fresh ? at::empty(c.sizes(), c.options()) : out;
  if (!fresh) allocate_or_resize(out, c.sizes(), c.options());
  gemm(result, batch1.permute({1, 0, 2}).reshape({M, K}), batch2.reshape({K, N}), {alpha, beta, c});
  if (!out.defined())
    out = result;
  else if (fresh)  // as on the CPU, an in-place call may resize self
    out.resize_(c.sizes()).copy_(result);
  return true;
}

bool int_mm(const Tensor& self, const Tensor& mat2, Tensor& out) {
  TORCH_CHECK(self.dim() == 2, "Expected self to be of dimension 2 but got ", self.dim());
  TORCH_CHECK(mat2.dim() == 2, "Expected mat2 to be of dimension 2 but got ", mat2.dim());
  TORCH_CHECK(self.size(1) == mat2.size(0), "self.size(1) needs to match mat2.size(0) but got ", self.size(1), " and ",
              mat2.size(0));
  TORCH_CHECK(self.scalar_type() == at::kChar, "Expected self dtype to be of type int8 but got ", self.dtype());
  TORCH_CHECK(mat2.scalar_type() == at::kChar, "Expected mat2 dtype to be of type int8 but got ", mat2.dtype());
  TORCH_CHECK(accepts(out, at::kInt), "Expected result dtype to be of type kInt but got ", out.dtype());
  if (!all_have_matmul_kernels(self, mat2)) return false;
  const int64_t sizes[] = {self.size(0), mat2.size(1)};
  allocate_or_resize(out, sizes, self.options().dtype(at::kInt));
  launch(plain_kernels(), Tag::i8, out, self, mat2, Tensor(), Tensor(), params_of(out, self, mat2, {}));
  return true;
}

// The weight is an N x K int8 matrix with one scale per row.
std::optional<Tensor> weight_int8pack_mm(const Tensor& self, const Tensor& weight, const Tensor& scales) {
  static const MatmulKernels kernels{KernelSet("matmul_int8"), KernelSet("gemv_int8"), KernelSet("gemv_int8")};
  TORCH_CHECK(is_float_tag(tag_of(self)) && self.dim() == 2,
              "_weight_int8pack_mm: expected self to be a matrix of float32, float16 or bfloat16, got ",
              self.scalar_type(), " ", self.sizes());
  TORCH_CHECK(weight.scalar_type() == at::kChar && weight.dim() == 2 && weight.size(1) == self.size(1),
              "_weight_int8pack_mm: expected a weight of int8 and size [N, ", self.size(1), "], got ",
              weight.scalar_type(), " ", weight.sizes());
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == weight.size(0), "_weight_int8pack_mm: expected scales of size [",
              weight.size(0), "], got ", scales.sizes());
  if (!all_have_matmul_kernels(self, weight, scales) || scales.scalar_type() != self.scalar_type()) return std::nullopt;
  const Tensor out = at::empty({self.size(0), weight.size(0)}, self.options());
  MatmulParams p = params_of(out, self, weight.t(), {});
  p.has_scale = 1;
  p.scale = scales.stride(0);
  launch(kernels, Tag::none, out, self, weight, Tensor(), scales, p);
  return out;
}

// Computes four real GEMMs from the real and imaginary parts. The parts are made dense, because sums over contiguous
// elements are more accurate.
void complex_gemm(const Tensor& out, const Tensor& a, const Tensor& b, const GemmEpilogue& epilogue) {
  const auto real_and_imaginary = [](const Tensor& t) {
    const Tensor parts = at::view_as_real(t);
    return std::pair(parts.select(-1, 0), parts.select(-1, 1));
  };
  const Tensor result = at::empty(out.sizes(), out.options());
  const auto [real, imaginary] = real_and_imaginary(result);
  const auto dense_parts = [&](const Tensor& t) {
    const auto [x, y] = real_and_imaginary(t.resolve_conj());
    return std::pair(x.contiguous(), y.contiguous());
  };
  const auto [a_real, a_imaginary] = dense_parts(a);
  const auto [b_real, b_imaginary] = dense_parts(b);
  gemm(real, a_real, b_real);
  gemm(real, a_imaginary, b_imaginary, {-1, 1, real});
  gemm(imaginary, a_real, b_imaginary);
  gemm(imaginary, a_imaginary, b_real, {1, 1, imaginary});
  if (!epilogue.alpha.equal(1)) result.mul_(epilogue.alpha);
  if (!epilogue.beta.equal(0)) result.add_(epilogue.c, epilogue.beta);
  out.copy_(result);
}

}  // namespace

runtime::LaneGroups gemv_int_lane_groups(const runtime::KernelEntry& kernel, uint32_t M, uint32_t N, uint64_t blocks) {
  const uint64_t rows = ceil_div(N, kGemvRows) * M;
  // Each thread multiplies several blocks only if there are more blocks than threads run at the same time.
  const uint64_t per_thread = rows * blocks / uint64_t(runtime::target_resident_threads());
  return runtime::lane_groups_for(kernel, rows, blocks, 1, std::clamp<uint64_t>(per_thread, 1, kGemvRows));
}

void set_alpha_beta(MatmulParams& p, const Tensor& out, const Scalar& alpha, const Scalar& beta) {
  if (is_float_tag(tag_of(out))) {
    p.alpha = alpha.to<float>();
    p.beta = beta.to<float>();
    p.has_c = p.beta != 0;
  } else {
    p.alpha_int = alpha.to<int64_t>();
    p.beta_int = beta.to<int64_t>();
    p.has_c = p.beta_int != 0;
  }
}

void launch_gemm(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c, const MatmulParams& p) {
  launch(plain_kernels(), Tag::none, out, a, b, c, Tensor(), p);
}

void gemm(const Tensor& out, const Tensor& a, const Tensor& b, const GemmEpilogue& epilogue) {
  if (out.is_complex()) return complex_gemm(out, a, b, epilogue);
  const MatmulParams p = params_of(out, a, b, epilogue);
  // If the output overlaps an operand, or overlaps c with different strides, compute into a temporary tensor.
  const bool no_overlap =
      !out.is_alias_of(a) && !out.is_alias_of(b) &&
      (!p.has_c || !out.is_alias_of(epilogue.c) ||
       (out.const_data_ptr() == epilogue.c.const_data_ptr() && out.strides() == epilogue.c.strides()));
  if (!no_overlap) {
    const Tensor fresh = at::empty(out.sizes(), out.options());
    gemm(fresh, a, b, epilogue);
    out.copy_(fresh);
    return;
  }
  MatmulParams q = p;
  if (p.has_c) q.c = matmul_strides(epilogue.c);
  launch(plain_kernels(), Tag::none, out, a, b, epilogue.c, Tensor(), q);
}

// Returns whether mm is small, given its arguments (self, mat2, out) on the stack.
static bool is_small_gemm(const torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, 3);
  const Tensor &a = arguments[0].toTensor(), &b = arguments[1].toTensor();
  return all_have_matmul_kernels(a, b) && b.dim() > 0 && !a.is_complex() && a.numel() * b.size(-1) <= kSmallGemmMacs;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  vendor::Library(m, vendor::kGemm)
      .impl("mm.out", out_form("mm", &matmul<at::meta::structured_mm>), &is_small_gemm)
      .impl("bmm.out", out_form("bmm", &matmul<at::meta::structured_bmm>), &is_small_gemm)
      .impl("addmm.out", out_form("addmm", &addmm<at::meta::structured_addmm>))
      .impl("_addmm_activation.out", out_form("_addmm_activation", &addmm_activation))
      .impl("baddbmm.out", out_form("baddbmm", &addmm<at::meta::structured_baddbmm>))
      .impl("addbmm", functional_form("addbmm", &addbmm))
      .impl("addbmm.out", out_form("addbmm", &addbmm))
      .impl("addbmm_", in_place_form("addbmm", &addbmm))
      .impl("_int_mm", functional_form("_int_mm", &int_mm))
      .impl("_int_mm.out", out_form("_int_mm", &int_mm));
  // Do not use the CPU library here. In PyTorch 2.13, its kernel reads past the end of rows if their length is not a
  // multiple of 16.
  op<"_weight_int8pack_mm", &weight_int8pack_mm>(m);
}

}  // namespace mpsx::ops
