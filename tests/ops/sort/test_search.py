"""searchsorted and bucketize: values, sides, sorters, NaN, empty inputs."""

from __future__ import annotations

import pytest
import torch
from layouts import make
from tables import DTYPES

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("dtype", DTYPES["REAL"])
def test_values(dtype: torch.dtype) -> None:
    rows = make("contiguous", dtype).sort(-1).values
    x = make("transposed", dtype, seed=1)
    for right in (False, True):
        assert torch.equal(torch.searchsorted(rows.to("mpsx"), x.contiguous().to("mpsx"), right=right).cpu(),
                           torch.searchsorted(rows, x.contiguous(), right=right))  # fmt: skip
        line = rows[0, 0]
        assert torch.equal(torch.bucketize(x.to("mpsx"), line.to("mpsx"), right=right, out_int32=True).cpu(),
                           torch.bucketize(x, line, right=right, out_int32=True))  # fmt: skip
    unsorted = make("contiguous", dtype)
    order = unsorted.argsort(-1)
    assert torch.equal(torch.searchsorted(unsorted.to("mpsx"), rows.to("mpsx"), sorter=order.to("mpsx")).cpu(),
                       torch.searchsorted(unsorted, rows, sorter=order))  # fmt: skip


def test_nan_and_empty_inputs() -> None:
    line = torch.tensor([0.0, 1.0, 2.0, float("inf"), float("nan")])
    x = torch.tensor([float("nan"), float("-inf"), float("inf"), 1.0, -0.0])
    for right in (False, True):
        assert torch.equal(torch.searchsorted(line.to("mpsx"), x.to("mpsx"), right=right).cpu(),
                           torch.searchsorted(line, x, right=right))  # fmt: skip
    empty = torch.empty(0, device="mpsx")
    assert torch.searchsorted(empty, x.to("mpsx")).cpu().tolist() == [0] * 5
    assert torch.searchsorted(line.to("mpsx"), empty).shape == (0,)
    assert torch.searchsorted(line.to("mpsx"), 1.5).item() == 2


@pytest.mark.parametrize("count", [0, 1, 2, 5, 33, 64, 100])
def test_searchsorted_matches_the_cpu_on_nan(count: int) -> None:
    """If the boundaries end in NaN, the result depends on the steps of the binary search. Some calls also pass a
    sorter."""
    values = torch.randn(3, 77) * 20
    for dtype in (torch.float32, torch.float16, torch.int64, torch.int8):
        x = values.to(dtype)
        boundaries = (torch.randn(count) * 20).to(dtype).sort().values
        if dtype.is_floating_point:
            x[0, ::5], x[1, 1], x[1, 2] = float("nan"), float("inf"), -float("inf")
            boundaries[count - count // 3 :] = float("nan")
        for right in (False, True):
            ours = torch.searchsorted(boundaries.to("mpsx"), x.to("mpsx"), right=right, out_int32=right)
            assert torch.equal(ours.cpu(), torch.searchsorted(boundaries, x, right=right, out_int32=right))
        mixed = boundaries[torch.randperm(count)]
        order = mixed.argsort()
        ours = torch.searchsorted(mixed.to("mpsx"), x.to("mpsx"), sorter=order.to("mpsx"))
        assert torch.equal(ours.cpu(), torch.searchsorted(mixed, x, sorter=order))
