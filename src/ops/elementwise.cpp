#include "ops/elementwise.h"

#include <ATen/Dispatch.h>
#include <ATen/ScalarOps.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>

#include <limits>

#include "ops/strided.h"

namespace mpsx::ops {
namespace {

constexpr int kMaxOperands = 4;
constexpr uint32_t kTile = kTransposeTile;
constexpr int64_t kWorthRepeating = 16;  // copies of a value, rather than computing it again
constexpr uint64_t kFewRepeated = 2048;  // values that are computed again all the same: the copy is a launch
constexpr uint64_t kWorthTurning = 256;  // elements of a transposed operand, rather than computing with large strides
constexpr uint64_t kFew = 8192;          // elements that are copied one by one rather than in tiles
constexpr int64_t kNarrow = 4;           // the shorter side of what a CPU transposes in squares
constexpr int64_t kShortRow = 8;         // elements of a row that cost less than the row itself
constexpr int64_t kPanel = 1 << 17;      // elements of a copy that a core's cache still holds when it is read

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

// What a launch needs of a TensorIterator, inputs possibly swapped.
struct ElementwiseKernels::Operands {
  int count;  // output included
  int ndim;
  char* data[kMaxOperands];
  int64_t size[64];
  int64_t stride[kMaxOperands][64];  // bytes
  int64_t element[kMaxOperands];     // bytes
  bool inlined[kMaxOperands] = {};
  uint64_t numel;

  Operands() = default;
  // Of most tensors, two of the 64 dimensions.
  Operands(const Operands& other) : count(other.count), ndim(other.ndim), numel(other.numel) {
    std::copy_n(other.size, std::max(ndim, 1), size);
    for (int k = 0; k < kMaxOperands; ++k) {
      data[k] = other.data[k];
      element[k] = other.element[k];
      inlined[k] = other.inlined[k];
      if (k < count) std::copy_n(other.stride[k], std::max(ndim, 1), stride[k]);
    }
  }
  Operands& operator=(const Operands&) = delete;

  bool dense(int k) const { return ndim == 0 || (ndim == 1 && (stride[k][0] == element[k] || size[0] == 1)); }
  bool all_dense() const {
    for (int k = 0; k < count; ++k)
      if (!inlined[k] && !dense(k)) return false;
    return true;
  }
  int64_t inner(int k) const { return ndim == 0 ? 1 : stride[k][0] / element[k]; }
  // Every input is the same along x, and the output is not.
  bool repeats() const {
    for (int k = 1; k < count; ++k)
      if (inner(k) != 0) return false;
    return inner(0) == 1 && size[0] >= kWorthRepeating;
  }
  // Contiguous along the second dimension, as a transposed operand is.
  bool turned(int k) const {
    if (ndim < 2) return false;
    const bool tiles = std::min(size[0], size[1]) >= kNarrow || numel <= kFew;
    return tiles && inner(k) > 1 && stride[k][1] == element[k];
  }
  // The output is dense along x, and so are the inputs but for some that are the same along it, or transposed.
  bool worth_spreading() const {
    bool repeated = false, dense_along = false, any_turned = false;
    for (int k = 1; k < count; ++k) {
      const int64_t step = inner(k);
      if (step != 0 && step != 1 && !turned(k)) return false;
      (step == 0 ? repeated : step == 1 ? dense_along : any_turned) = true;
    }
    if (inner(0) != 1) return false;
    return any_turned ? numel >= kWorthTurning : size[0] >= kWorthRepeating && repeated && dense_along;
  }
  // The dimension that is worth looping over in place of a short innermost one; 0 if there is none.
  int longer() const {
    if (ndim < 2 || size[0] >= kShortRow) return 0;
    for (int d = 1; d < std::min(ndim, 4); ++d)
      if (size[d] >= 2 * size[0] && size[d] >= kShortRow) return d;
    return 0;
  }
  void swap_dimensions(int a, int b) {
    std::swap(size[a], size[b]);
    for (int k = 0; k < count; ++k) std::swap(stride[k][a], stride[k][b]);
  }
  // One dimension, where every operand has its elements one after the other.
  void merge() {
    for (int k = 0; k < count; ++k) {
      int64_t step = element[k];
      for (int d = 0; d < ndim; step *= size[d++])
        if (stride[k][d] != step && size[d] != 1) return;
    }
    ndim = 1;
    size[0] = int64_t(numel);
    for (int k = 0; k < count; ++k) stride[k][0] = element[k];
  }
  // Calls body for parts of at most kPanel elements.
  template <typename Body>
  void each_panel(const Body& body) const {
    if (numel <= uint64_t(kPanel)) return body(*this);
    int d = ndim - 1;
    while (d > 1 && size[d] == 1) --d;
    if (d == 1 && size[0] > kPanel / kTile) d = 0;
    const int64_t others = int64_t(numel) / size[d];
    const int64_t step =
        d < 2 ? std::max(int64_t(kTile), kPanel / others / kTile * kTile) : std::max(int64_t(1), kPanel / others);
    for (int64_t begin = 0; begin < size[d]; begin += step) {
      Operands part = *this;
      part.size[d] = std::min(step, size[d] - begin);
      part.numel = uint64_t(others * part.size[d]);
      for (int k = 0; k < count; ++k) part.data[k] += begin * stride[k][d];
      part.each_panel(body);
    }
  }
  // Kernels read the inlined operand's memory too, and take no notice: the other one of its type, so that a loop over x
  // is the same whether one is inlined or not.
  void point_inlined() {
    for (int k = 1; k < count; ++k) {
      if (!inlined[k]) continue;
      const int other = count > 2 ? 2 * count - 3 - k : 0;
      data[k] = data[other];
      element[k] = element[other];
      for (int d = 0; d < ndim; ++d) stride[k][d] = other ? stride[other][d] : 0;
    }
  }
  void swap_inputs() {
    std::swap(data[1], data[2]);
    std::swap(stride[1], stride[2]);
    std::swap(element[1], element[2]);
    std::swap(inlined[1], inlined[2]);
  }
};

ElementwiseKernels::ElementwiseKernels(const std::string& op, int inputs, Order order)
    : op_(op),
      inputs_(inputs),
      order_(order),
      exact_last_(op == "mul" || op == "div" || op == "floor_divide" || op == "lerp"),
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
    const uint32_t per_thread = blocks ? uint32_t(kBlock) : runtime::lanes(size_t(o.element[typed]));
    launch.bytes(s).threads((s.count + per_thread - 1) / per_thread).work(per_thread).run();
  }
}

void ElementwiseKernels::run_strided(const Operands& o, Tag tag, Tag second, const ScalarParams& s) const {
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
  const int64_t narrow = runtime::driver().info().vector_bytes > 0 ? int64_t(kTile) / 2 : kNarrow;
  const bool transposed = inputs_ == 1 && !s.inlined && o.ndim >= 2 && o.inner(0) == 1 && o.inner(1) > 1 &&
                          o.stride[1][1] == o.element[1] && std::min(o.size[0], o.size[1]) >= narrow &&
                          transposed_.has(tag, second);
  if (transposed) set = &transposed_;
  if (set == &any_ && runtime::driver().info().vector_bytes == 0) {
    if (o.repeats()) return run_repeated(o, tag, second, s);
    if (o.worth_spreading()) return o.each_panel([&](const Operands& panel) { run_spread(panel, tag, second, s); });
  }
  if (const int d = o.longer(); d > 0 && !transposed && runtime::driver().info().vector_bytes == 0) {
    o.each_panel([&](Operands panel) {
      panel.swap_dimensions(0, d);
      run_strided(panel, tag, second, s);
    });
    return;
  }
  runtime::KernelEntry& kernel = set->get(tag, second);
  std::array<at::IntArrayRef, kMaxOperands> strides;
  std::array<int64_t, kMaxOperands> elements;
  elements.fill(1);
  for (int k = 0; k < o.count; ++k) {
    strides[size_t(k)] = at::IntArrayRef(o.stride[k], size_t(o.ndim));
    elements[size_t(k)] = o.element[k];
  }
  const at::IntArrayRef sizes(o.size, size_t(o.ndim));
  each_strided<kMaxOperands>(sizes, strides, elements, [&](const StridedParams& p, const auto& offsets) {
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
  Operands wide = o;
  Tensor copies[kMaxOperands];
  for (int k = 1; k < o.count; ++k) {
    if (o.inlined[k] || o.inner(k) == 1) continue;
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
    copy_strided(copy);
  }
  wide.point_inlined();
  wide.merge();
  if (!wide.all_dense()) return run_strided(wide, tag, second, s);
  ScalarParams dense = s;
  run_dense(wide, tag, second, dense);
}

c10::MaybeOwned<Tensor> to_common(const Tensor& t, at::ScalarType common) {
  using Input = c10::MaybeOwned<Tensor>;
  return t.device().is_cpu() || t.scalar_type() == common ? Input::borrowed(t) : Input::owned(t.to(common));
}

Tensor& write_out(const char* op, const Tensor& result, Tensor& out) {
  TORCH_CHECK(c10::canCast(result.scalar_type(), out.scalar_type()), op, ": result type ", result.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  TORCH_CHECK(out.device() == result.device(), op, ": expected out on ", result.device(), ", got ", out.device());
  at::native::resize_output(out, result.sizes());
  out.copy_(result);
  return out;
}

}  // namespace mpsx::ops
