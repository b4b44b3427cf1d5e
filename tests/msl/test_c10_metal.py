"""Compare the functions in torch's c10/metal/*.h with scipy, numpy and torch. One kernel tests each function."""

import numpy as np
import pytest
import torch
from c10_headers import has

import mpsx

special = pytest.importorskip("scipy.special")
HEADERS = "".join(
    f"#include <c10/metal/{name}.h>\n"
    for name in "atomic common error expm1f igamma indexing random reduction_utils special_math utils".split()
)
F = np.float32
# Before torch 2.13, c10's headers convert imaginary numbers to false, and Philox swaps the high and low halves of its
# products.
NONZERO = "float2(0, x[i])" if has("is_same_v<T, bool> && is_complex_v<U>") else "float2(x[i], 0)"
SWAPPED = not has("rc1.x ^ ctr.y")


def chebyshev(kind, shifted=False):
    """Return a reference for Chebyshev polynomials of kind t, u, v or w. V = U[n] - U[n-1] and W = U[n] + U[n-1]."""

    def value(x, n):
        y = 2 * x - 1 if shifted else x
        u, v = special.eval_chebyu(n, y), special.eval_chebyu(n - 1, y)
        return {"t": special.eval_chebyt(n, y), "u": u, "v": u - v, "w": u + v}[kind]

    return value


def k_scaled(order):
    return lambda x: special.kve(order, x)


# name: (reference, minimum x, maximum x)
UNARY = {
    "erf": (special.erf, -3, 3), "erfc": (special.erfc, -3, 3), "erfinv": (special.erfinv, -0.99, 0.99),
    "erfcx": (special.erfcx, -2, 60), "digamma": (special.digamma, 0.05, 20), "i0": (special.i0, -12, 12),
    "i1": (special.i1, -12, 12), "i0e": (special.i0e, -20, 20), "i1e": (special.i1e, -20, 20),
    "gamma": (special.gamma, 0.05, 9), "log_gamma": (special.gammaln, 0.05, 30),
    "bessel_j0_forward": (special.j0, -20, 20), "bessel_j1_forward": (special.j1, -20, 20),
    "bessel_y0_forward": (special.y0, 0.1, 20), "bessel_y1_forward": (special.y1, 0.1, 20),
    "modified_bessel_i0_forward": (special.i0, -12, 12), "modified_bessel_i1_forward": (special.i1, -12, 12),
    "modified_bessel_k0_forward": (special.k0, 0.1, 12), "modified_bessel_k1_forward": (special.k1, 0.1, 12),
    "scaled_modified_bessel_k0_forward": (k_scaled(0), 0.1, 20),
    "scaled_modified_bessel_k1_forward": (k_scaled(1), 0.1, 20),
    "spherical_bessel_j0": (lambda x: special.spherical_jn(0, x), 0.05, 20), "sinc": (np.sinc, -4, 4),
    "entr": (special.entr, 0, 5), "log1p": (np.log1p, -0.9, 9), "expm1f": (np.expm1, -9, 9),
}  # fmt: skip
BINARY = {
    "zeta": (special.zeta, (1.1, 9), (0.1, 9)), "logaddexp": (np.logaddexp, (-9, 9), (-9, 9)),
    "logaddexp2": (np.logaddexp2, (-9, 9), (-9, 9)), "xlogy": (special.xlogy, (-3, 3), (0.1, 9)),
    "xlog1py": (special.xlog1py, (-3, 3), (-0.9, 9)), "pow": (np.power, (0.1, 4), (-3, 3)),
    "hypot": (np.hypot, (0, 9), (0, 9)), "igamma": (special.gammainc, (0.1, 9), (0.1, 9)),
    "igammac": (special.gammaincc, (0.1, 9), (0.1, 9)), "floor_divide": (np.floor_divide, (-9, 9), (0.3, 3)),
    "fmod": (np.fmod, (-9, 9), (0.3, 3)), "remainder": (np.mod, (-9, 9), (0.3, 3)),
    "mul": (np.multiply, (-9, 9), (-9, 9)), "div": (np.divide, (-9, 9), (1, 9)),
    "max": (np.maximum, (-9, 9), (-9, 9)), "min": (np.minimum, (-9, 9), (-9, 9)),
}  # fmt: skip
POLYNOMIALS = {
    **{f"{'shifted_' if s else ''}chebyshev_polynomial_{k}_forward": chebyshev(k, s) for k in "tuvw" for s in (0, 1)},
    "hermite_polynomial_h_forward": lambda x, n: special.eval_hermite(n, x),
    "hermite_polynomial_he_forward": lambda x, n: special.eval_hermitenorm(n, x),
}
INTEGERS = {"floor_divide": np.floor_divide, "fmod": np.fmod, "remainder": np.mod, "safe_mod": np.fmod,
            "mul": np.multiply, "max": np.maximum, "min": np.minimum, "ceil_div": lambda a, b: (a + b - 1) // b,
            "round_up": lambda a, b: (a + b - 1) // b * b}  # fmt: skip
# Skip functions that are missing from the headers of older torch versions.
for functions in (UNARY, BINARY, POLYNOMIALS, INTEGERS):
    for absent in [name for name in functions if not has(name)]:
        del functions[absent]


@pytest.fixture(scope="module")
def library():
    """Compile one kernel per function, with float, int or float2 operands."""
    text = HEADERS + "using namespace metal;\n"

    def kernel(name, body, out="float"):
        nonlocal text
        text += (
            f"kernel void {name}(device {out}* out, device const {out}* x, device const {out}* y, "
            f"constant int& n, uint i [[thread_position_in_grid]]) {{ {body}; (void)y, (void)n; }}\n"
        )

    for f in UNARY:
        kernel(f"unary_{f}", f"out[i] = c10::metal::{f}(x[i])")
    for f in BINARY:
        kernel(f"binary_{f}", f"out[i] = c10::metal::{f}(x[i], y[i])")
    for f in POLYNOMIALS:
        kernel(f"polynomial_{f}", f"out[i] = c10::metal::{f}(x[i], n)")
    kernel("polynomial_polygamma", "out[i] = c10::metal::polygamma(n, x[i])")
    for f in INTEGERS:
        kernel(f"integer_{f}", f"out[i] = c10::metal::{f}(x[i], y[i])", "int")
    kernel("integer_pow", "out[i] = c10::metal::pow(x[i], y[i])", "int")
    kernel("integer_pow_unsigned", "out[i] = int(c10::metal::pow(uint(x[i]), uint(y[i])))", "int")
    for f in ("mul", "div", "pow", "logaddexp"):
        kernel(f"complex_{f}", f"out[i] = c10::metal::{f}(x[i], y[i])", "float2")
    for f in ("sinc", "log1p", "conj"):
        kernel(f"complex_{f}", f"out[i] = c10::metal::{f}(x[i])", "float2")
    kernel(
        "casts",
        "out[2 * i] = c10::metal::cast_to<float2>(x[i]).x + c10::metal::cast_to<half>(float2(x[i], 9)); "
        f"out[2 * i + 1] = c10::metal::cast_to<bool>({NONZERO}) + c10::metal::cast_to<int>(x[i])",
    )
    if has("less"):
        kernel("less", "out[i] = c10::metal::less(x[i], y[i]) + 2 * c10::metal::less(int(x[i]), int(y[i]))")
    kernel(
        "random",
        "out[3 * i] = c10::metal::rand(n, i); out[3 * i + 1] = c10::metal::randn(n, i); "
        "out[3 * i + 2] = c10::metal::randint64(n, i, -5, 5)",
    )
    if has("box_muller_from_philox"):
        kernel("normal", "out[i] = c10::metal::box_muller_from_philox(c10::metal::philox4::rand(n, i).xy).x")
    return mpsx.compile_shader(text)


def call(library, name, x, y=None, n=0, out=None):
    """Run the kernel. Its output has the shape and dtype of `out`, or of x if `out` is None."""
    result = torch.zeros_like(x if out is None else out, device="mpsx")
    y = x if y is None else y
    getattr(library, name)(result, x.to("mpsx"), y.to("mpsx"), n, arg_casts={3: "int32"}, threads=len(x))
    return result.cpu()


def close(got, want, scale=5e-6):
    """Compare with a tolerance relative to the largest value: near their zeros, polynomials cancel."""
    want = np.asarray(want, np.float64)
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=20 * scale, atol=scale * np.abs(want).max())


@pytest.mark.parametrize("name", UNARY)
def test_unary(library, name):
    reference, low, high = UNARY[name]
    x = torch.linspace(low, high, 301)
    close(call(library, f"unary_{name}", x), reference(x.numpy().astype(np.float64)))


@pytest.mark.parametrize("name", BINARY)
def test_binary(library, name):
    reference, a, b = BINARY[name]
    x, y = torch.empty(300).uniform_(*a), torch.empty(300).uniform_(*b)
    want = reference(x.numpy().astype(np.float64), y.numpy().astype(np.float64))
    close(call(library, f"binary_{name}", x, y), want)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(library, name):
    x = torch.linspace(0.02, 0.97, 101)
    for n in (0, 1, 2, 5, 9):
        close(call(library, f"polynomial_{name}", x, n=n), POLYNOMIALS[name](x.numpy().astype(np.float64), n), 2e-5)


def test_polygamma(library):
    x = torch.linspace(0.3, 9, 101)
    for n in (1, 2, 3):
        close(call(library, "polynomial_polygamma", x, n=n), special.polygamma(n, x.numpy().astype(np.float64)), 1e-5)


def test_edges(library):
    nan, inf = float("nan"), float("inf")
    x, y = torch.tensor([nan, 1.0, -inf, inf]), torch.tensor([1.0, nan, inf, inf])
    for name, want in (("max", torch.maximum), ("min", torch.minimum), ("logaddexp", torch.logaddexp)):
        torch.testing.assert_close(call(library, f"binary_{name}", x, y), want(x, y), equal_nan=True)
    if "xlogy" in BINARY:
        zero, some = torch.zeros(3), torch.tensor([0.0, nan, 2.0])
        torch.testing.assert_close(call(library, "binary_xlogy", zero, some), torch.xlogy(zero, some), equal_nan=True)
    for name, want in (("digamma", torch.digamma), ("erfinv", torch.erfinv), ("entr", torch.special.entr)):
        x = torch.tensor([0.0, 1.0, -1.0, nan, -2.5, inf])
        torch.testing.assert_close(call(library, f"unary_{name}", x), want(x), equal_nan=True, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(library, name):
    rng = np.random.default_rng(0)
    low = 0 if name in ("ceil_div", "round_up") else -100
    x, y = (rng.integers(low, 100, 300).astype(np.int32) for _ in range(2))
    y[y == 0] = 7
    got = call(library, f"integer_{name}", torch.from_numpy(x), torch.from_numpy(y))
    np.testing.assert_array_equal(got, INTEGERS[name](x, y))


def test_integer_powers(library):
    x, y = (t.flatten().int() for t in torch.meshgrid(torch.arange(-4, 5), torch.arange(0, 8), indexing="ij"))
    torch.testing.assert_close(call(library, "integer_pow", x, y), x**y)
    torch.testing.assert_close(call(library, "integer_pow_unsigned", x.abs(), y), x.abs() ** y)
    x, y = torch.tensor([1, -1, -1, 5, -7], dtype=torch.int32), torch.tensor([-3, -3, -2, -1, -2], dtype=torch.int32)
    assert call(library, "integer_pow", x, y).tolist() == [1, -1, 1, 0, 0]


@pytest.mark.parametrize(("name", "reference"), [
    ("mul", np.multiply), ("div", np.divide), ("pow", np.power),
    ("logaddexp", lambda a, b: np.log(np.exp(a) + np.exp(b))),
    ("sinc", lambda a, b: np.sin(np.pi * a) / (np.pi * a)), ("log1p", lambda a, b: np.log(1 + a)),
    ("conj", lambda a, b: a.conj()),
])  # fmt: skip
def test_complex(library, name, reference):
    x, y = torch.randn(50, dtype=torch.complex64), torch.randn(50, dtype=torch.complex64)
    got = call(library, f"complex_{name}", torch.view_as_real(x), torch.view_as_real(y))
    want = reference(x.numpy().astype(np.complex128), y.numpy().astype(np.complex128))
    close(got, want.view(np.float64).reshape(-1, 2), 1e-5)


def test_casts(library):
    x = torch.tensor([0.0, 2.5, -3.75])
    got = call(library, "casts", x, out=torch.zeros(6)).view(3, 2)
    assert got[:, 0].tolist() == [0, 5, -7.5]
    assert got[:, 1].tolist() == [0, 1 + 2, 1 - 3]


@pytest.mark.skipif(not has("less"), reason="the headers of this version lack it")
def test_less(library):
    x, y = torch.tensor([0.0, 2.5, 4.0]), torch.tensor([0.0, 3.0, 3.0])
    assert call(library, "less", x, y).tolist() == [0, 1 + 2, 0]


def philox(seed, index):
    """Compute Philox4x32-10 as random.h does: nine rounds, with the index in the last two words."""
    c, k = [0, 0, index >> 32, index & 0xFFFFFFFF], [seed >> 32, seed & 0xFFFFFFFF]
    for _ in range(9):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        (b, y), (a, x) = ((p & 0xFFFFFFFF, p >> 32)[:: 1 if SWAPPED else -1] for p in (b, a))
        c = [b ^ c[1] ^ k[0], y, a ^ c[3] ^ k[1], x]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniform(count):
    """Return `count` numbers between 0 and 1, computed from Philox output as in random.h."""
    words = np.array([philox(42, i) for i in range(count)], np.uint32)
    return (words & 0x7FFFFFFF).astype(F) * F(4.6566127342e-10)


def normal(a, b):
    """Return the first of the two normal numbers that the Box-Muller transform computes."""
    return np.sqrt(-2 * np.log(a.astype(np.float64))) * np.cos(2 * np.pi * b.astype(np.float64))


def test_random(library):
    got = call(library, "random", torch.zeros(500), n=42, out=torch.zeros(1500)).view(500, 3).numpy()
    want = uniform(500)
    np.testing.assert_allclose(got[:, 0], want[:, 0], rtol=1e-6)
    np.testing.assert_allclose(got[:, 1], normal(1 - want[:, 0].astype(np.float64), 1 - want[:, 1]), atol=2e-5)
    np.testing.assert_array_equal(got[:, 2], -5 + (want[:, 0] * 10).astype(int))


@pytest.mark.skipif(not has("box_muller_from_philox"), reason="the headers of this version lack it")
def test_box_muller(library):
    want = uniform(500)
    got = call(library, "normal", torch.zeros(500), n=42).numpy()
    np.testing.assert_allclose(got, normal(np.maximum(want[:, 0], 2.0**-23), want[:, 1]), atol=2e-5)
