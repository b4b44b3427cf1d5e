"""torch.randperm: valid, uniform and reproducible permutations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

pytestmark = pytest.mark.usefixtures("no_fallback")

LEAST_P = 1e-4  # seeds are fixed, so a smaller p-value means a wrong distribution, not bad luck


@pytest.mark.parametrize("n", [0, 1, 2, 5, 4095, 4096, 4097, 65_536, 100_003])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32])
def test_randperm(n: int, dtype: torch.dtype) -> None:
    first = torch.randperm(n, device="mpsx", dtype=dtype).cpu()
    assert first.dtype == dtype
    assert torch.equal(first.sort().values, torch.arange(n, dtype=dtype))
    if n > 100:
        second = torch.randperm(n, device="mpsx", dtype=dtype).cpu()
        assert (first == second).sum() < 10  # on average, independent permutations agree at one position
        position = torch.arange(n, dtype=torch.float64)
        assert abs(np.corrcoef(first.double(), position)[0, 1]) < 5 / np.sqrt(n)
        assert (first.diff() == 1).sum() < 10


def test_randperm_is_uniform() -> None:
    # Count the permutations of four elements, and the values at some positions of a long permutation.
    orders = [tuple(torch.randperm(4, device="mpsx").tolist()) for _ in range(4800)]
    counts = np.unique(
        [order[0] * 64 + order[1] * 16 + order[2] * 4 + order[3] for order in orders], return_counts=True
    )[1]
    assert counts.size == 24
    assert stats.chisquare(counts).pvalue > LEAST_P
    n = 5000
    draws = torch.stack([torch.randperm(n, device="mpsx").cpu() for _ in range(400)])
    for column in (0, 1, 2500, n - 1):
        assert stats.kstest((draws[:, column].numpy() + 0.5) / n, stats.uniform.cdf).pvalue > LEAST_P
    parity = torch.stack([torch.randperm(8192, device="mpsx").cpu() for _ in range(64)])
    odd = sum(is_odd(row.tolist()) for row in parity)
    assert 10 < odd < 54


def is_odd(permutation: list[int]) -> bool:
    """Return whether a permutation is odd: whether the number of elements minus the number of cycles is odd."""
    seen, cycles = [False] * len(permutation), 0
    for start in range(len(permutation)):
        cycles += not seen[start]
        while not seen[start]:
            seen[start] = True
            start = permutation[start]  # noqa: PLW2901
    return (len(permutation) - cycles) % 2 == 1


def test_randperm_seeds_and_out() -> None:
    generator = torch.Generator(device="mpsx")
    generator.manual_seed(5)
    first = torch.randperm(6000, device="mpsx", generator=generator).cpu()
    generator.manual_seed(5)
    out = torch.empty(0, dtype=torch.int64, device="mpsx")
    assert torch.randperm(6000, generator=generator, out=out) is out
    assert torch.equal(out.cpu(), first)
    with pytest.raises(RuntimeError, match="negative"):
        torch.randperm(-1, device="mpsx")
    with pytest.raises(RuntimeError, match=r"too large|overflow"):
        torch.randperm(300, dtype=torch.uint8, device="mpsx")
