"""Tensors of a small dtype with more than 2^31 elements. Kernels must not truncate indices to 32 bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("no_fallback")]
COUNT = 2**31 + 1000
FREE = 10  # GiB of free memory that each case needs
MARKS = {0: 3, 12345: 4, 2**31 - 1: 5, 2**31: 6, 2**31 + 77: 7, COUNT - 1: 9}  # index -> value


@pytest.fixture(scope="module")
def large() -> torch.Tensor:
    with open("/proc/meminfo") as file:
        available = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) >> 20
    if available < FREE:
        pytest.skip(f"needs {FREE} GiB of free memory, got {available}")
    x = torch.zeros(COUNT, dtype=torch.int8, device="mpsx")
    for i, value in MARKS.items():
        x[i] = value
    return x


def assert_marks(x: torch.Tensor, expect: Callable[[int], int]) -> None:
    """Check that each marked element x[i] equals `expect(MARKS[i])`."""
    for i, value in MARKS.items():
        assert x[i].item() == expect(value), i


POSITIONS = list(MARKS)
VALUES = list(MARKS.values())


def test_elementwise(large: torch.Tensor) -> None:
    assert_marks(large + 1, lambda v: v + 1)
    assert_marks(large * large, lambda v: v * v)
    assert_marks((large > 4).to(torch.uint8), lambda v: int(v > 4))
    assert_marks(torch.where(large == 6, -1, large).to(torch.int8), lambda v: -1 if v == 6 else v)


def test_broadcast_and_strides(large: torch.Tensor) -> None:
    rows = large[: COUNT // 8 * 8].view(8, -1)
    assert torch.equal((rows + rows[0]).view(-1)[::2**20], (rows + rows[:1]).view(-1)[::2**20])
    turned = rows.t().contiguous()
    width = rows.shape[1]
    for i, value in MARKS.items():
        if i < rows.numel():
            assert turned[i % width, i // width].item() == value
    every_other = large[1::2].contiguous()
    assert every_other[(2**31 - 2) // 2].item() == MARKS[2**31 - 1]


def test_reductions(large: torch.Tensor) -> None:
    assert large.sum().item() == sum(VALUES)
    assert large.max().item() == 9
    assert large.argmax().item() == COUNT - 1
    assert large.count_nonzero().item() == len(MARKS)
    assert large.any().item() and not large.all().item()


def test_indexing(large: torch.Tensor) -> None:
    index = torch.tensor(POSITIONS, device="mpsx")
    expected = torch.tensor(VALUES, dtype=torch.int8)
    assert torch.equal(large[index].cpu(), expected)
    assert torch.equal(large.gather(0, index).cpu(), expected)
    assert torch.equal(large.index_select(0, index).cpu(), expected)
    assert torch.equal(large.take(index).cpu(), expected)
    assert torch.equal(large.nonzero().view(-1).cpu(), torch.tensor(POSITIONS))
    assert torch.equal(large[large != 0].cpu(), expected)


def test_writes(large: torch.Tensor) -> None:
    x = large.clone()
    index = torch.tensor(POSITIONS, device="mpsx")
    x[index] = 1
    assert x.sum().item() == len(MARKS)
    x.scatter_(0, index, torch.full((len(MARKS),), 2, dtype=torch.int8, device="mpsx"))
    assert x.sum().item() == 2 * len(MARKS)
    x.index_add_(0, index, torch.ones(len(MARKS), dtype=torch.int8, device="mpsx"))
    assert_marks(x, lambda _: 3)
    x.masked_fill_(x == 3, 4)
    assert_marks(x, lambda _: 4)
    x[2**31 - 5 : 2**31 + 5].fill_(7)
    assert x.sum().item() == 4 * (len(MARKS) - 2) + 7 * 10


def test_cat_flip_and_roll(large: torch.Tensor) -> None:
    both = torch.cat([large[: 2**30], large[2**30 :]])
    assert_marks(both, lambda v: v)
    turned = large.flip(0)
    for i, value in MARKS.items():
        assert turned[COUNT - 1 - i].item() == value
    rolled = large.roll(1000)
    assert rolled[2**31 + 77 - COUNT + 1000].item() == 7


def test_embedding_rows_past_31_bits() -> None:
    """Look up rows whose element indices exceed 2^31 (PyTorch issue 188756)."""
    weight = torch.zeros(2**16 + 8, 2**15, dtype=torch.bfloat16, device="mpsx")
    weight[2**16 + 5, 17] = 2.0
    index = torch.tensor([2**16 + 5, 3], device="mpsx")
    rows = torch.nn.functional.embedding(index, weight)
    assert rows[0, 17].item() == 2.0 and rows.float().sum().item() == 2.0


def test_copies_to_and_from_the_cpu(large: torch.Tensor) -> None:
    back = large.cpu()
    for i, value in MARKS.items():
        assert back[i].item() == value
    assert_marks(back.to("mpsx"), lambda v: v)
