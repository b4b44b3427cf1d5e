"""unique and unique_consecutive: values, inverse indices, counts."""

from __future__ import annotations

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from tables import DTYPES

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES["ALL"])
def test_unique(dtype: torch.dtype, layout: str) -> None:
    x = make(layout, dtype)
    if not dtype.is_floating_point:
        results = torch.unique(on_device(x), return_inverse=True, return_counts=True)
        for a, b in zip(results, torch.unique(x, return_inverse=True, return_counts=True), strict=True):
            assert torch.equal(a.cpu(), b)
    results = torch.unique_consecutive(on_device(x), return_inverse=True, return_counts=True)
    for a, b in zip(results, torch.unique_consecutive(x, return_inverse=True, return_counts=True), strict=True):
        assert torch.equal(a.cpu(), b)
    assert torch.equal(torch.unique(on_device(x)).cpu(), torch.unique(x))
