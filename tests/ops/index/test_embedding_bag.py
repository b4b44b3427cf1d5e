"""embedding_bag: modes, offsets, weights, padding, gradients and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from deferred_errors import raises_after_sync
from float64_reference import compare
from layouts import on_device
from tables import FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

INDICES = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3])
OFFSETS = torch.tensor([0, 3, 3, 4, 10])  # two bags are empty; one of them is the last


OPTIONS = [{}, {"padding_idx": 1}, {"include_last_offset": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str, options: dict[str, Any]) -> None:
    for dtype in FLOAT:
        table = torch.randperm(700).view(10, 70).to(dtype) / 64  # distinct values, so that each maximum is unique

        def bags(table: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
            return F.embedding_bag(indices, table, offsets, mode=mode, **options)

        with mpsx.profiler.launch_log() as log:
            bags(on_device(table), on_device(INDICES), on_device(OFFSETS))
        assert f"kernel:embedding_bag_{TAGS[dtype]}" in log
        compare(bags, table, INDICES, OFFSETS)
    table = torch.randn(70, 10).t()
    compare(bags, table, INDICES.int(), OFFSETS.int())
    for narrow in (torch.uint8, torch.int16):  # the narrower dtype is promoted
        compare(bags, table, INDICES, OFFSETS.to(narrow))
        compare(bags, table, INDICES.to(narrow), OFFSETS)


def test_rows_as_bags() -> None:
    compare(lambda table, indices: F.embedding_bag(indices, table, mode="sum"), torch.randn(10, 5), INDICES.view(2, 5))


@pytest.mark.parametrize("dtype", FLOAT)
def test_weights(dtype: torch.dtype) -> None:
    def bags(
        table: torch.Tensor, weights: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, padding: int | None
    ) -> torch.Tensor:
        return F.embedding_bag(indices, table, offsets, mode="sum", per_sample_weights=weights, padding_idx=padding)

    for padding in (None, 5):
        compare(bags, torch.randn(10, 7).to(dtype), torch.rand(10).to(dtype), INDICES, OFFSETS, padding)
        compare(bags, torch.randn(10, 7).to(dtype), torch.rand(10).to(dtype), INDICES.short(), OFFSETS, padding)


@pytest.mark.parametrize("mode", ["mean", "max"])  # for sum, the CPU omits these indices, and its gradient is undefined
def test_indices_past_the_last_offset_are_in_the_last_bag(mode: str) -> None:
    def bags(table: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, table, offsets, mode=mode, include_last_offset=True)

    compare(bags, torch.randperm(70).view(10, 7) / 64, INDICES, torch.tensor([0, 3, 7]))


def test_scale_grad_by_freq() -> None:
    """The CPU cannot be the reference, because its kernel scales by the count of the wrong index."""
    table = on_device(torch.randn(10, 3))
    counts = torch.bincount(INDICES, minlength=10).clamp(min=1).unsqueeze(1)
    gradients = []
    for scaled in (False, True):
        leaf = table.clone().requires_grad_()
        result = F.embedding_bag(on_device(INDICES), leaf, on_device(OFFSETS), mode="sum", scale_grad_by_freq=scaled)
        result.sum().backward()
        gradients.append(leaf.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0] / counts)


def test_sparse_gradient() -> None:
    table = torch.randn(10, 3)
    ours, theirs = on_device(table).requires_grad_(), table.clone().requires_grad_()
    with mpsx.fallback.using_mode("silent"):  # sparse tensors fall back to the CPU
        F.embedding_bag(on_device(INDICES), ours, on_device(OFFSETS), mode="sum", sparse=True).sum().backward()
        F.embedding_bag(INDICES, theirs, OFFSETS, mode="sum", sparse=True).sum().backward()
        torch.testing.assert_close(ours.grad.to_dense().cpu(), theirs.grad.to_dense())


def test_empty_input_and_errors() -> None:
    table, none = torch.randn(4, 3, device="mpsx"), torch.empty(0, dtype=torch.long, device="mpsx")
    assert F.embedding_bag(none, table, none).shape == (0, 3)
    assert F.embedding_bag(none, table, torch.zeros(2, dtype=torch.long, device="mpsx")).cpu().eq(0).all()
    with raises_after_sync(RuntimeError, match="embedding_bag"):
        F.embedding_bag(on_device(torch.tensor([4])), table, on_device(torch.tensor([0])))
    with pytest.raises(RuntimeError, match=r"offsets\[0\] has to be 0"):
        F.embedding_bag(on_device(torch.tensor([1])), table, on_device(torch.tensor([1])))
    with pytest.raises(RuntimeError, match="can not be greater than input's length"):
        F.embedding_bag(on_device(torch.tensor([1])), table, on_device(torch.tensor([0, 7])))
