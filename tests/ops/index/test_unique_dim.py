"""unique and unique_consecutive along a dimension, mode, tril_indices and triu_indices."""

from __future__ import annotations

import pytest
import torch
from layouts import on_device
from tables import DTYPES, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


def same(ours: tuple[torch.Tensor, ...], theirs: tuple[torch.Tensor, ...]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.cpu(), b, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES["ALL"])
def test_unique(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, (37, 2, 3)).to(dtype)
    for t in (x, x.transpose(0, 1), x[::2]):
        for dim in range(3):
            with mpsx.profiler.launch_log() as log:
                result = torch.unique(on_device(t), dim=dim, return_inverse=True, return_counts=True)
            assert f"kernel:merge_rows_{'u8' if dtype == torch.bool else TAGS[dtype]}" in log
            same(result, torch.unique(t, dim=dim, return_inverse=True, return_counts=True))
            same(
                torch.unique_consecutive(on_device(t), dim=dim, return_inverse=True, return_counts=True),
                torch.unique_consecutive(t, dim=dim, return_inverse=True, return_counts=True),
            )
    flat = x.flatten()
    same(torch.unique(on_device(flat), dim=0, return_counts=True), torch.unique(flat, dim=0, return_counts=True))


@pytest.mark.parametrize("dtype", DTYPES["ALL"])
@pytest.mark.parametrize("count", [1, 700, 5000])
def test_unique_of_flattened_input(dtype: torch.dtype, count: int) -> None:
    """Cover one chunk, several chunks, runs that cross chunk boundaries, and every combination of return values."""
    numbers = torch.randint(0, 3 if count < 5000 else 100, (count,)).to(dtype)
    special = numbers.clone()
    if dtype.is_floating_point:
        special[::7] = float("nan")
    for inverse, counts in ((False, False), (True, False), (False, True), (True, True)):
        # Every NaN counts as distinct, and PyTorch does not specify the order of NaNs.
        x = numbers if inverse else special
        for t in (x, x.flip(0)[::2], x[: count // 10 * 10].view(-1, 5) if count > 5 else x):
            for function in (torch.unique, torch.unique_consecutive):
                ours = function(on_device(t), return_inverse=inverse, return_counts=counts)
                theirs = function(t, return_inverse=inverse, return_counts=counts)
                same(*(r if isinstance(r, tuple) else (r,) for r in (ours, theirs)))


def test_unique_of_empty_input() -> None:
    x = torch.empty(0, 3)
    for function in (torch.unique, torch.unique_consecutive):
        same(function(on_device(x), dim=0, return_counts=True), function(x, dim=0, return_counts=True))
        with pytest.raises(RuntimeError, match="0 sized dimensions"):
            function(on_device(x), dim=1)


@pytest.mark.parametrize("dtype", DTYPES["ALL"])
def test_mode(dtype: torch.dtype) -> None:
    x = torch.randint(0, 3, (4, 9, 5)).to(dtype)
    for t in (x, x.transpose(0, 2), x[:, ::2], x.repeat(1, 70, 1)):
        for dim in (0, 1, -1):
            values, indices = torch.mode(on_device(t), dim)
            torch.testing.assert_close(values.cpu(), torch.mode(t, dim).values)
            torch.testing.assert_close(t.gather(dim, indices.cpu().unsqueeze(dim)).squeeze(dim), values.cpu())
    same(torch.mode(on_device(x), 1, keepdim=True)[:1], torch.mode(x, 1, keepdim=True)[:1])
    same(torch.mode(on_device(x[0, 0, 0])), torch.mode(x[0, 0, 0]))


def test_mode_of_special_values() -> None:
    nan = float("nan")
    x = torch.tensor([[nan, nan, 2.0], [5.0, 5.0, nan], [-0.0, 0.0, 1.0]])
    same(torch.mode(on_device(x))[:1], torch.mode(x)[:1])
    same(torch.mode(on_device(x.repeat(1, 300)))[:1], torch.mode(x.repeat(1, 300))[:1])
    ours = on_device(x).requires_grad_()
    torch.mode(ours[1:]).values.sum().backward()
    assert ours.grad.cpu().sum() == 2
    values, indices = torch.empty(0, device="mpsx"), torch.empty(0, dtype=torch.long, device="mpsx")
    torch.mode(on_device(x[1:]), 1, out=(values, indices))
    torch.testing.assert_close(values.cpu(), torch.tensor([5.0, 0.0]))
    with pytest.raises(IndexError, match="non-zero size"):
        torch.mode(torch.empty(3, 0, device="mpsx"), 1)


@pytest.mark.parametrize("function", [torch.tril_indices, torch.triu_indices])
def test_triangle_indices(function: object) -> None:
    for rows, columns, offset in ((4, 4, 0), (3, 5, -1), (5, 2, 1), (0, 3, 0), (3, 3, 7)):
        for dtype in (torch.long, torch.int32):
            ours = function(rows, columns, offset, device="mpsx", dtype=dtype)
            torch.testing.assert_close(ours.cpu(), function(rows, columns, offset, dtype=dtype))
