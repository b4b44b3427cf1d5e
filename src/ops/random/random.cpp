// Random fills. PyTorch's own templates (ATen/native/DistributionTemplates.h) check the arguments. The distributions
// are functors in metal/random/fill.metal.
#include "ops/random/random.h"
#include "runtime/random_argument.h"

#include <ATen/native/DistributionTemplates.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/bit_cast.h>
#include <torch/library.h>

#include <cmath>

#include "backend/generator.h"
#include "ops/elementwise/complex.h"
#include "ops/operator.h"

namespace mpsx::ops {

RandomParams random_params(const std::optional<at::Generator>& generator, uint64_t numel, uint64_t per_chunk) {
  const auto state = backend::next_philox(generator, random_chunks(numel, per_chunk) * kRandomBlocks);
  RandomParams params{};
  params.seed = state.seed;
  params.offset = state.offset;
  params.numel = numel;
  return params;
}

uint32_t bernoulli_bound(double p) { return uint32_t(std::max(std::round(p * 0x1p32), 1.0) - 1.0); }

Launch& over_chunks(Launch& launch, const RandomParams& params, uint64_t per_chunk) {
  constexpr uint64_t draw_cost = 4;
  const uint64_t chunks = random_chunks(params.numel, per_chunk);
  TORCH_CHECK(chunks <= 0xffffffffu, "random fill: expected fewer than 2^42 elements, got ", params.numel);
  return launch.groups({uint32_t(chunks)}, kRandomBlocks).work(std::min<uint64_t>(params.numel, per_chunk) * draw_cost);
}

namespace {

using Generator = std::optional<at::Generator>;
namespace templates = at::native::templates;

bool is_native(const Tensor& self) { return is_plain(self) && tag_of(self) < Tag::c64; }
bool is_native_float(const Tensor& self) { return is_plain(self) && is_float_tag(tag_of(self)); }
// Returns whether kernels can fill the tensor. This includes complex tensors, because PyTorch fills their real and
// imaginary parts as a float tensor.
bool has_native_halves(const Tensor& self) { return is_native_float(self) || is_plain_complex(self); }

// If self is dense, calls launch(memory) with its memory. Otherwise, uses the memory of a dense copy.
template <typename F>
void into_dense(const Tensor& self, F&& launch) {
  if (self.is_non_overlapping_and_dense()) return launch(self.mutable_data_ptr());
  const Tensor dense = at::empty_like(self, at::MemoryFormat::Contiguous);
  launch(dense.mutable_data_ptr());
  self.copy_(dense);
}

void fill(const KernelSet& kernels, const Tensor& self, const RandomParams& params, uint64_t per_chunk = kRandomChunk) {
  into_dense(self, [&](void* out) {
    Launch launch(kernels.get(tag_of(self)));
    over_chunks(launch.pointer(out).bytes(runtime::random_argument(params)), params, per_chunk).run();
  });
}

RandomParams float_params(const Generator& generator, const Tensor& self, double a, double b = 0, double c = 0) {
  RandomParams params = random_params(generator, self.numel());
  params.a = float(a);
  params.b = float(b);
  params.c = float(c);
  return params;
}

// Returns the largest value of T below `to`, but at least `from`. Both bounds are first rounded to T.
template <typename T>
double greatest_below(double from, double to) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  const T bound = static_cast<T>(to);
  auto bits = c10::bit_cast<Bits>(bound);  // the bit patterns of adjacent numbers differ by 1
  constexpr Bits sign = Bits(1) << (8 * sizeof(T) - 1);
  bits = bound > 0 ? bits - 1 : bound < 0 ? bits + 1 : sign | 1;
  return std::max(static_cast<double>(c10::bit_cast<T>(bits)), static_cast<double>(static_cast<T>(from)));
}
double greatest_below(Tag tag, double from, double to) {
  return tag == Tag::f16    ? greatest_below<at::Half>(from, to)
         : tag == Tag::bf16 ? greatest_below<at::BFloat16>(from, to)
                            : greatest_below<float>(from, to);
}

// PyTorch's templates call these functors after checking the arguments.

template <typename>
struct UniformFill {
  void operator()(at::TensorIteratorBase& iter, double from, double to, const Generator& generator) const {
    static const KernelSet kernels("random_uniform");
    const Tensor& self = iter.tensor(0);
    fill(kernels, self, float_params(generator, self, from, to - from, greatest_below(tag_of(self), from, to)));
  }
};

template <typename>
struct NormalFill {
  void operator()(const Tensor& self, double mean, double std, const Generator& generator) const {
    static const KernelSet kernels("random_normal");
    fill(kernels, self, float_params(generator, self, mean, std));
  }
};

template <typename>
struct LogNormalFill {
  void operator()(at::TensorIteratorBase& iter, double mean, double std, const Generator& generator) const {
    static const KernelSet kernels("random_log_normal");
    fill(kernels, iter.tensor(0), float_params(generator, iter.tensor(0), mean, std));
  }
};

template <typename>
struct ExponentialFill {
  void operator()(at::TensorIteratorBase& iter, double lambda, const Generator& generator) const {
    static const KernelSet kernels("random_exponential");
    fill(kernels, iter.tensor(0), float_params(generator, iter.tensor(0), 1 / lambda));
  }
};

template <typename>
struct CauchyFill {
  void operator()(at::TensorIteratorBase& iter, double median, double sigma, const Generator& generator) const {
    static const KernelSet kernels("random_cauchy");
    fill(kernels, iter.tensor(0), float_params(generator, iter.tensor(0), median, sigma));
  }
};

template <typename>
struct GeometricFill {
  void operator()(at::TensorIteratorBase& iter, double p, const Generator& generator) const {
    static const KernelSet kernels("random_geometric");
    fill(kernels, iter.tensor(0), float_params(generator, iter.tensor(0), 1 / std::log1p(-p)));
  }
};

template <typename>
struct BernoulliFill {
  void operator()(const Tensor& self, double p, const Generator& generator) const {
    static const KernelSet kernels("random_bernoulli");
    RandomParams params = random_params(generator, self.numel());
    if (p == 0) {
      self.zero_();
      return;
    }
    params.bound = bernoulli_bound(p);
    fill(kernels, self, params);
  }
};

template <typename>
struct BernoulliTensorFill {
  void operator()(const Tensor& self, const Tensor& p, const Generator& generator) const {
    static const KernelSet kernels("bernoulli_tensor");
    TORCH_CHECK(at::isFloatingType(p.scalar_type()), "bernoulli: expected floating-point probabilities, got ",
                p.scalar_type());
    TORCH_CHECK(p.numel() == 0 || (p.min().ge(0).item<bool>() && p.max().le(1).item<bool>()),
                "bernoulli: expected probabilities in [0, 1]");
    const Tensor probability = p.to(self.device(), at::kFloat).expand(self.sizes()).contiguous();
    const RandomParams params = random_params(generator, self.numel());
    const Tensor out = self.is_contiguous() ? self : at::empty_like(self, at::MemoryFormat::Contiguous);
    Launch launch(kernels.get(tag_of(self)));
    launch.outputs(out).inputs(probability);
    over_chunks(launch.bytes(runtime::random_argument(params)), params).run();
    if (!out.is_same(self)) self.copy_(out);
  }
};

// Fills a tensor with integers in [base, base + range). A range of 0 means 2^64.
void fill_integers(const Tensor& self, uint64_t range, int64_t base, const Generator& generator) {
  static const KernelSet narrow("random_integer"), wide("random_wide");
  // A single 32-bit random word suffices if all values fit in an int and the range is a power of two or much smaller
  // than 2^32.
  const bool power_of_two = (range & (range - 1)) == 0;
  const bool fits = range != 0 && (range < (uint64_t(1) << 28) || (power_of_two && range <= (uint64_t(1) << 31))) &&
                    base >= std::numeric_limits<int32_t>::min() &&
                    base <= int64_t(std::numeric_limits<int32_t>::max()) - int64_t(range - 1);
  const uint64_t per_chunk = fits ? kRandomChunk : kRandomChunk / 2;
  RandomParams params = random_params(generator, self.numel(), per_chunk);
  params.range = range;
  params.base = base;
  fill(fits ? narrow : wide, self, params, per_chunk);
}

template <typename>
struct RandomFromToFill {
  void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t base, const Generator& generator) const {
    fill_integers(iter.tensor(0), range, base, generator);
  }
  void operator()(at::TensorIteratorBase& iter, const Generator& generator) const {
    fill_integers(iter.tensor(0), 0, std::numeric_limits<int64_t>::lowest(), generator);
  }
};

// Without bounds, random_ draws any nonnegative value of an integer type, or any integer that a floating-point type
// represents exactly.
template <typename>
struct RandomFill {
  void operator()(at::TensorIteratorBase& iter, const Generator& generator) const {
    uint64_t range = 2;
    AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, promoted(iter.dtype()), "random_", [&] {
      using limits = std::numeric_limits<scalar_t>;
      range = limits::is_integer ? uint64_t(limits::max()) + 1 : (uint64_t(1) << limits::digits) + 1;
    });
    fill_integers(iter.tensor(0), iter.dtype() == at::kBool ? 2 : range, 0, generator);
  }

 private:
  static at::ScalarType promoted(at::ScalarType type) { return type == at::kBool ? at::kByte : type; }
};

// Runs one of PyTorch's templates if there are kernels for the element type.
template <auto HAS_KERNEL, auto TEMPLATE, typename... Arguments>
bool fill_in_place(Tensor& self, Arguments... arguments) {
  if (!HAS_KERNEL(self)) return false;
  TEMPLATE(self, arguments...);
  return true;
}

bool has_cauchy(const Tensor& self) {  // integers must reach the template, which rejects them
  return is_native_float(self) || !at::isFloatingType(self.scalar_type());
}
bool has_geometric(const Tensor& self) { return is_native(self) && self.scalar_type() != at::kBool; }

void bernoulli_by_number(Tensor& self, double p, const Generator& generator) {
  templates::bernoulli_impl_<BernoulliFill, at::Generator>(self, p, generator);
}
void bernoulli_by_tensor(Tensor& self, const Tensor& p, const Generator& generator) {
  templates::bernoulli_impl_<BernoulliTensorFill, at::Generator>(self, p, generator);
}
bool bernoulli(const Tensor& p, Generator generator, Tensor& out) {
  if (!is_native(p) || (out.defined() && !is_native(out))) return false;
  if (!out.defined()) out = at::empty_like(p, at::MemoryFormat::Contiguous);  // as on the CPU
  templates::bernoulli_out_impl<BernoulliTensorFill, at::Generator>(out, p, std::move(generator));
  return true;
}

bool random_to(Tensor& self, int64_t to, Generator generator) {
  return fill_in_place<&is_native, &templates::random_from_to_impl<RandomFromToFill, at::Generator>>(
      self, int64_t(0), std::optional<int64_t>(to), std::move(generator));
}

// normal, where the mean, the standard deviation, or both are tensors.
template <typename Mean, typename Std>
bool normal(Mean mean, Std std, Generator generator, Tensor& out) {
  if constexpr (std::is_same_v<Mean, double>) {
    if (!is_native_float(out.defined() ? out : std)) return false;
  } else {
    if (!is_native_float(out.defined() ? out : mean)) return false;
  }
  if (out.defined())
    templates::normal_out_impl<NormalFill, at::Generator>(out, mean, std, std::move(generator));
  else
    out = templates::normal_impl<NormalFill, at::Generator>(mean, std, std::move(generator));
  return true;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using at::Generator;
  using MaybeGenerator = std::optional<Generator>;
  op<"uniform_", &fill_in_place<&has_native_halves, &templates::uniform_impl_<UniformFill, Generator>, double, double,
                                MaybeGenerator>>(m);
  op<"normal_", &fill_in_place<&has_native_halves, &templates::normal_impl_<NormalFill, Generator>, double, double,
                               MaybeGenerator>>(m);
  op<"log_normal_", &fill_in_place<&is_native_float, &templates::log_normal_impl_<LogNormalFill, Generator>, double,
                                   double, MaybeGenerator>>(m);
  op<"exponential_", &fill_in_place<&is_native_float, &templates::exponential_impl_<ExponentialFill, Generator>, double,
                                    MaybeGenerator>>(m);
  op<"cauchy_",
     &fill_in_place<&has_cauchy, &templates::cauchy_impl_<CauchyFill, Generator>, double, double, MaybeGenerator>>(m);
  op<"geometric_",
     &fill_in_place<&has_geometric, &templates::geometric_impl_<GeometricFill, Generator>, double, MaybeGenerator>>(m);
  op<"bernoulli_.float", &fill_in_place<&is_native, &bernoulli_by_number, double, MaybeGenerator>>(m);
  op<"bernoulli_.Tensor", &fill_in_place<&is_native, &bernoulli_by_tensor, const Tensor&, MaybeGenerator>>(m);
  op<"bernoulli", &bernoulli>(m);
  op<"random_", &fill_in_place<&is_native, &templates::random_impl<RandomFill, Generator>, MaybeGenerator>>(m);
  op<"random_.from", &fill_in_place<&is_native, &templates::random_from_to_impl<RandomFromToFill, Generator>, int64_t,
                                    std::optional<int64_t>, MaybeGenerator>>(m);
  op<"random_.to", &random_to>(m);
  op<"normal.Tensor_float", &normal<const Tensor&, double>>(m);
  op<"normal.float_Tensor", &normal<double, const Tensor&>>(m);
  op<"normal.Tensor_Tensor", &normal<const Tensor&, const Tensor&>>(m);
}

}  // namespace mpsx::ops
