"""Broadcast over rows shorter than a vector, where a single vector covers several rows."""

from __future__ import annotations

import pytest
import torch
from layouts import on_device

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32, torch.int64])
def test_broadcast_over_short_rows(dtype: torch.dtype) -> None:
    """Cover rows that are shorter or slightly longer than a vector, in 2-D and 3-D tensors."""
    for row in (1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129):
        a, b = (torch.randint(1, 9, shape).to(dtype) for shape in ((300, row), (row,)))
        columns, pair, padded = a[:, :1], a.view(100, 3, row), torch.cat([a, a], 1)[:, 1 : row + 1]
        for f in (torch.add, torch.lt, torch.maximum, torch.floor_divide):
            for x, y in ((a, b), (b, a), (a, columns), (columns, b), (pair, pair[0]), (pair, pair[:, :1]), (padded, b)):
                assert torch.equal(f(on_device(x), on_device(y)).cpu(), f(x, y))
        condition = a > 4
        ours = torch.where(on_device(condition), on_device(b), on_device(a))
        assert torch.equal(ours.cpu(), torch.where(condition, b, a))
