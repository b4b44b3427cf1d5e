#include "ops/elementwise/elementwise.h"

#include <ATen/Dispatch.h>
#include <ATen/ScalarOps.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/elementwise/operands.h"
#include "ops/elementwise/strided.h"

namespace mpsx::ops {
namespace {

// A number that no integer holds is true where a bool is asked for; of other integers check_holds has refused it.
int64_t integer_part(double x) {
  constexpr double limit = 0x1p63;
  if (x >= -limit && x < limit) return int64_t(x);
  return x > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

// The imaginary part lies beside the real one, where no operator has a scalar of its own (metal/elementwise/complex.h).
void set_scalar(ScalarParams& p, int k, const at::Scalar& s) {
  const auto z = s.isComplex() ? s.toComplexDouble() : c10::complex<double>(s.toDouble());
  p.f[k] = float(z.real());  // what is too large for a float is infinite, as on the CPU
  if (s.isComplex()) p.f[k == 3 ? 2 : k + 1] = float(z.imag());
  p.i[k] = s.isFloatingPoint() ? integer_part(s.toDouble()) : s.isComplex() ? s.to<bool>() : s.to<int64_t>();
}

// Operators of which an element on its own takes long, so that few are worth a vector.
bool is_costly(std::string_view op) {
  constexpr std::string_view costly[] = {"pow",       "remainder",  "fmod",   "floor_divide", "div_trunc",
                                         "logaddexp", "logaddexp2", "xlogy",  "xlog1py",      "atan2",
                                         "polar",     "zeta",       "igamma", "igammac",      "hypot"};
  return std::find(std::begin(costly), std::end(costly), op) != std::end(costly);
}

float rounded(float x, Tag tag) {
  return tag == Tag::f16 ? float(at::Half(x)) : tag == Tag::bf16 ? float(at::BFloat16(x)) : x;
}

}  // namespace

Tensor wrapped_number(const at::Scalar& s) {
  Tensor t = c10::scalar_to_tensor(s);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

void check_holds(at::ScalarType type, const at::Scalar& s) {
  if (at::isComplexType(type)) return;  // any number
  AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, type, "check_holds", [&] { (void)s.to<scalar_t>(); });
}

ScalarParams scalar_params(const at::Scalar& a, const at::Scalar& b, Tag type) {
  ScalarParams p{};
  set_scalar(p, 1, b);
  set_scalar(p, 0, a);
  for (float& f : p.f) f = rounded(f, type);
  return p;
}

ElementwiseKernels::ElementwiseKernels(const std::string& op, int inputs, Order order)
    : op_(op),
      inputs_(inputs),
      order_(order),
      exact_last_(op == "mul" || op == "div" || op == "floor_divide" || op == "lerp"),
      moves_(op == "copy" || op == "cast"),
      costly_(is_costly(op)),
      dense_(op + "_dense"),
      blocks_(op + "_blocks"),
      right_(op + "_right"),
      left_(op + "_left"),
      rows_11_(op + "_rows_11"),
      rows_10_(op + "_rows_10"),
      rows_01_(op + "_rows_01"),
      rows_1n_(op + "_rows_1n"),
      transposed_(op + "_transposed"),
      any_(op + "_any") {}

ElementwiseKernels::ElementwiseKernels(const std::string& op, const ElementwiseKernels* mirror)
    : ElementwiseKernels(op, 2) {
  mirror_ = mirror;
}

void ElementwiseKernels::run(at::TensorIteratorBase& iter, Tag tag, ScalarParams scalars, Tag second) const {
  if (iter.numel() == 0) return;
  if (!iter.can_use_32bit_indexing() && uint64_t(iter.numel()) > kMaxDense) {
    for (auto& part : iter.with_32bit_indexing()) run(part, tag, scalars, second);
    return;
  }
  Operands o;
  o.count = inputs_ + 1;
  o.ndim = iter.ndim();
  o.numel = uint64_t(iter.numel());
  for (int d = 0; d < o.ndim; ++d) o.size[d] = iter.shape()[d];
  for (int k = 0; k < o.count; ++k) {
    o.element[k] = int64_t(iter.element_size(k));
    const at::TensorBase& t = iter.tensor_base(k);
    if (k > 0 && t.device().is_cpu()) {
      o.inlined[k] = true;
      o.data[k] = nullptr;
      set_scalar(scalars, 3, at::_local_scalar_dense(*c10::MaybeOwned<Tensor>::borrowed(iter.tensor(k))));
      // PyTorch's CPU kernels round a number to the tensors' type, except as the last operand of these.
      if (!(exact_last_ && k == inputs_)) scalars.f[3] = rounded(scalars.f[3], tag);
    } else {
      o.data[k] = static_cast<char*>(iter.data_ptr(k));
    }
    for (int d = 0; d < o.ndim; ++d) o.stride[k][d] = iter.strides(k)[d];
  }
  const ElementwiseKernels* kernels = this;
  const bool left = inputs_ == 2 && (o.inlined[1] || (!o.inlined[2] && o.inner(1) == 0 && o.inner(2) == 1));
  if (left && (order_ == Order::swaps || mirror_)) {
    o.swap_inputs();
    if (mirror_) kernels = mirror_;
  }
  for (int k = 1; k < o.count; ++k) scalars.inlined |= o.inlined[k] ? 1u << k : 0u;
  if (scalars.inlined) o.point_inlined();
  if (o.all_dense())
    kernels->run_dense(o, tag, second, scalars);
  else
    kernels->run_strided(o, tag, second, scalars);
}

void ElementwiseKernels::run_dense(const Operands& o, Tag tag, Tag second, ScalarParams& s) const {
  // Three operands with one of them inlined have no dense variant.
  if (inputs_ == 3 && s.inlined) return run_strided(o, tag, second, s);
  const bool blocks = !s.inlined && blocks_.has(tag, second);
  const KernelSet& set = blocks                         ? blocks_
                         : o.inlined[1] && inputs_ == 2 ? left_
                         : o.inlined[2] && inputs_ == 2 ? right_
                                                        : dense_;
  if (inputs_ == 1 && o.inlined[1]) return run_strided(o, tag, second, s);
  if (inputs_ == 2 && s.inlined && !set.has(tag, second)) return run_strided(o, tag, second, s);
  for (uint64_t begin = 0; begin < o.numel; begin += kMaxDense) {
    s.count = uint32_t(std::min(kMaxDense, o.numel - begin));
    Launch launch(set.get(tag, second));
    for (int k = 0; k < o.count; ++k)
      if (!o.inlined[k]) launch.pointer(o.data[k] + int64_t(begin) * o.element[k]);
    const int typed = inputs_ == 3 || o.inlined[1] ? 2 : 1;  // an operand of the type that the kernel counts in
    launch.bytes(s);
    if (blocks)
      launch.threads((s.count + kBlock - 1) / kBlock).work(kBlock);
    else
      launch.over(s.count, size_t(o.element[typed]));
    launch.run();
  }
}

void ElementwiseKernels::run_strided(const Operands& o, Tag tag, Tag second, const ScalarParams& s) const {
  const bool cpu = runtime::driver().info().vector_bytes == 0;
  if (moves_ && second == Tag::none && !o.inlined[1]) {
    const bool brief = cpu && o.brief_rows();
    if (const int64_t bytes = o.wide_element(cpu ? Operands::kWidestLine : 16, !brief); bytes > 0)
      return copy_lines(o, bytes);
    if (brief) return copy_brief_rows(o, tag);
  }
  const KernelSet* set = &any_;
  if (inputs_ == 2 && !s.inlined && o.inner(0) == 1) {
    const int64_t a = o.inner(1), b = o.inner(2);
    const KernelSet* rows = a == 1 && b == 1 ? &rows_11_ : a == 1 && b == 0 ? &rows_10_ : &rows_01_;
    if (((a == 1 && (b == 0 || b == 1)) || (a == 0 && b == 1)) && rows->has(tag)) set = rows;
  }
  if (inputs_ == 1 && o.inner(0) == 1) {
    const int64_t x = o.inner(1);
    const KernelSet* rows = x == 1 ? &rows_11_ : x == 0 ? &rows_10_ : &rows_1n_;
    if (rows->has(tag, second)) set = rows;
  }
  const int64_t narrow = cpu ? Operands::kNarrow : Operands::kTile / 2;
  const bool transposed = inputs_ == 1 && !s.inlined && o.ndim >= 2 && o.inner(0) == 1 && o.inner(1) > 1 &&
                          o.stride[1][1] == o.element[1] && std::min(o.size[0], o.size[1]) >= narrow &&
                          transposed_.has(tag, second);
  if (transposed) set = &transposed_;
  if (cpu && !moves_ && !transposed && o.short_rows(costly_))
    return o.each_panel([&](const Operands& panel) { run_spread(panel, tag, second, s); });
  if (set == &any_ && cpu) {
    if (o.repeats()) return run_repeated(o, tag, second, s);
    if (o.worth_spreading()) return o.each_panel([&](const Operands& panel) { run_spread(panel, tag, second, s); });
  }
  if (const int d = o.longer(); d > 0 && !transposed && cpu) {
    o.each_panel([&](Operands panel) {
      panel.swap_dimensions(0, d);
      run_strided(panel, tag, second, s);
    });
    return;
  }
  launch_strided(set->get(tag, second), o, s, transposed);
}

void ElementwiseKernels::launch_strided(runtime::KernelEntry& kernel, const Operands& o, const ScalarParams& s,
                                        bool transposed) {
  std::array<at::IntArrayRef, Operands::kMaxOperands> strides;
  std::array<int64_t, Operands::kMaxOperands> elements;
  elements.fill(1);
  for (int k = 0; k < o.count; ++k) {
    strides[size_t(k)] = at::IntArrayRef(o.stride[k], size_t(o.ndim));
    elements[size_t(k)] = o.element[k];
  }
  const at::IntArrayRef sizes(o.size, size_t(o.ndim));
  each_strided<Operands::kMaxOperands>(sizes, strides, elements, [&](const StridedParams& p, const auto& offsets) {
    Launch launch(kernel);
    for (int k = 0; k < o.count; ++k) launch.pointer(o.data[k] + offsets[size_t(k)]);
    if (transposed) {
      const uint32_t tile = runtime::driver().info().vector_bytes > 0 ? kTransposeTile : kWideTransposeTile;
      const auto tiles = [&](uint32_t n) { return (n + tile - 1) / tile; };
      launch.bytes(p)
          .groups({tiles(p.size[0]), tiles(p.size[1]), p.size[2] * p.size[3]}, kTransposeTile)
          .work(uint64_t(std::min(tile, p.size[0])) * std::min(tile, p.size[1]))
          .run();
      return;
    }
    launch.bytes(s).bytes(p).threads(p.size[0], p.size[1], uint64_t(p.size[2]) * p.size[3]).run();
  });
}

// A copy of short rows, by elements as wide as they are or parts of them.
void ElementwiseKernels::copy_lines(Operands lines, int64_t bytes) {
  static const KernelSet lines_16("copy_lines_16"), lines_32("copy_lines_32"), lines_64("copy_lines_64"),
      lines_128("copy_lines_128");
  const bool whole = lines.widen(bytes);  // parts of rows follow each other
  if (bytes < 16) return copy_strided(lines);
  if (const int d = lines.longer();
      whole && d > 0 && bytes < Operands::kWidestLine && runtime::driver().info().vector_bytes == 0)
    lines.swap_dimensions(0, d);
  const KernelSet& set = bytes == 16 ? lines_16 : bytes == 32 ? lines_32 : bytes == 64 ? lines_64 : lines_128;
  launch_strided(set.get(), lines, {}, false);
}

// A copy of rows that are a few bytes, by one thread of a CPU each.
void ElementwiseKernels::copy_brief_rows(Operands rows, Tag tag) {
  static const KernelSet moved("copy_brief"), repeated("copy_brief_same");
  const KernelSet& set = rows.inner(1) == 1 ? moved : repeated;
  ScalarParams row{};
  row.count = uint32_t(rows.size[0]);
  rows.drop_rows();
  if (const int d = rows.longer(); d > 0) rows.swap_dimensions(0, d);
  launch_strided(set.get(tag), rows, row, false);
}

void ElementwiseKernels::copy_between(const Tensor& to, const Tensor& from, at::IntArrayRef sizes,
                                      at::IntArrayRef to_strides, at::IntArrayRef from_strides) {
  TORCH_INTERNAL_ASSERT(uint64_t(to.numel()) <= kMaxDense, "copy_between: ", to.sizes());
  at::DimVector order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return to_strides[size_t(a)] > to_strides[size_t(b)]; });
  at::DimVector size, strides[2];
  for (const int64_t d : order) {
    size.push_back(sizes[size_t(d)]);
    strides[0].push_back(to_strides[size_t(d)]);
    strides[1].push_back(from_strides[size_t(d)]);
  }
  const Merged<2> merged(size, {strides[0], strides[1]});
  Operands o;
  o.count = 2;
  o.ndim = int(merged.sizes.size());
  o.numel = 1;
  o.data[0] = static_cast<char*>(to.mutable_data_ptr());
  o.data[1] = static_cast<char*>(const_cast<void*>(from.const_data_ptr()));
  for (int k = 0; k < 2; ++k) o.element[k] = int64_t(from.element_size());
  for (int d = 0; d < o.ndim; ++d) {
    o.size[d] = merged.sizes[size_t(d)];
    o.numel *= uint64_t(o.size[d]);
    for (int k = 0; k < 2; ++k) o.stride[k][d] = merged.strides[size_t(k)][size_t(d)] * o.element[k];
  }
  if (o.numel > 0) copy_strided(o);
}

// Memory for `count` elements of `bytes` each.
static Tensor scratch(uint64_t count, int64_t bytes) {
  return at::empty({int64_t(count) * bytes}, at::TensorOptions(c10::DeviceType::PrivateUse1).dtype(at::kByte));
}

// From operand 1 to operand 0, which have elements of the same size.
void ElementwiseKernels::copy_strided(const Operands& o) {
  static const ElementwiseKernels copy("copy", 1);
  const int64_t bytes = o.element[0];
  copy.run_strided(o, bytes == 1 ? Tag::i8 : bytes == 2 ? Tag::i16 : bytes == 4 ? Tag::i32 : Tag::i64, Tag::none, {});
}

// What is the same along x is computed once, and copied.
void ElementwiseKernels::run_repeated(const Operands& o, Tag tag, Tag second, ScalarParams s) const {
  Operands once = o, along = o;
  once.numel = o.numel / uint64_t(o.size[0]);
  const Tensor values = scratch(once.numel, o.element[0]);
  once.ndim = o.ndim - 1;
  once.data[0] = static_cast<char*>(values.mutable_data_ptr());
  int64_t dense = o.element[0];
  for (int d = 0; d < once.ndim; ++d) {
    once.size[d] = o.size[d + 1];
    for (int k = 1; k < o.count; ++k) once.stride[k][d] = o.stride[k][d + 1];
    once.stride[0][d] = dense;
    along.stride[1][d + 1] = dense;
    dense *= once.size[d];
  }
  if (once.all_dense())
    run_dense(once, tag, second, s);
  else
    run_strided(once, tag, second, s);
  along.count = 2;
  along.data[1] = once.data[0];
  along.stride[1][0] = 0;
  along.element[1] = o.element[0];
  along.inlined[1] = false;
  copy_strided(along);
}

// Inputs that are the same along x, or transposed, are copied first, so that the loop over x meets one stride.
void ElementwiseKernels::run_spread(const Operands& o, Tag tag, Tag second, const ScalarParams& s) const {
  const bool short_rows = o.short_rows(costly_);
  Operands wide = o;
  Tensor copies[Operands::kMaxOperands];
  for (int k = 1; k < o.count; ++k) {
    if (o.inlined[k] || (short_rows ? o.packed(k) >= Operands::kLongRow : o.inner(k) == 1)) continue;
    copies[k] = scratch(o.numel, o.element[k]);
    Operands copy = o;
    copy.count = 2;
    copy.inlined[1] = false;
    copy.data[1] = o.data[k];
    copy.data[0] = wide.data[k] = static_cast<char*>(copies[k].mutable_data_ptr());
    copy.element[0] = copy.element[1] = o.element[k];
    int64_t dense = o.element[k];
    for (int d = 0; d < o.ndim; ++d) {
      copy.stride[1][d] = o.stride[k][d];
      copy.stride[0][d] = wide.stride[k][d] = dense;
      dense *= o.size[d];
    }
    copy.coalesce();
    copy_strided(copy);
  }
  wide.point_inlined();
  wide.coalesce();
  if (!wide.all_dense()) return run_strided(wide, tag, second, s);
  ScalarParams dense = s;
  run_dense(wide, tag, second, dense);
}

c10::MaybeOwned<Tensor> to_common(const Tensor& t, at::ScalarType common) {
  using Input = c10::MaybeOwned<Tensor>;
  return t.device().is_cpu() || t.scalar_type() == common ? Input::borrowed(t) : Input::owned(t.to(common));
}

}  // namespace mpsx::ops
