// Launchers of metal/scan: cumsum, cumprod, logcumsumexp, cummax, cummin.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

#include "ops/elementwise/complex.h"
#include "ops/operator.h"
#include "ops/structured.h"
#include "scan/params.h"

namespace mpsx::ops {
namespace {

using Type = std::optional<at::ScalarType>;

struct ScanKernels {
  explicit ScanKernels(const std::string& name) : rows(name + "_rows"), columns(name + "_columns") {}
  KernelSet rows, columns;
};

// The launch along dimension `dim` of `x` (contiguous, with elements): `bind` adds the memory of the results.
template <typename Bind>
void scan(const char* name, const ScanKernels& kernels, const Tensor& x, int64_t dim, Bind bind) {
  const auto shape = x.sizes();
  uint64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= uint64_t(shape[size_t(d)]);
  for (size_t d = size_t(dim) + 1; d < shape.size(); ++d) inner *= uint64_t(shape[d]);
  const uint64_t size = shape.empty() ? 1 : uint64_t(shape[size_t(dim)]);
  TORCH_CHECK(size < UINT32_MAX && inner < UINT32_MAX && outer < UINT32_MAX, name,
              ": expected sizes below 2^32 - 1, got ", shape);
  const ScanParams p{uint32_t(size), uint32_t(inner)};
  Launch launch((inner == 1 ? kernels.rows : kernels.columns).get(tag_of(x)));
  bind(launch);
  launch.pointer(x.const_data_ptr()).bytes(p);
  if (inner == 1) {
    // Every element waits for the one before it, which costs about what four others do.
    launch.groups({uint32_t(outer)}, runtime::threads_for_row(size)).work(size * 4).run();
    return;
  }
  const uint32_t blocks = uint32_t((inner + kScanColumns - 1) / kScanColumns);
  launch.groups({blocks, uint32_t(outer)}, kScanColumns).work(size * std::min<uint64_t>(inner, kScanColumns)).run();
}

void accumulate(const char* name, const ScanKernels& kernels, const Tensor& x, int64_t dim, const Tensor& out) {
  if (x.numel() == 0) return;
  const Tensor in = x.to(out.scalar_type()).contiguous();
  scan(name, kernels, in, at::maybe_wrap_dim(dim, x.dim()), [&](Launch& l) { l.pointer(out.mutable_data_ptr()); });
}

// cumsum and cumprod. Integers accumulate as long, unless there is a result of another type.
template <OperatorName NAME, typename Meta, auto OF_COMPLEX>
bool accumulation(const Tensor& x, int64_t dim, Type type, Tensor& out) {
  static const ScanKernels kernels(NAME.text);
  TORCH_CHECK(!out.is_same(x) || type.value_or(x.scalar_type()) == x.scalar_type(),
              "provided dtype must match the dtype of self tensor in ", NAME.text, ". Got ", toString(x.scalar_type()),
              " and ", toString(type.value_or(x.scalar_type())), ".");
  const at::ScalarType own = at::isIntegralType(x.scalar_type(), true) ? at::kLong : x.scalar_type();
  const at::ScalarType result = type.value_or(out.defined() ? out.scalar_type() : own);
  if (const Tensor z = OF_COMPLEX(x, dim, result); z.defined()) return deliver(NAME.text, z, out);
  if (!has_number_kernel(x) || tag_of(result) >= Tag::b8) return false;
  Structured<Meta> outputs(out);
  outputs.meta(x, dim, type);
  if (out.defined()) at::assert_no_partial_overlap(out, x);
  accumulate(NAME.text, kernels, x, dim, outputs.result());
  return outputs.finish(out);
}

bool logcumsumexp(const Tensor& x, int64_t dim, Tensor& out) {
  static const ScanKernels kernels("logcumsumexp");
  if (!has_float_kernel(x) || !takes(out, x.scalar_type())) return false;
  at::maybe_wrap_dim(dim, x.dim());
  const Tensor result = at::empty(x.sizes(), x.options());
  accumulate("logcumsumexp", kernels, x, dim, result);
  return deliver("logcumsumexp", result, out);
}

// cummax and cummin.
template <OperatorName NAME>
bool extremum(const Tensor& x, Tensor& values, Tensor& indices, int64_t dim) {
  static const ScanKernels kernels(NAME.text);
  if (!has_number_kernel(x) || !is_plain(values) || !is_plain(indices) || values.scalar_type() != x.scalar_type() ||
      indices.scalar_type() != at::kLong)
    return false;
  if (x.numel() == 0) return true;
  const auto target = [](const Tensor& t) { return t.is_contiguous() ? t : at::empty(t.sizes(), t.options()); };
  const Tensor found = target(values), places = target(indices);
  scan(NAME.text, kernels, x.contiguous(), at::maybe_wrap_dim(dim, x.dim()),
       [&](Launch& l) { l.pointer(found.mutable_data_ptr()).pointer(places.mutable_data_ptr()); });
  if (!found.is_same(values)) values.copy_(found);
  if (!places.is_same(indices)) indices.copy_(places);
  return true;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"cumsum", &accumulation<"cumsum", at::meta::structured_cumsum, &complex_cumsum>>(m);
  op<"cumprod", &accumulation<"cumprod", at::meta::structured_cumprod, &complex_cumprod>>(m);
  op<"_logcumsumexp", &logcumsumexp>(m);
  op<"_cummax_helper", &extremum<"cummax">>(m);
  op<"_cummin_helper", &extremum<"cummin">>(m);
}

}  // namespace mpsx::ops
