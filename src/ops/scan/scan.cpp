// Launchers of metal/scan: cumsum, cumprod, logcumsumexp, cummax, cummin.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

#include "ops/elementwise/complex.h"
#include "ops/structured.h"
#include "scan/params.h"

namespace mpsx::ops {
namespace {

using Type = std::optional<at::ScalarType>;

struct ScanKernels {
  explicit ScanKernels(const std::string& name, bool waits)
      : rows(name + "_rows"), columns(name + "_columns"), slow(waits) {}
  KernelSet rows, columns;
  bool slow;  // an element waits long for the one before it (kSlow in metal/scan)
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
  // A CPU's thread is a threadgroup: it has several rows, if there are enough for all threads, and of sums of floats
  // where not, too: those lie side by side in its registers, and take little more time than one.
  const bool side_by_side = kernels.slow && is_float_tag(tag_of(x));
  const bool together =
      inner == 1 && runtime::driver().traits().one_thread_groups && (side_by_side || outer >= 4 * kScanRows);
  const ScanParams p{uint32_t(size), uint32_t(inner), uint32_t(outer), together ? uint32_t(kScanRows) : 1};
  Launch launch((inner == 1 ? kernels.rows : kernels.columns).get(tag_of(x)));
  bind(launch);
  launch.pointer(x.const_data_ptr()).bytes(p);
  if (inner == 1) {
    // Every element waits for the one before it, which costs about what four others do.
    const uint64_t groups = (outer + p.rows_per_group - 1) / p.rows_per_group;
    launch.groups({uint32_t(groups)}, runtime::threads_for_row(size)).work(size * p.rows_per_group * 4).run();
    return;
  }
  const uint32_t blocks = uint32_t((inner + kScanColumns - 1) / kScanColumns);
  launch.groups({blocks, uint32_t(outer)}, kScanColumns).work(size * std::min<uint64_t>(inner, kScanColumns)).run();
}

// ---- cumsum, cumprod, logcumsumexp

bool accumulates(const Tensor& x, at::ScalarType type) {
  const Tag tag = tag_of(type);
  return is_plain(x) && tag < Tag::b8 && tag_of(x) < Tag::c64;
}

void accumulate(const char* name, const ScanKernels& kernels, const Tensor& x, int64_t dim, const Tensor& out) {
  if (x.numel() == 0) return;
  const Tensor in = x.to(out.scalar_type()).contiguous();
  scan(name, kernels, in, at::maybe_wrap_dim(dim, x.dim()), [&](Launch& l) { l.pointer(out.mutable_data_ptr()); });
}

// As at::meta::cumsum and cumprod: integers accumulate as long.
at::ScalarType accumulated_type(const Tensor& x, Type type) {
  return type ? *type : at::isIntegralType(x.scalar_type(), true) ? at::kLong : x.scalar_type();
}

#define ACCUMULATION(NAME)                                                                                          \
  const ScanKernels& NAME##_kernels() {                                                                             \
    static const ScanKernels k(#NAME, true);                                                                        \
    return k;                                                                                                       \
  }                                                                                                                 \
  Tensor NAME(const Tensor& x, int64_t dim, Type type) {                                                            \
    if (const Tensor z = complex_##NAME(x, dim, accumulated_type(x, type)); z.defined()) return z;                  \
    if (!accumulates(x, accumulated_type(x, type))) return fallback_call<Tensor>("aten::" #NAME, "", x, dim, type); \
    Structured<at::meta::structured_##NAME> op;                                                                     \
    op.meta(x, dim, type);                                                                                          \
    accumulate(#NAME, NAME##_kernels(), x, dim, op.result());                                                       \
    return op.result();                                                                                             \
  }                                                                                                                 \
  Tensor& NAME##_out(const Tensor& x, int64_t dim, Type type, Tensor& out) {                                        \
    if (out.scalar_type() == accumulated_type(x, type))                                                             \
      if (const Tensor z = complex_##NAME(x, dim, out.scalar_type()); z.defined())                                  \
        return at::native::resize_output(out, z.sizes()), out.copy_(z);                                             \
    if (!accumulates(x, out.scalar_type()) || !is_plain(out))                                                       \
      return fallback_call<Tensor>("aten::" #NAME, "out", x, dim, type, out), out;                                  \
    Structured<at::meta::structured_##NAME> op(out);                                                                \
    op.meta(x, dim, type);                                                                                          \
    accumulate(#NAME, NAME##_kernels(), x, dim, op.result());                                                       \
    op.finish();                                                                                                    \
    return out;                                                                                                     \
  }                                                                                                                 \
  Tensor& NAME##_write(Tensor& x, int64_t dim, Type type) {                                                         \
    TORCH_CHECK(!type || *type == x.scalar_type(),                                                                  \
                "provided dtype must match the dtype of self tensor in " #NAME ". Got ", toString(x.scalar_type()), \
                " and ", toString(type.value_or(x.scalar_type())), ".");                                            \
    return NAME##_out(x, dim, x.scalar_type(), x);                                                                  \
  }
ACCUMULATION(cumsum)
ACCUMULATION(cumprod)

const ScanKernels& logcumsumexp_kernels() {
  static const ScanKernels k("logcumsumexp", true);
  return k;
}
bool has_logarithm(const Tensor& x) { return is_plain(x) && is_float_tag(tag_of(x)); }
Tensor log_sums(const Tensor& x, int64_t dim) {
  if (!has_logarithm(x)) return fallback_call<Tensor>("aten::_logcumsumexp", "", x, dim);
  at::maybe_wrap_dim(dim, x.dim());
  const Tensor out = at::empty(x.sizes(), x.options());
  accumulate("logcumsumexp", logcumsumexp_kernels(), x, dim, out);
  return out;
}
Tensor& log_sums_out(const Tensor& x, int64_t dim, Tensor& out) {
  if (!has_logarithm(x) || !is_plain(out) || out.scalar_type() != x.scalar_type())
    return fallback_call<Tensor>("aten::_logcumsumexp", "out", x, dim, out), out;
  at::native::resize_output(out, x.sizes());
  const Tensor result = log_sums(x, dim);
  return out.copy_(result), out;
}

// ---- cummax, cummin

// The results are written where they lie if they are contiguous, which the functional forms make them.
void extremum(const char* name, const char* aten, const ScanKernels& kernels, const Tensor& x, Tensor& values,
              Tensor& indices, int64_t dim) {
  if (!is_plain(x) || !is_plain(values) || !is_plain(indices) || tag_of(x) >= Tag::c64 ||
      values.scalar_type() != x.scalar_type() || indices.scalar_type() != at::kLong)
    return fallback_call<void>(aten, "", x, values, indices, dim);
  if (x.numel() == 0) return;
  const auto target = [](const Tensor& t) { return t.is_contiguous() ? t : at::empty(t.sizes(), t.options()); };
  const Tensor found = target(values), places = target(indices);
  scan(name, kernels, x.contiguous(), at::maybe_wrap_dim(dim, x.dim()),
       [&](Launch& l) { l.pointer(found.mutable_data_ptr()).pointer(places.mutable_data_ptr()); });
  if (!found.is_same(values)) values.copy_(found);
  if (!places.is_same(indices)) indices.copy_(places);
}
void cummax(const Tensor& x, Tensor& values, Tensor& indices, int64_t dim) {
  static const ScanKernels kernels("cummax", false);
  extremum("cummax", "aten::_cummax_helper", kernels, x, values, indices, dim);
}
void cummin(const Tensor& x, Tensor& values, Tensor& indices, int64_t dim) {
  static const ScanKernels kernels("cummin", false);
  extremum("cummin", "aten::_cummin_helper", kernels, x, values, indices, dim);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cumsum", &cumsum);
  m.impl("cumsum.out", &cumsum_out);
  m.impl("cumsum_", &cumsum_write);
  m.impl("cumprod", &cumprod);
  m.impl("cumprod.out", &cumprod_out);
  m.impl("cumprod_", &cumprod_write);
  m.impl("_logcumsumexp", &log_sums);
  m.impl("_logcumsumexp.out", &log_sums_out);
  m.impl("_cummax_helper", &cummax);
  m.impl("_cummin_helper", &cummin);
}

}  // namespace mpsx::ops
