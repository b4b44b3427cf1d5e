"""Compare operators with the CPU and float64 for values near the limits of the dtype's range.

The default run uses some of the cases and fixed values. The sweep uses all cases and new values.
"""

from __future__ import annotations

import time

import pytest
import torch
import torch.nn.functional as F
from extremes.compare import check
from extremes.families import FAMILIES
from extremes.reasons import reason

pytestmark = [pytest.mark.usefixtures("silent_fallback"), pytest.mark.filterwarnings("ignore")]

# In each family, the default run uses one out of N cases.
EVERY = {"unary": 4, "binary": 5, "ternary": 7, "complex_unary": 5, "complex_binary": 1, "reductions": 8, "norms": 16,
         "losses": 32}  # fmt: skip


def wrong(family: str, seed: int, every: int = 1) -> list[str]:
    """Describe the wrong results, except for those with a known reason."""
    found = []
    for i, case in enumerate(FAMILIES[family](torch.Generator().manual_seed(seed))):
        case.seed = seed + i
        if i % every == 0:
            found += [line for line in check(case) if reason(line) is None]
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_fixed_seed(family: str) -> None:
    assert wrong(family, 7, EVERY[family]) == []


@pytest.mark.parametrize("shape", [(2, 4, 40), (1, 6, 8, 8), (2, 4, 80, 90)])
def test_sum_of_squares_overflows(shape: tuple[int, ...]) -> None:
    """The standard deviation is representable, but the square root of the sum of squared deviations is not."""
    x = torch.randn(shape).clamp(-4, 4) * (torch.finfo(torch.float32).max / 8)
    result = F.batch_norm(x.to("mpsx"), None, None, training=True)
    expected = F.batch_norm(x.double(), None, None, training=True)
    torch.testing.assert_close(result.cpu().double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("family", FAMILIES)
def test_new_seeds(family: str) -> None:
    first = int(time.time())
    for seed in range(first, first + 20):
        assert wrong(family, seed) == [], f"seed {seed}"
