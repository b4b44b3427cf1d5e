// Launches the kernels in metal/scan: cumsum, cumprod, logcumsumexp, cummax, cummin.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/empty.h>
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

// Scans dimension `dim` of `x`. `x` must be contiguous and not empty, and the results must have the same layout.
void scan(const char* name, const ScanKernels& kernels, const Tensor& x, int64_t dim,
          std::initializer_list<Tensor> results) {
  constexpr uint32_t kThreads = 256, kManyRows = 512, kMinChunk = 4096;
  const auto shape = x.sizes();
  uint64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= uint64_t(shape[size_t(d)]);
  for (size_t d = size_t(dim) + 1; d < shape.size(); ++d) inner *= uint64_t(shape[d]);
  const uint64_t size = shape.empty() ? 1 : uint64_t(shape[size_t(dim)]);
  TORCH_CHECK(size < UINT32_MAX && inner < UINT32_MAX && outer < UINT32_MAX, name,
              ": expected sizes below 2^32 - 1, got ", shape);
  const bool rows = inner == 1;
  const uint64_t blocks = ceil_div(inner, kScanColumns), groups = rows ? outer : blocks * outer;
  // Chunks of columns may be short, because each chunk adds only the cost of storing one state.
  const uint64_t max_chunks = size / (rows ? kMinChunk : kMinChunk / 64);
  const uint64_t chunks_wanted =
      std::min(uint64_t(runtime::target_resident_threads()) / (groups * kThreads), max_chunks);
  const uint64_t vec_size = std::max<uint64_t>(1, 16 / x.element_size());
  const uint64_t each = std::min<uint64_t>(kScanEach, kScanBytes / x.element_size());
  ScanParams p{};
  p.size = uint32_t(size), p.inner = uint32_t(inner);
  p.chunk = uint32_t(chunks_wanted > 1 ? ceil_div(ceil_div(size, chunks_wanted), vec_size) * vec_size : size);
  p.chunks = uint32_t(ceil_div(size, p.chunk));
  p.aligned = aligned(x) && (outer == 1 || size % vec_size == 0);
  for (const Tensor& t : results) p.aligned &= aligned(t);
  const Tensor states =
      p.chunks > 1 ? at::empty({int64_t(outer * inner * p.chunks), 2}, x.options().dtype(at::kLong)) : Tensor();
  for (p.writes = p.chunks > 1 ? 0 : 1; p.writes < 2; ++p.writes) {
    Launch launch((rows ? kernels.rows : kernels.columns).get(tag_of(x)));
    for (const Tensor& t : results) launch.outputs(t);
    launch.inputs(x).bytes(p).outputs(states);
    if (rows) {
      const uint32_t threads = uint32_t(ceil_div(ceil_div(p.chunk, each), 32) * 32);
      const uint32_t limit = p.chunks > 1 || outer >= kManyRows ? kThreads : 4 * kThreads;
      // Each element depends on the previous one, so it costs as much as about four independent elements.
      launch.groups({uint32_t(outer), p.chunks}, std::min(threads, limit)).work(uint64_t(p.chunk) * 4).run();
    } else {
      launch.groups({uint32_t(blocks), uint32_t(outer), p.chunks}, kScanColumns);
      launch.work(p.chunk * std::min<uint64_t>(inner, kScanColumns)).run();
    }
  }
}

void accumulate(const char* name, const ScanKernels& kernels, const Tensor& x, int64_t dim, const Tensor& out) {
  if (x.numel() == 0) return;
  const Tensor in = x.to(out.scalar_type()).contiguous();
  scan(name, kernels, in, at::maybe_wrap_dim(dim, x.dim()), {out});
}

// cumsum and cumprod. Integers accumulate in int64 unless the result has a different type.
template <OperatorName NAME, typename Meta, auto OF_COMPLEX>
bool accumulation(const Tensor& x, int64_t dim, Type type, Tensor& out) {
  static const ScanKernels kernels(NAME.text);
  TORCH_CHECK(!out.is_same(x) || type.value_or(x.scalar_type()) == x.scalar_type(),
              "provided dtype must match the dtype of self tensor in ", NAME.text, ". Got ", toString(x.scalar_type()),
              " and ", toString(type.value_or(x.scalar_type())), ".");
  const at::ScalarType promoted = at::isIntegralType(x.scalar_type(), true) ? at::kLong : x.scalar_type();
  const at::ScalarType result = type.value_or(out.defined() ? out.scalar_type() : promoted);
  if (x.is_complex() && !c10::isComplexType(result))  // the cast drops imaginary parts and warns
    return accumulation<NAME, Meta, OF_COMPLEX>(x.to(result), dim, type, out);
  if (const Tensor z = OF_COMPLEX(x, dim, result); z.defined()) return return_or_copy(NAME.text, z, out);
  if (!has_number_kernel(x) || tag_of(result) >= Tag::b8) return false;
  Structured<Meta> outputs(out);
  outputs.meta(x, dim, type);
  if (out.defined()) at::assert_no_partial_overlap(out, x);
  accumulate(NAME.text, kernels, x, dim, outputs.result());
  return outputs.return_or_copy(out);
}

bool logcumsumexp(const Tensor& x, int64_t dim, Tensor& out) {
  static const ScanKernels kernels("logcumsumexp");
  if (!has_float_kernel(x) || !accepts(out, x.scalar_type())) return false;
  at::maybe_wrap_dim(dim, x.dim());
  const Tensor result = at::empty(x.sizes(), x.options());
  accumulate("logcumsumexp", kernels, x, dim, result);
  return return_or_copy("logcumsumexp", result, out);
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
  const Tensor found = target(values), positions = target(indices);
  scan(NAME.text, kernels, x.contiguous(), at::maybe_wrap_dim(dim, x.dim()), {found, positions});
  if (!found.is_same(values)) values.copy_(found);
  if (!positions.is_same(indices)) indices.copy_(positions);
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
