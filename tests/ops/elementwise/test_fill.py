"""torch.range and torch.linspace."""

from __future__ import annotations

import pytest
import torch
from tables import FLOAT

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("dtype", [*FLOAT, torch.int64, torch.int32, torch.int16, torch.uint8])
def test_sequences(dtype: torch.dtype) -> None:
    for start, end, step in ((0, 10, 1), (3, 20, 4), (9, 2, -3), (5, 5, 1)):
        expected = torch.range(start, end, step, dtype=dtype)
        torch.testing.assert_close(torch.range(start, end, step, dtype=dtype, device="mpsx").cpu(), expected)
    if dtype.is_floating_point:
        torch.testing.assert_close(torch.range(0.5, 4, 0.25, dtype=dtype, device="mpsx").cpu(),
                                   torch.range(0.5, 4, 0.25, dtype=dtype))  # fmt: skip
        return
    for start, end, steps in ((0, 10, 5), (3, 100, 7), (50, 3, 11), (4, 9, 1), (0, 7, 0), (0, 120, 100)):
        expected = torch.linspace(start, end, steps, dtype=dtype)
        assert torch.equal(torch.linspace(start, end, steps, dtype=dtype, device="mpsx").cpu(), expected)
