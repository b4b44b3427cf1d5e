// The elementwise operators in torch.ops.mpsx: every row of the operator tables, and operators with additional
// arguments.
#include "ops/explicit.h"

namespace mpsx::ops::explicit_ops {
namespace {

constexpr Mirror kElementwise[] = {
#define MPSX_UNARY(NAME, ...) {#NAME, #NAME, "", Accepts::NUMBERS},
#include "elementwise/unary.def"
#define MPSX_BINARY(NAME, OVERLOAD, ...) {#NAME, #NAME, #OVERLOAD, Accepts::NUMBERS},
#include "elementwise/binary.def"
#define MPSX_COMPARE(NAME, OVERLOADS, ...) {#NAME, #NAME, MPSX_COMPARE_##OVERLOADS, Accepts::NUMBERS},
#define MPSX_COMPARE_SCALAR "Tensor"
#define MPSX_COMPARE_TENSOR ""
#include "elementwise/compare.def"
    {"pow", "pow", "Tensor_Tensor", Accepts::NUMBERS},
    {"pow", "pow", "Tensor_Scalar", Accepts::NUMBERS, "Scalar"},
    {"rsub", "rsub", "Tensor", Accepts::NUMBERS},
    {"remainder", "remainder", "Tensor", Accepts::NUMBERS},
    {"fmod", "fmod", "Tensor", Accepts::NUMBERS},
    {"floor_divide", "floor_divide", "", Accepts::NUMBERS},
    {"where", "where", "self", Accepts::NUMBERS},
    {"where", "where", "ScalarSelf", Accepts::NUMBERS, "ScalarSelf"},
    {"where", "where", "ScalarOther", Accepts::NUMBERS, "ScalarOther"},
    {"masked_fill", "masked_fill", "Scalar", Accepts::NUMBERS},
    {"clamp", "clamp", "", Accepts::NUMBERS},
    {"addcmul", "addcmul", "", Accepts::NUMBERS},
    {"addcdiv", "addcdiv", "", Accepts::NUMBERS},
    {"lerp", "lerp", "Tensor", Accepts::FLOATS},
    {"gelu", "gelu", "", Accepts::FLOATS},
    {"silu", "silu", "", Accepts::FLOATS},
    {"leaky_relu", "leaky_relu", "", Accepts::FLOATS},
    {"elu", "elu", "", Accepts::FLOATS},
    {"hardtanh", "hardtanh", "", Accepts::FLOATS},
    {"hardswish", "hardswish", "", Accepts::FLOATS},
    {"hardsigmoid", "hardsigmoid", "", Accepts::FLOATS},
    {"softplus", "softplus", "", Accepts::FLOATS},
    {"mish", "mish", "", Accepts::FLOATS},
    // Operators that only derivatives use.
    {"gelu_backward", "gelu_backward", "", Accepts::FLOATS},
    {"silu_backward", "silu_backward", "", Accepts::FLOATS},
    {"leaky_relu_backward", "leaky_relu_backward", "", Accepts::FLOATS},
    {"elu_backward", "elu_backward", "", Accepts::FLOATS},
    {"hardtanh_backward", "hardtanh_backward", "", Accepts::FLOATS},
    {"hardswish_backward", "hardswish_backward", "", Accepts::FLOATS},
    {"hardsigmoid_backward", "hardsigmoid_backward", "", Accepts::FLOATS},
    {"softplus_backward", "softplus_backward", "", Accepts::FLOATS},
    {"mish_backward", "mish_backward", "", Accepts::FLOATS},
    {"threshold_backward", "threshold_backward", "", Accepts::FLOATS},
    {"sum_to_size", "sum_to_size", "", Accepts::FLOATS},
};

// Wraps a tensor, so that arithmetic on it calls explicit operators. Formulas can then be written in mathematical
// notation.
struct V {
  Tensor t;
};
V operator*(const V& a, const V& b) { return {run<"mul">(a.t, b.t)}; }
V operator/(const V& a, const V& b) { return {run<"div">(a.t, b.t)}; }
V operator+(const V& a, const V& b) { return {run<"add">(a.t, b.t, at::Scalar(1))}; }
V operator-(const V& a, const V& b) { return {run<"sub">(a.t, b.t, at::Scalar(1))}; }
V operator-(const V& a) { return {run<"neg">(a.t)}; }
V operator*(const V& a, const at::Scalar& b) { return {run<"mul.Scalar">(a.t, b)}; }
V operator/(const V& a, const at::Scalar& b) { return {run<"div.Scalar">(a.t, b)}; }
V operator+(const V& a, double b) { return {run<"add.Scalar">(a.t, at::Scalar(b), at::Scalar(1))}; }
V operator-(const V& a, double b) { return a + -b; }
V operator-(double a, const V& b) { return {run<"rsub.Scalar">(b.t, at::Scalar(a), at::Scalar(1))}; }
template <OpName Name, typename... Rest>
V f(const V& x, const Rest&... rest) {
  return {run<Name>(x.t, rest...)};
}
V zero_like(const V& x) { return x * 0.0; }
// Returns zero where `condition` is true, and x elsewhere.
V zero_where(const V& condition, const V& x) { return {run<"masked_fill">(x.t, condition.t, at::Scalar(0))}; }
V is_zero(const V& x) { return {run<"eq.Scalar">(x.t, at::Scalar(0))}; }
V either(const V& a, const V& b) { return {run<"logical_or">(a.t, b.t)}; }

constexpr double kLn2 = 0.693147180559945309;
constexpr double kTwoOverSqrtPi = 1.128379167095512574;

// SAVED lists the tensors that the formula needs in addition to the gradient g: the input x, the result y, both, or
// neither.
#define SAVED_X kept({0}), 0
#define SAVED_Y 0, kept({0})
#define SAVED_XY kept({0}), kept({0})
#define SAVED_NOTHING 0, 0
#define UNARY(NAME, SAVED, ...)                                                                 \
  {#NAME, SAVED_##SAVED, [](const BackwardCall& c) -> Gradients {                               \
     const V g{c.grad()};                                                                       \
     [[maybe_unused]] const V x{c.tensor(0)}, y{c.result()};                                    \
     return {{0, (__VA_ARGS__).t}};                                                             \
   }},
// For operators with operands a and b. A and B are the expressions for their gradients. Each is evaluated only if
// needed.
#define BINARY(NAME, SAVED, A, B)                                                               \
  {#NAME, SAVED_##SAVED, [](const BackwardCall& c) -> Gradients {                               \
     const V g{c.grad()};                                                                       \
     [[maybe_unused]] const V a{c.tensor(0)}, b{c.tensor(1)}, y{c.result()};                    \
     Gradients gradients;                                                                       \
     if (c.needs(0)) gradients.emplace_back(0, (A).t);                                          \
     if (c.needs(1)) gradients.emplace_back(1, (B).t);                                          \
     return gradients;                                                                          \
   }},
#define SAVED_AB kept({0, 1}), 0
#define SAVED_ABY kept({0, 1}), kept({0})

V scaled(const V& g, const IValue& alpha) {
  return alpha.toScalar().equal(1) ? g : g * alpha.toScalar();
}
// Like PyTorch, returns the gradient where `wins`, zero where `loses`, and half of the gradient where there is a tie.
V share(const V& g, const V& wins, const V& loses) {
  return {run<"where">(wins.t, g.t, zero_where(loses, g * 0.5).t)};
}
V sign_change(const V& g, const V& magnitude, const V& result) {
  return zero_where(is_zero(magnitude), g * (result / magnitude));
}
V power_slope(const V& g, const V& base, const V& exponent) {
  return zero_where(is_zero(exponent), g * (exponent * f<"pow">(base, (exponent - 1.0).t)));
}
// Returns the gradient of base^e with respect to e. It is zero where base is 0 and e >= 0.
V exponent_slope(const V& g, const V& base, const V& exponent, const V& y) {
  const V flat{run<"logical_and">(is_zero(base).t, f<"ge.Scalar">(exponent, at::Scalar(0)).t)};
  return zero_where(flat, g * (y * f<"log">(base)));
}
Gradients scalar_power(const BackwardCall& c) {
  const at::Scalar exponent = c.argument(1).toScalar();
  const V g{c.grad()}, x{c.tensor(0)};
  if (exponent.equal(0)) return {{0, zero_like(g).t}};
  return {{0, (g * (f<"pow.Scalar">(x, at::Scalar(exponent.toDouble() - 1.0)) * exponent)).t}};
}

// Operators in unary.def without a row in this table use aten's derivative (aten_gradient), which recomputes the
// forward pass.
constexpr Derivative kDerivatives[] = {
    UNARY(neg, NOTHING, -g)
    UNARY(abs, X, g * f<"sign">(x))
    UNARY(sign, NOTHING, zero_like(g))
    UNARY(sgn, NOTHING, zero_like(g))
    UNARY(square, X, g * (x * 2.0))
    UNARY(reciprocal, Y, -(g * (y * y)))
    UNARY(sqrt, Y, g / (y * 2.0))
    UNARY(rsqrt, Y, g * (y * y * y) * -0.5)
    UNARY(exp, Y, g * y)
    UNARY(expm1, Y, g * (y + 1.0))
    UNARY(log, X, g / x)
    UNARY(log2, X, g / (x * kLn2))
    UNARY(log1p, X, g / (x + 1.0))
    UNARY(sin, X, g * f<"cos">(x))
    UNARY(cos, X, -(g * f<"sin">(x)))
    UNARY(asin, X, g * f<"rsqrt">(1.0 - x * x))
    UNARY(acos, X, -(g * f<"rsqrt">(1.0 - x * x)))
    UNARY(atan, X, g / (x * x + 1.0))
    UNARY(sinh, X, g * f<"cosh">(x))
    UNARY(cosh, X, g * f<"sinh">(x))
    UNARY(tanh, Y, g * (1.0 - y * y))
    UNARY(erf, X, g * f<"exp">(-(x * x)) * kTwoOverSqrtPi)
    UNARY(sigmoid, Y, g * (y * (1.0 - y)))
    UNARY(floor, NOTHING, zero_like(g))
    UNARY(relu, Y, f<"threshold_backward">(g, y.t, at::Scalar(0)))
    UNARY(gelu, X, f<"gelu_backward">(g, x.t, c.argument(1)))
    UNARY(silu, X, f<"silu_backward">(g, x.t))
    UNARY(leaky_relu, X, f<"leaky_relu_backward">(g, x.t, c.argument(1), false))
    UNARY(elu, X, f<"elu_backward">(g, c.argument(1), c.argument(2), c.argument(3), false, x.t))
    UNARY(hardtanh, X, f<"hardtanh_backward">(g, x.t, c.argument(1), c.argument(2)))
    UNARY(hardswish, X, f<"hardswish_backward">(g, x.t))
    UNARY(hardsigmoid, X, f<"hardsigmoid_backward">(g, x.t))
    UNARY(softplus, X, f<"softplus_backward">(g, x.t, c.argument(1), c.argument(2)))
    UNARY(mish, X, f<"mish_backward">(g, x.t))

    BINARY(add, NOTHING, g, scaled(g, c.argument(2)))
    BINARY(sub, NOTHING, g, -scaled(g, c.argument(2)))
    BINARY(rsub, NOTHING, -scaled(g, c.argument(2)), g)
    {"mul", kept({0, 1}), 0,
     [](const BackwardCall& c) -> Gradients {
       Gradients gradients;
       if (c.needs(0)) gradients.emplace_back(0, run<"mul">(c.grad(), c.tensor(1)));
       if (c.needs(1)) gradients.emplace_back(1, run<"mul">(c.grad(), c.tensor(0)));
       return gradients;
     },
     [](uint64_t wanted) { return (wanted & 1) << 1 | wanted >> 1; }},
    BINARY(div, AB, g / b, -(g * (a / (b * b))))
    BINARY(maximum, AB, share(g, f<"gt">(a, b.t), f<"lt">(a, b.t)), share(g, f<"gt">(b, a.t), f<"lt">(b, a.t)))
    BINARY(minimum, AB, share(g, f<"lt">(a, b.t), f<"gt">(a, b.t)), share(g, f<"lt">(b, a.t), f<"gt">(b, a.t)))
    BINARY(fmax, AB, zero_where(f<"logical_not">(either(f<"ge">(a, b.t), f<"isnan">(b))), g),
           zero_where(either(f<"ge">(a, b.t), f<"isnan">(b)), g))
    BINARY(fmin, AB, zero_where(f<"logical_not">(either(f<"le">(a, b.t), f<"isnan">(b))), g),
           zero_where(either(f<"le">(a, b.t), f<"isnan">(b)), g))
    BINARY(atan2, AB, g * (b / (a * a + b * b)), g * (-a / (a * a + b * b)))
    BINARY(hypot, ABY, g * (a / y), g * (b / y))
    BINARY(copysign, ABY, sign_change(g, a, y), zero_like(g))
    BINARY(pow, ABY, power_slope(g, a, b), exponent_slope(g, a, b, y))
    BINARY(remainder, AB, g, -(g * f<"floor">(a / b)))
    BINARY(fmod, AB, g, -(g * f<"trunc">(a / b)))

    UNARY(add.Scalar, NOTHING, g)
    UNARY(sub.Scalar, NOTHING, g)
    UNARY(rsub.Scalar, NOTHING, -scaled(g, c.argument(2)))
    UNARY(mul.Scalar, NOTHING, g * c.argument(1).toScalar())
    UNARY(div.Scalar, NOTHING, g / c.argument(1).toScalar())
    UNARY(copysign.Scalar, XY, sign_change(g, x, y))
    UNARY(remainder.Scalar, NOTHING, g)
    UNARY(fmod.Scalar, NOTHING, g)
    {"pow.Scalar", kept({0}), 0, &scalar_power},

    {"where", kept({0}), 0,
     [](const BackwardCall& c) -> Gradients {
       const V g{c.grad()}, condition{c.tensor(0)};
       Gradients gradients;
       if (c.needs(1)) gradients.emplace_back(1, zero_where(f<"logical_not">(condition), g).t);
       if (c.needs(2)) gradients.emplace_back(2, zero_where(condition, g).t);
       return gradients;
     }},
    {"where.ScalarSelf", kept({0}), 0,
     [](const BackwardCall& c) -> Gradients { return {{2, zero_where({c.tensor(0)}, {c.grad()}).t}}; }},
    {"where.ScalarOther", kept({0}), 0,
     [](const BackwardCall& c) -> Gradients {
       return {{1, zero_where(f<"logical_not">({c.tensor(0)}), {c.grad()}).t}};
     }},
    {"masked_fill", kept({1}), 0,
     [](const BackwardCall& c) -> Gradients {
       return {{0, run<"masked_fill">(c.grad(), c.tensor(1), at::Scalar(0))}};
     }},
    {"clamp", kept({0}), 0,
     [](const BackwardCall& c) -> Gradients {
       const V x{c.tensor(0)};
       V g{c.grad()};
       if (!c.argument(1).isNone()) g = zero_where(f<"lt.Scalar">(x, c.argument(1).toScalar()), g);
       if (!c.argument(2).isNone()) g = zero_where(f<"gt.Scalar">(x, c.argument(2).toScalar()), g);
       return {{0, g.t}};
     }},
    {"addcmul", kept({1, 2}), 0,
     [](const BackwardCall& c) -> Gradients {
       const V g{c.grad()}, a{c.tensor(1)}, b{c.tensor(2)}, s = scaled(g, c.argument(3));
       Gradients gradients{{0, g.t}};
       if (c.needs(1)) gradients.emplace_back(1, (s * b).t);
       if (c.needs(2)) gradients.emplace_back(2, (s * a).t);
       return gradients;
     }},
    {"addcdiv", kept({1, 2}), 0,
     [](const BackwardCall& c) -> Gradients {
       const V g{c.grad()}, a{c.tensor(1)}, b{c.tensor(2)}, s = scaled(g, c.argument(3)) / b;
       Gradients gradients{{0, g.t}};
       if (c.needs(1)) gradients.emplace_back(1, s.t);
       if (c.needs(2)) gradients.emplace_back(2, (-(s * (a / b))).t);
       return gradients;
     }},
    {"lerp", kept({0, 1, 2}), 0,
     [](const BackwardCall& c) -> Gradients {
       const V g{c.grad()}, start{c.tensor(0)}, end{c.tensor(1)}, weight{c.tensor(2)};
       Gradients gradients;
       if (c.needs(0)) gradients.emplace_back(0, (g * (1.0 - weight)).t);
       if (c.needs(1)) gradients.emplace_back(1, (g * weight).t);
       if (c.needs(2)) gradients.emplace_back(2, (g * (end - start)).t);
       return gradients;
     }},
    {"lerp.Scalar", 0, 0,
     [](const BackwardCall& c) -> Gradients {
       const V g{c.grad()};
       const double weight = c.argument(2).toScalar().toDouble();
       return {{0, (g * at::Scalar(1.0 - weight)).t}, {1, (g * at::Scalar(weight)).t}};
     }},
};

constexpr const char* kUnary[] = {
#undef MPSX_UNARY
#define MPSX_UNARY(NAME, ...) #NAME,
#include "elementwise/unary.def"
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  for (Mirror mirror : kElementwise) {
    // PyTorch's Meta kernel for copysign does not preserve the dimension order. The one for atan2 does and promotes
    // dtypes in the same way.
    if (std::string_view(mirror.name) == "copysign") mirror.meta = "atan2";
    mirror_aten(m, mirror);
    // As in aten, there is a separate overload if the second operand may be a scalar.
    const Mirror with_number{mirror.name, mirror.target, "Scalar", mirror.accepts, "Scalar"};
    if (std::string_view(mirror.overload) == "Tensor" && exists_in_aten(with_number)) mirror_aten(m, with_number);
  }
  for (const Derivative& derivative : kDerivatives) add_derivative(m, derivative);
  for (const char* name : kUnary) {
    const auto same = [&](const Derivative& d) { return std::string_view(d.op) == name; };
    if (std::ranges::none_of(kDerivatives, same)) add_derivative(m, {name, kept({0}), 0, &aten_gradient});
  }
  for (const char* name : {"gelu_backward", "silu_backward", "leaky_relu_backward", "elu_backward", "hardtanh_backward",
                           "hardswish_backward", "hardsigmoid_backward", "softplus_backward", "mish_backward",
                           "threshold_backward", "sum_to_size", "floor_divide"})
    add_not_differentiable(m, name);
}

}  // namespace mpsx::ops::explicit_ops
