"""The gradient of embedding, which is computed as segmented sums of rows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from deferred_errors import raises_after_sync
from tables import FLOAT
from threads import at_thread_counts

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("rows", [5, 300, 70_000])  # sort keys of one, two and four bytes
def test_gradient(rows: int, padding: int | None, scale: bool) -> None:
    weight = torch.randn(rows, 70)
    for shape in ((5000,), (3, 40), (), (0,)):
        index = torch.randint(0, rows, shape)
        if index.numel() > 5:
            index.view(-1)[:5] = rows - 1
        for index_type in (torch.int64, torch.int32):
            i = index.to(index_type)
            for dtype in FLOAT:
                gradient = torch.randn(*shape, 70).to(dtype)
                # Use a float32 weight for the reference, because the CPU sums in the dtype of the weight.
                a, b = weight.clone().requires_grad_(), weight.to(dtype).to("mpsx").requires_grad_()
                F.embedding(i, a, padding, scale_grad_by_freq=scale).backward(gradient.float())
                F.embedding(i.to("mpsx"), b, padding, scale_grad_by_freq=scale).backward(gradient.to("mpsx"))
                torch.testing.assert_close(b.grad.cpu(), a.grad.to(dtype))


def test_order_is_preserved() -> None:
    """Rows with equal indices are added in index order for any number of threads, so results are bitwise equal."""
    index = torch.randint(0, 40, (50_000,)).to("mpsx")
    gradient = torch.randn(50_000, 8).to("mpsx")
    results = at_thread_counts(
        lambda: torch.ops.aten.embedding_dense_backward(gradient, index, 40, -1, False).cpu(), (1, 2, 4)
    )
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
    sums = torch.zeros(40, 8)
    for i, row in zip(index.tolist(), gradient.cpu(), strict=True):
        sums[i] += row
    assert torch.equal(results[0], sums)


def test_errors() -> None:
    gradient = torch.zeros(2, 3, device="mpsx")
    message = "embedding_dense_backward: index 7 is out of bounds for dimension 0 with size 5"
    with raises_after_sync(IndexError, match=message):
        torch.ops.aten.embedding_dense_backward(gradient, torch.tensor([0, 7], device="mpsx"), 5, -1, False)


def test_kernels_run() -> None:
    weight = torch.randn(5, 3).to("mpsx").requires_grad_()
    out = F.embedding(torch.tensor([4, 1], device="mpsx"), weight, scale_grad_by_freq=True)
    with mpsx.profiler.launch_log() as log:
        out.backward(out.detach())
    for kernel in ("sort_rows_i8", "segment_sum_f32"):
        assert f"kernel:{kernel}" in log
