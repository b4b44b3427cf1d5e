"""Gamma, Dirichlet, Poisson and binomial samples, and their gradients (src/ops/random/sample.cpp)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from layouts import LAYOUTS, make, on_device
from scipy import stats
from tables import FLOAT

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

SAMPLES = 20_000
# Seeds are fixed, so a p-value below this limit means a wrong distribution (see test_random.py).
LEAST_P = 1e-4


def drawn(function: Callable[..., torch.Tensor], *parameters: float) -> np.ndarray:
    torch.manual_seed(11)
    return function(*(torch.full((SAMPLES,), float(p), device="mpsx") for p in parameters)).cpu().double().numpy()


@pytest.mark.parametrize("alpha", [0.05, 0.7, 1.0, 3.5, 200.0, 1e6])
def test_gamma(alpha: float) -> None:
    sample = drawn(torch._standard_gamma, alpha)
    assert stats.kstest(sample, stats.gamma(alpha).cdf).pvalue > LEAST_P
    ranks = stats.gamma(alpha).cdf(sample)
    for lag in (1, 2, 256):
        assert abs(np.corrcoef(ranks[:-lag], ranks[lag:])[0, 1]) < 5 / np.sqrt(SAMPLES)


def check_counts(sample: np.ndarray, distribution: object) -> None:
    """Apply a chi-square test. Bins with small expected counts are merged."""
    low, high = (int(distribution.ppf(p)) for p in (1e-3, 1 - 1e-3))
    width = max(1, (high - low) // 60)
    edges = np.arange(low, high + width, width)
    counts = np.bincount(np.searchsorted(edges, sample, side="left"), minlength=len(edges) + 1)
    cumulative = np.concatenate([[0], distribution.cdf(edges), [1]])
    expected = np.diff(cumulative) * len(sample)
    keep = expected > 8
    counts, expected = np.append(counts[keep], counts[~keep].sum()), np.append(expected[keep], expected[~keep].sum())
    keep = expected > 1e-6
    assert stats.chisquare(counts[keep], expected[keep] * counts[keep].sum() / expected[keep].sum()).pvalue > LEAST_P


@pytest.mark.parametrize("rate", [0.01, 0.9, 4.0, 9.99, 10.0, 35.0, 3e3, 1e6])
def test_poisson(rate: float) -> None:
    check_counts(drawn(torch.poisson, rate), stats.poisson(np.float32(rate)))


@pytest.mark.parametrize(
    ("count", "probability"),
    [(1, 0.3), (10, 0.5), (20, 0.97), (40, 0.25), (41, 0.26), (100, 0.5), (1000, 0.9), (1e5, 1e-4), (1e6, 0.3)],
)
def test_binomial(count: float, probability: float) -> None:
    check_counts(drawn(torch.binomial, count, probability), stats.binom(int(count), float(np.float32(probability))))


def test_limits_of_the_parameters() -> None:
    nan = float("nan")
    zero_and_nan = torch.tensor([0.0, nan], device="mpsx")
    assert torch._standard_gamma(zero_and_nan).cpu().nan_to_num(-1).tolist() == [0, -1]
    assert torch.poisson(torch.zeros(2, device="mpsx")).tolist() == [0, 0]
    count = torch.tensor([0.0, 5.0, 5.0, 5.0], device="mpsx")
    result = torch.binomial(count, torch.tensor([0.5, 0.0, 1.0, nan], device="mpsx")).cpu()
    assert result.nan_to_num(-1).tolist() == [0, 0, 5, -1]
    with pytest.raises(RuntimeError, match="rates of at least 0"):
        torch.poisson(torch.tensor([-1.0], device="mpsx"))
    assert (torch._standard_gamma(torch.full((100,), 1e-4, device="mpsx")) > 0).all()


@pytest.mark.parametrize("name", ["_standard_gamma", "poisson", "_sample_dirichlet"])
def test_seed_and_layouts(name: str) -> None:
    sample = getattr(torch, name)
    for layout in LAYOUTS:
        x = on_device(make(layout, torch.float32, low=0.5, high=20))
        torch.manual_seed(4)
        first, second = sample(x), sample(x)
        assert first.shape == x.shape
        assert first.is_contiguous()
        assert x.numel() < 2 or not torch.equal(first, second)
        torch.manual_seed(4)
        assert torch.equal(sample(x.contiguous()), first)
    generator = torch.Generator(device="mpsx").manual_seed(9)
    state = generator.get_state()
    first = sample(x, generator)
    generator.set_state(state)
    assert torch.equal(sample(x, generator), first)


@pytest.mark.parametrize("dtype", FLOAT[1:])
def test_poisson_in_half(dtype: torch.dtype) -> None:
    rates = torch.linspace(0, 100, 1000).to(dtype)
    torch.manual_seed(2)
    narrow = torch.poisson(rates.to("mpsx"))
    torch.manual_seed(2)
    assert torch.equal(narrow, torch.poisson(rates.float().to("mpsx")).to(dtype))


def test_gamma_gradient() -> None:
    """Cover every range of the approximation. The CPU computes the gradient of float32 inputs in double."""
    alpha = torch.tensor([0.01, 0.3, 1.0, 2.5, 7.9, 8.1, 30.0, 1e3, 1e5]).unsqueeze(1)
    ratio = torch.tensor([1e-4, 0.1, 0.5, 0.89, 0.91, 1.0, 1.09, 1.11, 1.5, 3.0])
    x = torch.cat([alpha * ratio, torch.tensor([0.01, 0.3, 0.79, 0.81]).expand(len(alpha), 4)], 1)
    expected = torch._standard_gamma_grad(alpha.expand_as(x), x)
    result = torch._standard_gamma_grad(alpha.to("mpsx"), x.to("mpsx")).cpu()
    in_range = expected != 0  # the CPU returns 0 if the result underflows in double
    assert in_range.sum() > 100
    torch.testing.assert_close(result[in_range], expected[in_range], rtol=1e-5, atol=1e-7)


def test_dirichlet_gradient() -> None:
    """Compare the gradient of Beta(alpha, beta) with float64. The CPU's float32 gradient is off by 3e-3 for large alpha
    and small beta. The approximations are accurate to three digits."""
    grid = torch.tensor([0.05, 0.5, 1.0, 3.0, 6.5, 20.0, 300.0])
    alpha, beta, x = (t.flatten() for t in torch.meshgrid(
        grid, grid, torch.tensor([0.01, 0.1, 0.4, 0.5, 0.51, 0.6, 0.9, 0.99]), indexing="ij"))  # fmt: skip
    expected = torch._dirichlet_grad(x.double(), alpha.double(), alpha.double() + beta)
    result = torch._dirichlet_grad(x.to("mpsx"), alpha.to("mpsx"), (alpha + beta).to("mpsx")).cpu()
    torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-6)


def test_distributions() -> None:
    """Call the samplers and their gradients through torch.distributions."""
    one = torch.ones(2000, device="mpsx")
    cases = {
        "gamma": torch.distributions.Gamma(one * 3, one * 2),
        "beta": torch.distributions.Beta(one * 2, one * 5),
        "student": torch.distributions.StudentT(one * 8),
        "chi": torch.distributions.Chi2(one * 4),
        "poisson": torch.distributions.Poisson(one * 6),
        "binomial": torch.distributions.Binomial(30, one * 0.3),
        "negative": torch.distributions.NegativeBinomial(one * 5, one * 0.4),
    }
    for name, distribution in cases.items():
        sample = distribution.sample()
        bound = 6 * (distribution.variance[0] / 2000).sqrt()
        assert (sample.mean() - distribution.mean[0]).abs() < bound, name
        assert distribution.log_prob(sample).isfinite().all(), name
    alpha = torch.tensor([0.5, 2.0, 9.0], device="mpsx", requires_grad=True)
    sample = torch.distributions.Dirichlet(alpha.expand(4000, 3)).rsample()
    assert (sample.sum(-1) - 1).abs().max() < 1e-5
    mean = alpha.detach() / alpha.detach().sum()
    assert (sample.mean(0) - mean).abs().max() < 0.02
    # d mean[0] / d alpha[i] is (total - alpha[0]) / total^2 for i = 0, and -alpha[0] / total^2 for all other i.
    sample.mean(0)[0].backward()
    total = alpha.detach().sum()
    exact = (torch.tensor([total, 0, 0]) - alpha.detach().cpu()[0]) / total.cpu() ** 2
    torch.testing.assert_close(alpha.grad.cpu(), exact, rtol=0.1, atol=2e-3)


def test_kernels_ran() -> None:
    x = torch.ones(50, device="mpsx")
    with mpsx.profiler.launch_log() as log:
        torch._standard_gamma(x)
        torch.binomial(x, x)
        torch._standard_gamma_grad(x, x)
    names = ("sample_gamma", "sample_binomial", "standard_gamma_grad_dense")
    assert set(log) == {f"kernel:{name}_f32" for name in names}
