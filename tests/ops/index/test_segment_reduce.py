"""segment_reduce: every reduction, lengths and offsets, empty segments, gradients and errors."""

from __future__ import annotations

import pytest
import torch
from layouts import on_device
from tables import FLOAT

pytestmark = pytest.mark.usefixtures("no_fallback")

REDUCTIONS = ("sum", "mean", "max", "min", "prod")
LENGTHS = torch.tensor([[2, 0, 3, 1], [1, 1, 1, 3]])


def run(data: torch.Tensor, reduce: str, **options: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result and the gradient with respect to `data`."""
    leaf = data.detach().requires_grad_()
    result = torch.segment_reduce(leaf, reduce, **options)
    result.backward(torch.linspace(0.5, 2, result.numel()).view(result.shape).to(result))
    return result.detach().cpu(), leaf.grad.cpu()


@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_values(reduce: str, initial: float | None) -> None:
    for dtype in FLOAT:
        data = torch.randint(-3, 4, (2, 6, 5)).to(dtype)  # many zeros and many ties
        data[0, 0, 0] = float("nan")
        for options in ({"lengths": LENGTHS, "axis": 1}, {"lengths": LENGTHS[0, [0]], "unsafe": True},
                        {"lengths": LENGTHS[0] // 2, "unsafe": True, "axis": 0}):  # fmt: skip
            options |= {"initial": initial}
            on = {k: on_device(v) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
            for ours, theirs in zip(run(on_device(data), reduce, **on), run(data, reduce, **options), strict=True):
                torch.testing.assert_close(ours, theirs, equal_nan=True)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_offsets(reduce: str) -> None:
    data = torch.randn(7, 3)
    for offsets in (torch.tensor([0, 3, 3, 7]), torch.tensor([1, 4, 6])):
        ours = run(on_device(data), reduce, offsets=on_device(offsets), axis=0)
        for a, b in zip(ours, run(data, reduce, offsets=offsets, axis=0), strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)


def test_errors() -> None:
    data = torch.randn(4, 3, device="mpsx")
    with pytest.raises(RuntimeError, match=r"to sum to data\.size"):
        torch.segment_reduce(data, "sum", lengths=on_device(torch.tensor([1, 2])))
    with pytest.raises(RuntimeError, match="negative value"):
        torch.segment_reduce(data, "sum", lengths=on_device(torch.tensor([5, -1])))
    with pytest.raises(RuntimeError, match="last dimension of lengths"):
        torch.segment_reduce(data, "sum", lengths=on_device(torch.tensor([4])), axis=1)
