"""multinomial: frequencies, zero weights, seeds and errors."""

from __future__ import annotations

import pytest
import torch
from tables import FLOAT

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("dtype", FLOAT)
def test_frequencies(dtype: torch.dtype) -> None:
    weights = torch.tensor([1.0, 0.0, 3.0, 4.0], device="mpsx", dtype=dtype)
    drawn = torch.multinomial(weights, 40000, replacement=True)
    share = torch.bincount(drawn.cpu(), minlength=4) / 40000
    torch.testing.assert_close(share, torch.tensor([0.125, 0.0, 0.375, 0.5]), atol=0.015, rtol=0)
    once = torch.multinomial(weights.expand(20000, 4), 1)
    share = torch.bincount(once.flatten().cpu(), minlength=4) / 20000
    torch.testing.assert_close(share, torch.tensor([0.125, 0.0, 0.375, 0.5]), atol=0.02, rtol=0)


@pytest.mark.parametrize("columns", [65, 3000, 40000])
def test_many_columns(columns: int) -> None:
    """Use rows of several blocks, and compare the frequencies in each tenth of a row. Zero weights are never drawn."""
    weights = torch.rand(2, columns)
    weights[:, columns // 2 :: 3] = 0
    drawn = torch.multinomial(weights.to("mpsx"), 20000, replacement=True).cpu()
    assert (weights.gather(1, drawn) > 0).all()
    bins = drawn * 10 // columns
    share = torch.stack([torch.bincount(row, minlength=10) / 20000 for row in bins])
    tenth = (torch.arange(columns) * 10 // columns).expand(2, -1)
    expected = torch.zeros(2, 10).scatter_add_(1, tenth, weights) / weights.sum(1, keepdim=True)
    torch.testing.assert_close(share, expected, atol=0.015, rtol=0)


def test_layouts() -> None:
    weights = torch.zeros(6, 5)
    weights[torch.arange(6), torch.arange(6) % 5] = 1
    expected = (torch.arange(6) % 5).unsqueeze(1).expand(6, 3)
    transposed = weights.t().contiguous().to("mpsx").t()
    assert torch.multinomial(transposed, 3, replacement=True).cpu().equal(expected)
    out = torch.zeros(3, 6, dtype=torch.long, device="mpsx").t()
    assert torch.multinomial(transposed, 3, replacement=True, out=out).cpu().equal(expected)
    assert torch.multinomial(transposed[0], 3, replacement=True).cpu().equal(expected[0])


def test_without_replacement() -> None:
    weights = torch.rand(50, 9, device="mpsx")
    weights[:, 4] = 0
    drawn = torch.multinomial(weights, 8).cpu()
    assert drawn.sort(1).values.tolist() == [[0, 1, 2, 3, 5, 6, 7, 8]] * 50


def test_last_weight_is_zero() -> None:
    drawn = torch.multinomial(torch.tensor([1.0, 1.0, 0.0], device="mpsx").expand(3, 3), 5000, replacement=True)
    assert drawn.max().item() == 1


def test_seeds() -> None:
    weights = torch.rand(3, 7, device="mpsx")
    generator = torch.Generator("mpsx").manual_seed(3)
    first = torch.multinomial(weights, 5, True, generator=generator)
    assert first.equal(torch.multinomial(weights, 5, True, generator=generator.manual_seed(3)))
    out = torch.empty(0, dtype=torch.long, device="mpsx")
    assert torch.multinomial(weights, 2, out=out).shape == out.shape == (3, 2)


def test_errors() -> None:
    weights = torch.rand(4, device="mpsx")
    with pytest.raises(RuntimeError, match="without replacement"):
        torch.multinomial(weights, 5)
    with pytest.raises(RuntimeError, match="`inf`, `nan` or element < 0"):
        torch.multinomial(weights - 2, 1)
    with pytest.raises(RuntimeError, match="sum of probabilities <= 0"):
        torch.multinomial(weights * 0, 1)
    for bad in (float("nan"), float("inf"), -1.0):
        with pytest.raises(RuntimeError, match="`inf`, `nan` or element < 0"):
            torch.multinomial(torch.tensor([1.0, bad, 1.0], device="mpsx"), 2, replacement=True)
    with pytest.raises(RuntimeError, match="sum of probabilities <= 0"):
        torch.multinomial(torch.tensor([[1.0, 1.0], [0.0, 0.0]], device="mpsx"), 2, replacement=True)
    assert torch.multinomial(weights, 2, replacement=True).shape == (2,)  # the error record was cleared
