"""Accuracy of the Metal math functions on CPUs: compare random floats and difficult arguments with float64."""

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# References and error bounds in ULPs. Measured errors: exp 0.98, exp2 1.02, exp10 1.17, log 0.78,
# log2 1.25, log10 0.87, pow 1.15, sin and cos 1.53, tan 2.57, tanh 1.31, …
UNARY = {
    "exp": (np.exp, 1.1), "exp2": (np.exp2, 1.2), "exp10": (lambda x: np.power(10.0, x), 1.4),
    "log": (np.log, 1.0), "log2": (np.log2, 1.4), "log10": (np.log10, 1.1),
    "sin": (np.sin, 1.7), "cos": (np.cos, 1.7), "tan": (np.tan, 3.0),
    "asin": (np.arcsin, 1.8), "acos": (np.arccos, 1.4), "atan": (np.arctan, 1.5),
    "sinh": (np.sinh, 1.7), "cosh": (np.cosh, 1.7), "tanh": (np.tanh, 1.6),
    "asinh": (np.arcsinh, 2.2), "acosh": (np.arccosh, 2.0), "atanh": (np.arctanh, 2.5),
    "sqrt": (np.sqrt, 0.5), "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
    "floor": (np.floor, 0), "ceil": (np.ceil, 0), "trunc": (np.trunc, 0), "rint": (np.rint, 0),
    "round": (lambda x: np.copysign(np.where(np.isinf(x), x, np.floor(np.abs(x) + 0.5)), x), 0),
}


def exact_fmod(x, y):
    return np.fmod(x.astype(np.float32), y.astype(np.float32)).astype(np.float64)


BINARY = {
    "pow": (np.power, 1.3), "atan2": (np.arctan2, 1.8), "fmod": (exact_fmod, 0),
    "fmax": (np.fmax, 0), "fmin": (np.fmin, 0),
    "fdim": (lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0)), 0.5),
}
SPECIAL = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, np.inf, -np.inf, np.nan, 88.72, 88.73, 89.4, 89.5,
                    -87.3, -103.9, -104.1, 128, 127.9, -149.5, -150.1, 38.5, 38.6, -45.2, 1e-45, -1e-45, 1e-38,
                    3e38, -3e38, 1e-30, 2.0**-126, 1e5, 1e10, 2.0**23, 2.0**24 + 2, 8388607.5], np.float32)


def source():
    lines = []
    head = "device float* out [[buffer(0)]], device const float* x [[buffer(1)]]"
    for name in UNARY:
        lines.append(f"kernel void k_{name}({head}, uint i [[thread_position_in_grid]]) {{ out[i] = {name}(x[i]); }}")
    for name in BINARY:
        lines.append(f"kernel void k_{name}({head}, device const float* y [[buffer(2)]], "
                     f"uint i [[thread_position_in_grid]]) {{ out[i] = {name}(x[i], y[i]); }}")
    lines.append(f"kernel void k_fma({head}, device const float* y, device const float* z, "
                 "uint i [[thread_position_in_grid]]) { out[i] = fma(x[i], y[i], z[i]); }")
    return "\n".join(lines)


def any_floats(n, seed):
    bits = np.random.default_rng(seed).integers(0, 2**32, n, dtype=np.uint64)
    return bits.astype(np.uint32).view(np.float32)


def error_in_ulp(got, want):
    """Return the distance from the float64 reference in ULPs of the float32 result."""
    rounded = want.astype(np.float32)
    finite = np.where(np.isfinite(rounded), rounded, np.float32(3e38))
    ulp = np.maximum(np.spacing(np.abs(finite)).astype(np.float64), 2.0**-149)
    error = np.abs(got.astype(np.float64) - want) / ulp
    same = (np.isnan(got) & np.isnan(rounded)) | ((got == rounded) & (np.signbit(got) == np.signbit(rounded)))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def check(got, want, inputs, bound):
    error = error_in_ulp(got, want)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"{error[worst]:.3f} ulp at {[x[worst] for x in inputs]}: {got[worst]!r}"


@pytest.fixture(scope="module", params=["", "baseline"])
def library(request, msl):
    return msl(source(), isa=request.param)


@pytest.mark.parametrize("name", UNARY)
def test_unary(library, name):
    rng = np.random.default_rng(1)
    x = np.concatenate([SPECIAL, any_floats(150_000, 0), rng.uniform(-110, 110, 50_000), rng.uniform(-1, 1, 50_000),
                        1 + 0.01 * rng.standard_normal(20_000), rng.uniform(-1e5, 1e5, 50_000)]).astype(np.float32)
    reference, bound = UNARY[name]
    check(library.map(f"k_{name}", x), reference(x.astype(np.float64)), [x], bound)


@pytest.mark.parametrize("name", BINARY)
def test_binary(library, name):
    rng = np.random.default_rng(2)
    n = SPECIAL.size
    x = np.concatenate([np.repeat(SPECIAL, n), any_floats(100_000, 3), rng.uniform(0, 10, 50_000),
                        1 + 0.001 * rng.standard_normal(50_000)]).astype(np.float32)
    y = np.concatenate([np.tile(SPECIAL, n), any_floats(70_000, 4), np.rint(rng.uniform(-9, 9, 30_000)),
                        rng.uniform(-30, 30, 50_000), rng.uniform(-3e4, 3e4, 50_000)]).astype(np.float32)
    reference, bound = BINARY[name]
    got, want = library.map(f"k_{name}", x, y), reference(x.astype(np.float64), y.astype(np.float64))
    if name in ("fmax", "fmin"):  # the sign of a zero result is unspecified
        got, want = got + 0.0, want + 0.0
    check(got, want, [x, y], bound)


def test_multiples_of_half_pi(library):
    """Near multiples of pi/2, the sine or cosine is almost zero, so the range reduction must be exact."""
    mpmath = pytest.importorskip("mpmath")  # mpmath is installed with torch, as a dependency of sympy
    with mpmath.workprec(300):
        steps = [1, 2, 3, 11, 355, 710, 52174, 10**6, 16367173 * 2**20, 6381956970095103 * 2**40, 3**60]
        x = np.array([float(mpmath.pi / 2 * k) for k in steps]).astype(np.float32)
        sine = np.array([float(mpmath.sin(mpmath.mpf(float(v)))) for v in x])
        cosine = np.array([float(mpmath.cos(mpmath.mpf(float(v)))) for v in x])
    check(library.map("k_sin", x), sine, [x], 1.7)
    check(library.map("k_cos", x), cosine, [x], 1.7)


def test_fma_rounds_once(library):
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 4000)).astype(np.float32)
    product = x.astype(np.float64) * y.astype(np.float64)  # exact in float64
    z = (-product * (1 + rng.integers(-3, 4, 4000) * 2.0**-23)).astype(np.float32)
    z[::2] = rng.standard_normal(2000).astype(np.float32) * 2.0 ** rng.integers(-40, 40, 2000)
    want = np.array([np.float32(np.longdouble(p) + np.longdouble(w)) for p, w in zip(product, z, strict=True)])
    check(library.map("k_fma", x, y, z), want.astype(np.float64), [x, y, z], 0)


def test_isas_agree(msl):
    """Results are bitwise identical on all instruction sets. CPUs without fma emulate it."""
    here, base = msl(source(), isa=""), msl(source(), isa="baseline")
    x, y = any_floats(20_000, 6), any_floats(20_000, 7)
    for name in UNARY:
        np.testing.assert_array_equal(here.map(f"k_{name}", x), base.map(f"k_{name}", x), err_msg=name)
    for name in BINARY:
        np.testing.assert_array_equal(here.map(f"k_{name}", x, y), base.map(f"k_{name}", x, y), err_msg=name)


def test_large_angles(library):
    mpmath = pytest.importorskip("mpmath")  # mpmath is installed with torch, as a dependency of sympy
    x = any_floats(3000, 8)
    x = x[np.isfinite(x) & (np.abs(x) > 1e5)]
    with mpmath.workprec(300):
        want = np.array([float(mpmath.sin(mpmath.mpf(float(v)))) for v in x])
    check(library.map("k_sin", x), want, [x], 1.7)
