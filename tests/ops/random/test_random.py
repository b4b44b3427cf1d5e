"""Random fills: known-answer tests of the generator, distributions, ranges, reproducibility, and layouts."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from tables import FLOAT, INT

import mpsx

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = 200_000
# Seeds are fixed, so the tests are deterministic. A p-value below this limit means a wrong distribution, not bad luck.
LEAST_P = 1e-4

pytestmark = pytest.mark.usefixtures("no_fallback")


def filled(fill: Callable[[torch.Tensor], object], *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    t = torch.empty(shape, dtype=dtype, device="mpsx")
    assert fill(t) is t
    return t.cpu()


# The generator

KERNEL = """
#include "lib/random.h"
kernel void blocks(device uint* out [[buffer(0)]], device const uint* in [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  device const uint* c = in + 6 * i;
  const PhiloxBlock r = philox4x32(c[0], c[1], c[2], c[3], c[4], c[5]);
  out[4 * i] = r.x;
  out[4 * i + 1] = r.y;
  out[4 * i + 2] = r.z;
  out[4 * i + 3] = r.w;
}
"""
# From kat_vectors of Random123 for philox4x32-10: (counter, key, result).
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def parse_hex(*texts: str) -> list[int]:
    return [int(word, 16) for text in texts for word in text.split()]


def test_philox_known_answers(tmp_path: Path) -> None:
    (tmp_path / "blocks.metal").write_text(KERNEL)
    translate = [sys.executable, str(ROOT / "tools" / "msl.py"), "translate", "blocks.metal", "-o", "blocks.cpp"]
    subprocess.run([*translate, "-I", str(ROOT / "metal")], cwd=tmp_path, check=True)
    (tmp_path / "call.cpp").write_text(
        '#include "metal_stdlib/kernel_abi.h"\n'
        'extern "C" const mpsx_kernel_record mpsx_records_blocks_0[];\n'
        'extern "C" void call(void* const* args, unsigned n) {\n'
        "  const mpsx_launch launch = {{n, 1, 1}, {n, 1, 1}, {1, 1, 1}};\n"
        "  mpsx_records_blocks_0[0].entry(args, &launch, 0, n);\n"
        "}\n"
    )
    compiler = ["c++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-I", str(ROOT / "src")]
    subprocess.run([*compiler, "blocks.cpp", "call.cpp", "-o", "blocks.so"], cwd=tmp_path, check=True)
    counters = np.array([parse_hex(counter, key) for counter, key, _ in KNOWN_ANSWERS], dtype=np.uint32)
    out = np.zeros((len(KNOWN_ANSWERS), 4), dtype=np.uint32)
    arguments = (ctypes.c_void_p * 2)(out.ctypes.data, counters.ctypes.data)
    ctypes.CDLL(str(tmp_path / "blocks.so")).call(arguments, len(KNOWN_ANSWERS))
    assert out.tolist() == [parse_hex(result) for _, _, result in KNOWN_ANSWERS]


def test_fill_starts_at_the_seed() -> None:
    # Full-range 64-bit integers are the generator's raw output, so block 0 of seed 0 equals the first known answer.
    torch.manual_seed(0)
    first = filled(lambda t: t.random_(-(2**63), None), 1, dtype=torch.int64).item()
    low, high = parse_hex(KNOWN_ANSWERS[0][2])[:2]
    assert (first + 2**63) % 2**64 == low | high << 32


# Reproducibility


@pytest.mark.parametrize(
    "name", ["uniform_", "normal_", "exponential_", "cauchy_", "log_normal_", "random_", "bernoulli_"]
)
def test_seed_and_generator(name: str) -> None:
    def draw(**arguments: object) -> torch.Tensor:
        return filled(lambda t: getattr(t, name)(**arguments), 3000)

    torch.manual_seed(7)
    first, second = draw(), draw()
    assert not torch.equal(first, second)
    torch.manual_seed(7)
    assert torch.equal(draw(), first)
    assert torch.equal(draw(), second)
    generator = torch.Generator(device="mpsx")
    generator.manual_seed(7)
    assert torch.equal(draw(generator=generator), first)
    state = generator.get_state()
    assert torch.equal(draw(generator=generator), second)
    generator.set_state(state)
    assert torch.equal(draw(generator=generator), second)


def test_rng_state() -> None:
    state = torch.mpsx.get_rng_state()
    first = torch.randn(100, device="mpsx")
    torch.mpsx.set_rng_state(state)
    assert torch.equal(torch.randn(100, device="mpsx").cpu(), first.cpu())
    before = torch.mpsx.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="mpsx"):
        torch.randn(10, device="mpsx")
    assert torch.equal(torch.mpsx.get_rng_state(), before)


def test_elements_do_not_depend_on_size_or_threads() -> None:
    def draw(n: int) -> torch.Tensor:
        torch.manual_seed(3)
        return filled(lambda t: t.normal_(), n)

    threads = torch.get_num_threads()
    whole = draw(500_000)
    try:
        torch.set_num_threads(3 - min(threads, 2))
        assert torch.equal(draw(500_000), whole)
    finally:
        torch.set_num_threads(threads)
    for n in (1, 10, 255, 257, 1023, 1024, 1025, 5000):
        assert torch.equal(draw(n), whole[:n])


def test_cpu_generator_raises() -> None:
    with pytest.raises(RuntimeError, match="mpsx"):
        torch.empty(3, device="mpsx").normal_(generator=torch.Generator())


# Distributions

CONTINUOUS = {
    "uniform": (lambda t: t.uniform_(-2, 3), stats.uniform(-2, 5)),
    "normal": (lambda t: t.normal_(1.5, 2.0), stats.norm(1.5, 2.0)),
    "log_normal": (lambda t: t.log_normal_(0.5, 0.75), stats.lognorm(0.75, scale=np.exp(0.5))),
    "exponential": (lambda t: t.exponential_(1.5), stats.expon(scale=1 / 1.5)),
    "cauchy": (lambda t: t.cauchy_(1.0, 2.0), stats.cauchy(1.0, 2.0)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    fill, distribution = CONTINUOUS[name]
    sample = filled(fill, SAMPLES).double().numpy()
    assert stats.kstest(sample, distribution.cdf).pvalue > LEAST_P
    # Check that values at these distances (in the same block, in the same chunk, in different chunks) are uncorrelated.
    ranks = distribution.cdf(sample)
    for lag in (1, 256, 512, 1024):
        correlation = np.corrcoef(ranks[:-lag], ranks[lag:])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(SAMPLES)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_in_half(name: str, dtype: torch.dtype) -> None:
    # Half-precision samples are float32 samples that are rounded to the dtype.
    fill, _ = CONTINUOUS[name]
    torch.manual_seed(5)
    wide = filled(fill, 10_000)
    torch.manual_seed(5)
    narrow = filled(fill, 10_000, dtype=dtype)
    expected = wide.to(dtype)
    if name == "uniform":  # a value that would round to the open upper bound becomes the largest value below it
        expected = expected.clamp(max=3.0 - 2 * torch.finfo(dtype).eps)
    torch.testing.assert_close(narrow, expected, rtol=0, atol=0)


def test_normal_tails() -> None:
    sample = filled(lambda t: t.normal_(), 4_000_000).double().numpy()
    for level in (3.0, 4.0, 4.5):
        expected = 2 * stats.norm.sf(level) * sample.size
        assert abs((np.abs(sample) > level).sum() - expected) < 5 * np.sqrt(expected)
    assert abs(stats.kurtosis(sample)) < 5 * np.sqrt(24 / sample.size)


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (0.0, 1e-3), (5.0, 5.0), (-3.0, -2.0)])
def test_uniform_range(dtype: torch.dtype, low: float, high: float) -> None:
    sample = filled(lambda t: t.uniform_(low, high), 300_000, dtype=dtype)
    bounds = torch.tensor([low, high], dtype=dtype)
    assert (sample >= bounds[0]).all()
    assert (sample < high).all() if low < high else (sample == bounds[0]).all()
    # Allow six standard errors, plus half a bfloat16 step for rounding.
    slack = (high - low) * (6 / np.sqrt(12 * 300_000) + 2**-9)
    assert abs(sample.double().mean().item() - (low + high) / 2) <= slack


@pytest.mark.parametrize("dtype", FLOAT)
def test_positive_and_finite(dtype: torch.dtype) -> None:
    assert (filled(lambda t: t.exponential_(), 1_000_000, dtype=dtype) > 0).all()
    assert filled(lambda t: t.normal_(), 1_000_000, dtype=dtype).isfinite().all()
    assert (filled(lambda t: t.geometric_(0.9), 100_000, dtype=dtype) >= 1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_geometric(dtype: torch.dtype) -> None:
    sample = filled(lambda t: t.geometric_(0.3), SAMPLES, dtype=dtype).long().numpy()
    counts = np.bincount(sample, minlength=25)[1:25]
    expected = stats.geom(0.3).pmf(np.arange(1, 25)) * SAMPLES
    keep = expected > 10
    assert stats.chisquare(counts[keep], expected[keep] * counts[keep].sum() / expected[keep].sum()).pvalue > LEAST_P


@pytest.mark.parametrize("dtype", [*FLOAT, *INT, torch.bool])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_bernoulli(dtype: torch.dtype, p: float) -> None:
    sample = filled(lambda t: t.bernoulli_(p), SAMPLES, dtype=dtype)
    assert ((sample == 0) | (sample == 1)).all()
    count = sample.double().sum().item()
    assert count == p * SAMPLES if p in (0, 1) else stats.binomtest(int(count), SAMPLES, p).pvalue > LEAST_P


@pytest.mark.parametrize("dtype", FLOAT)
def test_bernoulli_of_probabilities(dtype: torch.dtype) -> None:
    p = torch.tensor([0.0, 0.25, 0.5, 1.0], dtype=dtype).to("mpsx")
    for sample in (
        torch.empty(50_000, 4, device="mpsx").bernoulli_(p),
        torch.bernoulli(p.expand(50_000, 4)).float(),
        torch.empty(4, 50_000, device="mpsx").t().bernoulli_(p),
    ):
        counts = sample.cpu().double().sum(0)
        assert counts[0] == 0
        assert counts[3] == 50_000
        for k, probability in ((1, 0.25), (2, 0.5)):
            assert stats.binomtest(int(counts[k]), 50_000, probability).pvalue > LEAST_P


def test_bernoulli_returns_contiguous_tensors() -> None:
    assert torch.bernoulli(torch.rand(2, 5, 8, device="mpsx").mT).is_contiguous()


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (torch.int64, -5, 12),
        (torch.int32, 0, 7),
        (torch.int16, -300, -290),
        (torch.int8, -128, 127),
        (torch.uint8, 250, 255),
        (torch.float32, -4, 9),
        (torch.float16, 0, 11),
        (torch.bfloat16, 2, 8),
        (torch.bool, 0, 2),
    ],
)
def test_random_between(dtype: torch.dtype, low: int, high: int) -> None:
    sample = filled(lambda t: t.random_(low, high), SAMPLES, dtype=dtype).double().numpy().astype(np.int64)
    assert sample.min() == low
    assert sample.max() == high - 1
    assert stats.chisquare(np.bincount(sample - low)).pvalue > LEAST_P


@pytest.mark.parametrize(("low", "high"), [(0, 2**40), (-(2**62), 2**62), (-(2**63), 2**63 - 1), (10, 10 + 2**28 + 1)])
def test_random_wide(low: int, high: int) -> None:
    sample = filled(lambda t: t.random_(low, high), SAMPLES, dtype=torch.int64)
    assert sample.min() >= low
    assert sample.max() < high
    position = (sample.double().numpy() - low) / (float(high) - float(low))
    assert stats.kstest(position, stats.uniform.cdf).pvalue > LEAST_P
    low_bits = np.bincount(((sample - low) & 15).numpy(), minlength=16)
    assert stats.chisquare(low_bits).pvalue > LEAST_P


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [
        (torch.int64, 2**63 - 1),
        (torch.int32, 2**31 - 1),
        (torch.int16, 2**15 - 1),
        (torch.int8, 127),
        (torch.uint8, 255),
        (torch.float32, 2**24),
        (torch.float16, 2**11),
        (torch.bfloat16, 2**8),
        (torch.bool, 1),
    ],
)
def test_random_without_bounds(dtype: torch.dtype, largest: int) -> None:
    sample = filled(lambda t: t.random_(), SAMPLES, dtype=dtype).double().numpy()
    assert sample.min() >= 0
    assert sample.max() <= largest
    assert sample.max() > 0.999 * largest
    assert abs(sample.mean() / largest - 0.5) < 5 / np.sqrt(12 * SAMPLES) * (2 if dtype == torch.bool else 1)


def test_factories() -> None:
    assert torch.rand(1000, device="mpsx").device.type == "mpsx"
    assert abs(torch.randn(10_000, device="mpsx").cpu().std().item() - 1) < 0.05
    sample = torch.randint(3, 9, (1000,), device="mpsx").cpu()
    assert sample.dtype == torch.int64
    assert set(sample.tolist()) == {3, 4, 5, 6, 7, 8}
    like = torch.empty(4, 5, dtype=torch.bfloat16, device="mpsx")
    assert torch.rand_like(like).dtype == torch.bfloat16
    assert torch.randn_like(like).shape == like.shape


# normal() with tensor arguments


def test_normal_with_tensors() -> None:
    mean = torch.linspace(-2, 2, 5, device="cpu").to("mpsx")
    std = torch.linspace(0.5, 1.5, 5).to("mpsx")
    for sample in (
        torch.normal(mean.expand(40_000, 5), std.expand(40_000, 5)),
        torch.normal(mean.expand(40_000, 5), std.expand(40_000, 5), out=torch.empty(0, device="mpsx")),
    ):
        host = sample.cpu().double()
        assert (host.mean(0) - mean.cpu()).abs().max() < 5 * 1.5 / 200
        assert (host.std(0) - std.cpu()).abs().max() < 0.03
    assert torch.normal(mean.expand(40_000, 5), 0.0).cpu()[0].tolist() == mean.cpu().tolist()
    assert abs(torch.normal(3.0, std.expand(40_000, 5)).cpu().mean().item() - 3) < 0.02
    assert abs(torch.normal(3.0, 0.5, (40_000,), device="mpsx").cpu().std().item() - 0.5) < 0.02


# Layouts


@pytest.mark.parametrize("name", ["uniform_", "normal_", "exponential_", "bernoulli_", "random_"])
def test_layouts(name: str) -> None:
    base = torch.full((40, 60), -7.0, device="mpsx")
    view = base[3:33, 5:55:2]  # elements in the gaps must not change
    getattr(view, name)()
    touched = base.cpu() != -7
    assert touched[3:33, 5:55:2].all()
    assert touched.sum() == view.numel()
    transposed = torch.empty(60, 40, device="mpsx").t()
    getattr(transposed, name)()
    assert transposed.cpu().unique().numel() > 1
    assert getattr(torch.empty(0, 3, device="mpsx"), name)().shape == (0, 3)
    assert getattr(torch.empty((), device="mpsx"), name)().shape == ()
    with pytest.raises(RuntimeError, match="single memory location"):
        getattr(torch.empty(1, device="mpsx").expand(5), name)()


def test_one_launch_per_call() -> None:
    t = torch.empty(5000, device="mpsx")
    with mpsx.profiler.launch_log() as log:
        t.uniform_()
        t.normal_()
        t.bernoulli_(0.3)
        t.random_(0, 10)
    expected = ["random_uniform_f32", "random_normal_f32", "random_bernoulli_f32", "random_integer_f32"]
    assert list(log) == [f"kernel:{name}" for name in expected]


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (lambda t: t.uniform_(2, 1), "from=2 > to=1"),
        (lambda t: t.normal_(0, -1), "std >= 0.0"),
        (lambda t: t.bernoulli_(1.5), "p to be in"),
        (lambda t: t.exponential_(0), "lambda > 0.0"),
        (lambda t: t.geometric_(0), "p to be in"),
        (lambda t: t.cauchy_(0, 0), "sigma > 0.0"),
        (lambda t: t.log_normal_(0, 0), "std > 0.0"),
        (lambda t: t.random_(5, 5), "'from' to be less than 'to'"),
        (lambda t: t.bernoulli_(torch.tensor([2.0, 0.5]).to("mpsx").repeat(5)), r"probabilities in \[0, 1\]"),
    ],
)
def test_errors(fill: Callable[[torch.Tensor], object], message: str) -> None:
    with mpsx.fallback.using_mode("silent"), pytest.raises(RuntimeError, match=message):
        fill(torch.empty(10, device="mpsx"))


def test_random_complex_numbers() -> None:
    x = torch.randn(20_000, dtype=torch.complex64, device="mpsx").cpu()
    assert abs(x.real.std().item() - 0.5**0.5) < 0.02
    assert abs(x.imag.std().item() - 0.5**0.5) < 0.02
    assert abs((x.real * x.imag).mean().item()) < 0.02
    y = torch.rand(20_000, dtype=torch.complex64, device="mpsx").cpu()
    assert abs(y.real.mean().item() - 0.5) < 0.02
    assert 0 <= y.imag.min().item() <= y.imag.max().item() < 1
