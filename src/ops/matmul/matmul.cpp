// Launchers of metal/matmul/matmul.metal.
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
#include "ops/operator.h"
#include "ops/structured.h"
#include "ops/tiles.h"
#include "runtime/teams.h"
#include "vendor/cpu/vendor.h"

namespace mpsx::ops {
namespace {

using at::Scalar;

// Of a matrix, or a batch of them.
MatmulStrides strides_of(const Tensor& t) {
  return {t.stride(-2), t.stride(-1), t.dim() == 3 && t.size(0) > 1 ? t.stride(0) : 0};
}
void transpose(MatmulStrides& s) { std::swap(s.row, s.column); }

struct Kernels {
  KernelSet tiles, rows, columns;
};
const Kernels& plain_kernels() {
  static const Kernels k{KernelSet("matmul"), KernelSet("matmul_rows"), KernelSet("matmul_columns")};
  return k;
}

// The operands of a product's kernels. `from`: the type of the factors where the result's is another.
struct Product {
  const Kernels& kernels;
  Tag from;
  Tensor out, a, b, c, scale;
  MatmulParams p;
  uint64_t batch;

  runtime::KernelEntry& of(const KernelSet& set) const {
    const Tag tag = tag_of(out);
    return from == Tag::none ? set.get(tag) : set.get(from, tag);
  }
  const void* c_data() const { return p.has_c ? c.const_data_ptr() : nullptr; }
  const void* scale_data() const { return p.has_scale ? scale.const_data_ptr() : nullptr; }

  // The sums of the parts of the depth, of which there are `split.parts`.
  Tensor split_depth(Split split) {
    p.splits = split.parts;
    p.split_depth = split.depth;
    if (split.parts == 1) return Tensor();
    return at::empty({int64_t(batch) * p.splits * p.rows, p.columns},
                     out.options().dtype(at::kFloat).memory_format(std::nullopt));
  }
  Launch& bind(Launch& l) const {
    l.pointer(out.mutable_data_ptr()).pointer(a.const_data_ptr()).pointer(b.const_data_ptr()).pointer(c_data());
    return l.pointer(scale_data()).bytes(p);
  }
  void join(const Tensor& parts) const {
    static const KernelSet join("matmul_join");
    if (!parts.defined()) return;
    Launch l(join.get(tag_of(out)));
    l.pointer(out.mutable_data_ptr()).pointer(c_data()).pointer(scale_data()).bytes(p).pointer(parts.const_data_ptr());
    l.threads(p.columns, p.rows, batch).work(p.splits).run();
  }
};

// Tiles read a factor 16 bytes at a time where its lines begin at multiples of that. Others are copied to such lines
// if many tiles read them: each would ask for every element by itself.
void align(Tensor& factor, MatmulStrides& strides, uint32_t& wide, uint64_t across) {
  constexpr uint64_t kManyTiles = 8;
  const bool repeats = factor.dim() == 3 && factor.size(0) > 1 && factor.stride(0) == 0;
  if (wide || repeats || factor.dim() < 2 || across < kManyTiles * kTileColumns) return;
  const bool transposed = factor.stride(-1) != 1 && factor.stride(-2) == 1;
  const Tensor lines = transposed ? factor.transpose(-2, -1) : factor;
  const int64_t width = lines.size(-1);
  auto size = lines.sizes().vec();
  size.back() = in_whole_runs(width, lines);
  const Tensor copy = at::empty(size, lines.options().memory_format(std::nullopt)).narrow(-1, 0, width).copy_(lines);
  factor = transposed ? copy.transpose(-2, -1) : copy;
  strides = strides_of(factor);
  wide = 1;
}

void launch_tiles(Product& product) {
  static const KernelSet large_tiles("matmul_large");
  MatmulParams& p = product.p;
  const bool one_type = product.a.scalar_type() == product.b.scalar_type();
  if (one_type) {  // integers among floats are converted one by one
    align(product.a, p.a, p.wide_a, p.columns);
    align(product.b, p.b, p.wide_b, p.rows);
  }
  const bool large = one_type && takes_large_tiles(p.rows, p.columns, product.batch, product.a.element_size());
  const uint64_t threads = tile_threads(p.rows, p.columns, product.batch);
  const Tensor parts = product.split_depth(large ? Split{1, p.depth} : split_of(threads, p.depth));
  Launch l(product.of(large ? large_tiles : product.kernels.tiles));
  product.bind(l).pointer(mutable_data_or_null(parts));
  over_tiles(l, p.rows, p.columns, product.batch * p.splits, p.split_depth, large).run();
  product.join(parts);
}

// Columns of b lie along memory: an element of the result is the sum along two rows.
void launch_rows(Product& product) {
  MatmulParams& p = product.p;
  runtime::KernelEntry& kernel = product.of(product.kernels.rows);
  const uint64_t pack = std::max<uint64_t>(1, 16 / product.b.element_size());
  const runtime::Teams teams =
      runtime::teams_for(kernel, uint64_t(p.columns) * p.rows * product.batch, p.depth, pack, kHeldValues);
  p.team = teams.team;
  product.split_depth({1, p.depth});
  Launch l(kernel);
  product.bind(l);
  l.groups({uint32_t(ceil_div(p.columns, teams.rows)), p.rows, uint32_t(product.batch)}, teams.per_group);
  l.work((p.depth + 16) * teams.rows).run();
}

// Rows of b lie along memory.
void launch_columns(Product& product) {
  const MatmulParams& p = product.p;
  const uint64_t blocks = ceil_div(p.columns, kMatmulColumns),
                 threads = blocks * p.rows * product.batch * kMatmulColumns;
  const bool splits = is_float_tag(tag_of(product.out));
  const Tensor parts = product.split_depth(splits ? split_of(threads, p.depth, 64) : Split{1, p.depth});
  Launch l(product.of(product.kernels.columns));
  product.bind(l).pointer(mutable_data_or_null(parts));
  l.groups({uint32_t(blocks), p.rows, uint32_t(product.batch) * p.splits}, kMatmulColumns);
  l.work(uint64_t(p.split_depth + 1) * std::min<uint32_t>(p.columns, kMatmulColumns)).run();
  product.join(parts);
}

void launch(const Kernels& kernels, Tag from, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c,
            const Tensor& scale, MatmulParams p) {
  if (out.numel() == 0) return;
  Product product{kernels, from, out, a, b, c, scale, p, out.dim() == 3 ? uint64_t(out.size(0)) : 1};
  MatmulParams& q = product.p;
  // A column is the row of the transposed product.
  if (q.columns == 1 && q.rows > 1 && !q.has_scale) {
    std::swap(product.a, product.b);
    std::swap(q.a, q.b);
    std::swap(q.rows, q.columns);
    for (MatmulStrides* s : {&q.a, &q.b, &q.c, &q.out}) transpose(*s);
  }
  if (q.rows == 1) q.a.row = 0;
  q.wide_a = reads_wide(product.a.const_data_ptr(), product.a.element_size(), q.a.row, q.a.column, q.a.batch);
  q.wide_b = reads_wide(product.b.const_data_ptr(), product.b.element_size(), q.b.column, q.b.row, q.b.batch);
  if (is_float_tag(tag_of(out)) && q.rows > 1)
    launch_tiles(product);
  else if (q.b.row == 1 || q.b.column != 1 || q.has_scale)
    launch_rows(product);
  else
    launch_columns(product);
}

MatmulParams params_of(const Tensor& out, const Tensor& a, const Tensor& b, const ProductEnd& end) {
  TORCH_CHECK(std::max({out.size(-1), out.size(-2), a.size(-1), out.size(0)}) <= int64_t(INT32_MAX),
              "matmul: expected sizes below 2^31, got ", a.sizes(), " and ", b.sizes());
  MatmulParams p{};
  p.a = strides_of(a);
  p.b = strides_of(b);
  p.out = strides_of(out);
  p.rows = uint32_t(out.size(-2));
  p.columns = uint32_t(out.size(-1));
  p.depth = uint32_t(a.size(-1));
  p.activation = end.activation;
  set_factors(p, out, end.alpha, end.beta);
  return p;
}

// mm and bmm.
template <typename Meta>
bool product(const Tensor& self, const Tensor& mat2, Tensor& out) {
  if (!all_have_product_kernels(self, mat2)) return false;
  Structured<Meta> outputs(out);
  outputs.meta(self, mat2);
  check_product_types(self, mat2);
  matrix_product(outputs.result(), self, mat2);
  return outputs.finish(out);
}

// Operators that add to a product: `meta` has checked everything else and made the result.
template <typename Outputs>
bool add_product(const Outputs& outputs, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                 const Scalar& alpha, Tensor& out, uint32_t activation = kActivationNone) {
  check_product_types(a, b);
  check_product_self(self, a);
  matrix_product(outputs.result(), a, b, {alpha, beta, self.expand(outputs.result().sizes()), activation});
  return outputs.finish(out);
}

// addmm and baddbmm.
template <typename Meta>
bool added_product(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                   Tensor& out) {
  if (!all_have_product_kernels(self, a, b)) return false;
  Structured<Meta> outputs(out);
  outputs.meta(self, a, b, beta, alpha);
  return add_product(outputs, self, a, b, beta, alpha, out);
}

bool addmm_activation(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                      const Scalar& alpha, bool use_gelu, Tensor& out) {
  if (!all_have_product_kernels(self, mat1, mat2) || !is_float_tag(tag_of(self))) return false;
  Structured<at::meta::structured__addmm_activation> outputs(out);
  outputs.meta(self, mat1, mat2, beta, alpha, use_gelu);
  return add_product(outputs, self, mat1, mat2, beta, alpha, out, use_gelu ? kActivationGelu : kActivationRelu);
}

// The batch is one more dimension to sum over.
bool addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha,
            Tensor& out) {
  if (!all_have_product_kernels(self, batch1, batch2)) return false;
  TORCH_CHECK(batch1.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(batch2.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(batch1.size(0) == batch2.size(0), "batch1 and batch2 must have same number of batches, got ",
              batch1.size(0), " and ", batch2.size(0));
  TORCH_CHECK(batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (", batch1.size(1), "x",
              batch1.size(2), " and ", batch2.size(1), "x", batch2.size(2), ")");
  check_product_types(batch1, batch2);
  check_product_self(self, batch1);
  TORCH_CHECK(takes(out, self.scalar_type()), "addbmm: expected out of type ", self.scalar_type(), ", got ",
              out.scalar_type());
  const int64_t rows = batch1.size(1), columns = batch2.size(2), depth = batch1.size(0) * batch1.size(2);
  const Tensor c = self.expand({rows, columns});
  const bool fresh = !out.defined() || (out.is_same(self) && out.sizes() != c.sizes());
  const Tensor result = fresh ? at::empty(c.sizes(), c.options()) : out;
  if (!fresh) at::native::resize_output(out, c.sizes());
  matrix_product(result, batch1.permute({1, 0, 2}).reshape({rows, depth}), batch2.reshape({depth, columns}),
                 {alpha, beta, c});
  if (!out.defined())
    out = result;
  else if (fresh)  // self of another size, as on the CPU
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
  TORCH_CHECK(takes(out, at::kInt), "Expected result dtype to be of type kInt but got ", out.dtype());
  if (!all_have_product_kernels(self, mat2)) return false;
  const int64_t sizes[] = {self.size(0), mat2.size(1)};
  if (out.defined())
    at::native::resize_output(out, sizes);
  else
    out = at::empty(sizes, self.options().dtype(at::kInt));
  launch(plain_kernels(), Tag::i8, out, self, mat2, Tensor(), Tensor(), params_of(out, self, mat2, {}));
  return true;
}

// The weight is columns x depth of int8, with a factor for each of its rows.
std::optional<Tensor> weight_int8pack_mm(const Tensor& self, const Tensor& weight, const Tensor& scales) {
  static const Kernels kernels{KernelSet("matmul_int8"), KernelSet("matmul_int8_rows"), KernelSet("matmul_int8_rows")};
  TORCH_CHECK(is_float_tag(tag_of(self)) && self.dim() == 2,
              "_weight_int8pack_mm: expected self to be a matrix of float32, float16 or bfloat16, got ",
              self.scalar_type(), " ", self.sizes());
  TORCH_CHECK(weight.scalar_type() == at::kChar && weight.dim() == 2 && weight.size(1) == self.size(1),
              "_weight_int8pack_mm: expected a weight of int8 and size [N, ", self.size(1), "], got ",
              weight.scalar_type(), " ", weight.sizes());
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == weight.size(0), "_weight_int8pack_mm: expected scales of size [",
              weight.size(0), "], got ", scales.sizes());
  if (!all_have_product_kernels(self, weight, scales) || scales.scalar_type() != self.scalar_type())
    return std::nullopt;
  const Tensor out = at::empty({self.size(0), weight.size(0)}, self.options());
  MatmulParams p = params_of(out, self, weight.t(), {});
  p.has_scale = 1;
  p.scale = scales.stride(0);
  launch(kernels, Tag::none, out, self, weight, Tensor(), scales, p);
  return out;
}

// Four products of real and imaginary parts. Factors are made dense, as sums along memory are the more exact ones.
void complex_product(const Tensor& out, const Tensor& a, const Tensor& b, const ProductEnd& end) {
  const auto halves = [](const Tensor& t) {
    const Tensor both = at::view_as_real(t);
    return std::pair(both.select(-1, 0), both.select(-1, 1));
  };
  const Tensor product = at::empty(out.sizes(), out.options());
  const auto [real, imaginary] = halves(product);
  const auto dense_halves = [&](const Tensor& t) {
    const auto [x, y] = halves(t.resolve_conj());
    return std::pair(x.contiguous(), y.contiguous());
  };
  const auto [a_real, a_imaginary] = dense_halves(a);
  const auto [b_real, b_imaginary] = dense_halves(b);
  matrix_product(real, a_real, b_real);
  matrix_product(real, a_imaginary, b_imaginary, {-1, 1, real});
  matrix_product(imaginary, a_real, b_imaginary);
  matrix_product(imaginary, a_imaginary, b_real, {1, 1, imaginary});
  if (!end.alpha.equal(1)) product.mul_(end.alpha);
  if (!end.beta.equal(0)) product.add_(end.c, end.beta);
  out.copy_(product);
}

}  // namespace

void set_factors(MatmulParams& p, const Tensor& out, const Scalar& alpha, const Scalar& beta) {
  if (is_float_tag(tag_of(out))) {
    p.alpha = alpha.to<float>();
    p.beta = beta.to<float>();
    p.has_c = p.beta != 0;
  } else {
    p.alpha_whole = alpha.to<int64_t>();
    p.beta_whole = beta.to<int64_t>();
    p.has_c = p.beta_whole != 0;
  }
}

void launch_product(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c, const MatmulParams& p) {
  launch(plain_kernels(), Tag::none, out, a, b, c, Tensor(), p);
}

void matrix_product(const Tensor& out, const Tensor& a, const Tensor& b, const ProductEnd& end) {
  if (out.is_complex()) return complex_product(out, a, b, end);
  const MatmulParams p = params_of(out, a, b, end);
  // A result over its factors, or over a c of other places, is written when all has been read.
  const bool apart = !out.is_alias_of(a) && !out.is_alias_of(b) &&
                     (!p.has_c || !out.is_alias_of(end.c) ||
                      (out.const_data_ptr() == end.c.const_data_ptr() && out.strides() == end.c.strides()));
  if (!apart) {
    const Tensor fresh = at::empty(out.sizes(), out.options());
    matrix_product(fresh, a, b, end);
    out.copy_(fresh);
    return;
  }
  MatmulParams q = p;
  if (p.has_c) q.c = strides_of(end.c);
  launch(plain_kernels(), Tag::none, out, a, b, end.c, Tensor(), q);
}

// Whether (self, mat2, out) are few products.
static bool few_products(const torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, 3);
  const Tensor &a = arguments[0].toTensor(), &b = arguments[1].toTensor();
  return all_have_product_kernels(a, b) && b.dim() > 0 && !a.is_complex() && a.numel() * b.size(-1) <= kFewProducts;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  vendor::Library(m, vendor::kGemm)
      .impl("mm.out", out_form("mm", &product<at::meta::structured_mm>), &few_products)
      .impl("bmm.out", out_form("bmm", &product<at::meta::structured_bmm>), &few_products)
      .impl("addmm.out", out_form("addmm", &added_product<at::meta::structured_addmm>))
      .impl("_addmm_activation.out", out_form("_addmm_activation", &addmm_activation))
      .impl("baddbmm.out", out_form("baddbmm", &added_product<at::meta::structured_baddbmm>))
      .impl("addbmm", functional_form("addbmm", &addbmm))
      .impl("addbmm.out", out_form("addbmm", &addbmm))
      .impl("addbmm_", in_place_form("addbmm", &addbmm))
      .impl("_int_mm", functional_form("_int_mm", &int_mm))
      .impl("_int_mm.out", out_form("_int_mm", &int_mm));
  // The CPU's kernel reads beyond rows whose length is no multiple of 16 (PyTorch 2.13), so it is no alternative.
  op<"_weight_int8pack_mm", &weight_int8pack_mm>(m);
}

}  // namespace mpsx::ops
