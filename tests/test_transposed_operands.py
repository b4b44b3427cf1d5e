"""Binary operators whose operands lie in different orders: one is copied first."""

from __future__ import annotations

import pytest
import torch
from layouts import on_device
from tables import FLOAT

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("shape", [(7, 142), (142, 7), (3, 5, 31), (40, 50), (2, 130)], ids=str)
def test_transposed_of_any_shape(shape: tuple[int, ...]) -> None:
    """Thin and small ones too, which are copied element by element."""
    for dtype in (*FLOAT, torch.int64, torch.uint8):
        a, turned = torch.randint(1, 9, shape).to(dtype), torch.randint(1, 9, shape[::-1]).to(dtype)
        b = turned.permute(*range(len(shape))[::-1])
        for first, second in ((a, b), (b, a)):
            for function in (torch.maximum, torch.mul, torch.lt):
                expected = function(first, second)
                result = function(on_device(first), on_device(second))
                assert torch.equal(result.cpu(), expected)
                assert result.stride() == expected.stride()
