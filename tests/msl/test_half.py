"""half and bfloat: conversions of all 65536 values, and arithmetic that rounds after every operation."""

import numpy as np
import pytest
import torch

SOURCE = """
#define CONVERT(T, TAG)                                                                                         \\
  kernel void to_float_##TAG(device float* out, device const T* x, uint i [[thread_position_in_grid]]) {        \\
    out[i] = float(x[i]);                                                                                       \\
  }                                                                                                             \\
  kernel void from_float_##TAG(device T* out, device const float* x, uint i [[thread_position_in_grid]]) {      \\
    out[i] = T(x[i]);                                                                                           \\
  }                                                                                                             \\
  kernel void from_int_##TAG(device T* out, device const int* x, uint i [[thread_position_in_grid]]) {          \\
    out[i] = static_cast<T>(x[i]);                                                                              \\
  }                                                                                                             \\
  kernel void arithmetic_##TAG(device T* out, device const T* a, device const T* b,                             \\
                               uint i [[thread_position_in_grid]]) {                                            \\
    T r = a[i] * b[i];                                                                                          \\
    r += a[i];                                                                                                  \\
    r = r / 3;                                                                                                  \\
    out[i] = -(r - b[i]);                                                                                       \\
  }                                                                                                             \\
  kernel void mixed_##TAG(device float* out, device const T* a, device const float* b,                          \\
                          uint i [[thread_position_in_grid]]) {                                                 \\
    out[i] = a[i] * b[i] + 1.0;                                                                                 \\
  }                                                                                                             \\
  kernel void compare_##TAG(device uchar* out, device const T* a, device const T* b,                            \\
                            uint i [[thread_position_in_grid]]) {                                               \\
    out[i] = (a[i] < b[i]) | (a[i] == b[i]) << 1 | (a[i] >= b[i]) << 2 | isnan(a[i]) << 3 | (a[i] > 1) << 4;    \\
  }                                                                                                             \\
  kernel void exp_##TAG(device T* out, device const T* x, uint i [[thread_position_in_grid]]) {                 \\
    out[i] = exp(x[i]);                                                                                         \\
  }                                                                                                             \\
  kernel void limits_##TAG(device T* out) {                                                                     \\
    out[0] = numeric_limits<T>::max(); out[1] = numeric_limits<T>::lowest(); out[2] = numeric_limits<T>::min(); \\
    out[3] = numeric_limits<T>::epsilon(); out[4] = numeric_limits<T>::infinity();                              \\
    out[5] = numeric_limits<T>::quiet_NaN();                                                                    \\
  }
CONVERT(half, f16)
CONVERT(bfloat, bf16)
kernel void crossing(device bfloat* out, device const half* x, uint i [[thread_position_in_grid]]) {
  out[i] = bfloat(x[i]);
}
constant half table[2] = {1.5h, 2.0h};
kernel void literals(device float* out) {
  out[0] = 0.1h; out[1] = 1e-3h; out[2] = table[0]; out[3] = 1.0bf; out[4] = sizeof(half) + sizeof(bfloat);
}
"""
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
EVERY = torch.arange(65536, dtype=torch.int32).to(torch.int16)


@pytest.fixture(scope="module", params=["", "baseline"])
def library(request, msl):
    return msl(SOURCE, isa=request.param)


def bits(t):
    return t.contiguous().view(torch.int16).numpy()


def run(library, name, *inputs, like):
    """Run a kernel and return its output with the dtype of `like`."""
    raw = [x.contiguous().view(torch.int16).numpy() if x.element_size() == 2 else x.numpy() for x in inputs]
    out = torch.empty(inputs[0].shape, dtype=like)
    library(name, out.view(torch.int16).numpy() if out.element_size() == 2 else out.numpy(), *raw,
            grid=(out.numel(),))
    return out


def assert_same(got, want):
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("tag", TYPES)
def test_every_value_to_float(library, tag):
    x = EVERY.view(TYPES[tag])
    assert_same(run(library, f"to_float_{tag}", x, like=torch.float32), x.float())


@pytest.mark.parametrize("tag", TYPES)
def test_from_float(library, tag):
    """Convert all values, all midpoints between adjacent values, floats next to the midpoints, and random floats."""
    exact = EVERY.view(TYPES[tag]).float()
    exact = exact[exact.isfinite()].sort().values
    middle = (exact[1:].double() + exact[:-1].double()).div(2).float()
    rng = np.random.default_rng(0)
    anything = torch.from_numpy(rng.integers(0, 2**32, 100_000, dtype=np.uint64).astype(np.uint32).view(np.float32))
    inf = torch.tensor(float("inf"))
    x = torch.cat([exact, middle, middle.nextafter(inf), middle.nextafter(-inf), anything,
                   torch.tensor([float("nan"), float("inf"), -float("inf"), 65519.996, 65520.0, 3.4e38])])
    got = run(library, f"from_float_{tag}", x, like=TYPES[tag])
    want = x.to(TYPES[tag])
    assert_same(got, want)
    numbers = ~x.isnan()
    assert (bits(got)[numbers] == bits(want)[numbers]).all()


@pytest.mark.parametrize("tag", TYPES)
def test_from_int(library, tag):
    x = torch.cat([torch.arange(-70000, 70000, 7), torch.tensor([2**31 - 1, -(2**31), 2**24 + 1])]).int()
    assert_same(run(library, f"from_int_{tag}", x, like=TYPES[tag]), x.to(TYPES[tag]))


@pytest.mark.parametrize("tag", TYPES)
def test_arithmetic_rounds_after_every_operation(library, tag):
    g = torch.Generator().manual_seed(0)
    a = EVERY.view(TYPES[tag])
    b = EVERY[torch.randperm(65536, generator=g)].view(TYPES[tag])
    want = -((a * b + a) / 3 - b)
    assert_same(run(library, f"arithmetic_{tag}", a, b, like=TYPES[tag]), want)
    f = torch.randn(65536, generator=g)
    assert_same(run(library, f"mixed_{tag}", a, f, like=torch.float32), a.float() * f + 1.0)


@pytest.mark.parametrize("tag", TYPES)
def test_comparisons(library, tag):
    g = torch.Generator().manual_seed(1)
    a = EVERY.view(TYPES[tag])
    b = torch.where(torch.rand(65536, generator=g) < 0.5, a, a[torch.randperm(65536, generator=g)])
    want = (a < b) | (a == b) * 2 | (a >= b) * 4 | a.isnan() * 8 | (a > 1) * 16
    assert_same(run(library, f"compare_{tag}", a, b, like=torch.uint8), want.to(torch.uint8))


@pytest.mark.parametrize("tag", TYPES)
def test_function(library, tag):
    x = EVERY.view(TYPES[tag])
    got, want = run(library, f"exp_{tag}", x, like=TYPES[tag]), x.double().exp().to(TYPES[tag])
    # exp is computed in float and then rounded, so the last bit may differ if the exact result is near a midpoint.
    off = (bits(got).astype(int) != bits(want).astype(int)) & ~x.isnan().numpy()
    assert off.mean() < 1e-3
    assert (np.abs(bits(got).astype(int) - bits(want).astype(int))[off] <= 1).all()


@pytest.mark.parametrize("tag", TYPES)
def test_limits(library, tag):
    out = torch.empty(6, dtype=TYPES[tag])
    library(f"limits_{tag}", out.view(torch.int16).numpy(), grid=(1,))
    i = torch.finfo(TYPES[tag])
    assert_same(out, torch.tensor([i.max, i.min, i.tiny, i.eps, float("inf"), float("nan")], dtype=TYPES[tag]))


def test_half_to_bfloat_and_literals(library):
    x = EVERY.view(torch.float16)
    assert_same(run(library, "crossing", x, like=torch.bfloat16), x.to(torch.bfloat16))
    out = np.empty(5, np.float32)
    library("literals", out, grid=(1,))
    np.testing.assert_array_equal(out, [np.float16(0.1), np.float16(1e-3), 1.5, 1, 4])
