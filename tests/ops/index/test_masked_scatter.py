"""masked_scatter: sizes, layouts and errors."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64, torch.bfloat16, torch.complex64], ids=str)
def test_sizes(dtype: torch.dtype) -> None:
    """Cover small sizes, which a single thread handles, and larger sizes."""
    for size in (1, 200, 1000, 40000):
        x = torch.randn(size).to(dtype)
        mask, source = torch.rand(size) < 0.4, torch.randn(size).to(dtype)
        for a, m in ((x, mask), (x.repeat(2, 1).t(), mask[:, None]), (x, torch.zeros_like(mask)), (x[::2], mask[::2])):
            on = a.masked_scatter(m, source.repeat(2))
            assert torch.equal(a.to("mpsx").masked_scatter(m.to("mpsx"), source.repeat(2).to("mpsx")).cpu(), on)
    few = x.to("mpsx")[:50]
    with pytest.raises(RuntimeError, match="as many as mask selects"):
        few.masked_scatter_(torch.ones(50, dtype=torch.bool, device="mpsx"), few[:49].clone())
    assert torch.equal(few.cpu(), x[:50])
