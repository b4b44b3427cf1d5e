"""Random generators: seeds, states, the default generator, and torch.random.fork_rng."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.usefixtures("silent_fallback")


def draw(generator: torch.Generator | None = None) -> list[float]:
    normal = torch.empty(3, device="mpsx").normal_(generator=generator)
    permutation = torch.randperm(5, device="mpsx", generator=generator)
    return normal.tolist() + permutation.tolist()


def test_manual_seed_reaches_the_device() -> None:
    torch.manual_seed(5)
    first = draw()
    assert draw() != first
    torch.manual_seed(5)
    assert draw() == first
    torch.mpsx.manual_seed(5)
    assert draw() == first
    assert torch.mpsx.initial_seed() == 5


def test_generators_are_independent() -> None:
    one, two = torch.Generator(device="mpsx"), torch.Generator("mpsx:0")
    assert one.device == torch.device("mpsx:0")
    one.manual_seed(3)
    two.manual_seed(3)
    assert draw(one) == draw(two)
    torch.manual_seed(3)
    assert draw(one) != draw()
    assert one.initial_seed() == 3
    assert one.seed() != 3


def test_states() -> None:
    generator = torch.Generator(device="mpsx").manual_seed(11)
    state = generator.get_state()
    assert (state.device.type, state.dtype) == ("cpu", torch.uint8)
    first = draw(generator)
    second = draw(generator)
    generator.set_state(state)
    assert draw(generator) == first
    copy = generator.clone_state()
    assert draw(copy) == second == draw(generator)
    tied = torch.Generator(device="mpsx")
    tied.graphsafe_set_state(generator.graphsafe_get_state())
    tied.manual_seed(11)
    assert draw(generator) == first
    with pytest.raises(RuntimeError, match="expected an mpsx generator state of 16 bytes, got 4"):
        generator.set_state(torch.zeros(4, dtype=torch.uint8))


def draw_by_fallback(generator: torch.Generator | None = None) -> list[float]:
    """Draw float64 numbers. normal_ falls back to the CPU for float64."""
    return torch.empty(3, device="mpsx", dtype=torch.float64).normal_(generator=generator).tolist()


def test_state_is_seed_and_offset() -> None:
    generator = torch.Generator(device="mpsx").manual_seed(7)
    for step in (draw, draw_by_fallback, draw):
        seed, offset = generator.get_state().view(torch.int64).tolist()
        assert seed == 7 and offset % 4 == 0 and offset == generator.get_offset()
        step(generator)
        assert generator.get_offset() > offset
    moved = torch.tensor([7, 400], dtype=torch.int64).view(torch.uint8)
    generator.set_state(moved)
    assert generator.get_offset() == 400 and generator.initial_seed() == 7
    first = draw(generator)
    generator.set_offset(400)
    assert draw(generator) == first


def test_fallbacks_are_reproducible() -> None:
    """Like kernels, fallbacks derive their random numbers from the seed and the offset."""
    generator = torch.Generator(device="mpsx").manual_seed(5)
    first, state = draw_by_fallback(generator), generator.get_state()
    second, third = draw_by_fallback(generator), draw(generator)
    assert first != second
    generator.set_state(state)
    assert (draw_by_fallback(generator), draw(generator)) == (second, third)
    assert draw_by_fallback(generator.manual_seed(5)) == first
    # For the same seed, the first numbers after seeding equal those of a CPU generator.
    assert first == torch.empty(3, dtype=torch.float64).normal_(generator=torch.Generator().manual_seed(5)).tolist()
    torch.manual_seed(5)
    with torch.random.fork_rng(devices=[0], device_type="mpsx"):
        forked = draw_by_fallback(), draw()
    assert (draw_by_fallback(), draw()) == forked


def test_checkpoint_preserves_the_state() -> None:
    from torch.utils.checkpoint import checkpoint

    for dtype in (torch.float32, torch.float64):
        x = torch.ones(64, device="mpsx", dtype=dtype, requires_grad=True)
        masks = []

        def noisy(x: torch.Tensor) -> torch.Tensor:
            masks.append(torch.empty_like(x).uniform_())  # noqa: B023
            return (x * masks[-1]).sum()  # noqa: B023

        for reentrant in (False, True):
            checkpoint(noisy, x, use_reentrant=reentrant, preserve_rng_state=True).backward()
            assert len(masks) == 2 and torch.equal(*(mask.detach().cpu() for mask in masks))
            masks.clear()


def test_state_format_of_earlier_versions() -> None:
    """A state saved by an earlier version contains the seed, the offset, and the state of a CPU generator."""
    generator = torch.Generator(device="mpsx").manual_seed(9)
    draw(generator)
    state = torch.cat([generator.get_state(), torch.Generator().get_state()])
    assert state.numel() == 5072
    expected = draw(generator)
    generator.set_state(state)
    assert draw(generator) == expected


def test_rng_state_functions() -> None:
    state = torch.mpsx.get_rng_state()
    first = draw()
    torch.mpsx.set_rng_state(state)
    assert draw() == first
    torch.mpsx.set_rng_state_all([state])
    assert draw() == first
    assert len(torch.mpsx.get_rng_state_all()) == 1
    torch.mpsx.seed()
    assert torch.mpsx.default_generators[0].initial_seed() == torch.mpsx.initial_seed()


def test_fork_rng() -> None:
    torch.manual_seed(1)
    expected = draw()
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type="mpsx"):
        draw()
    assert draw() == expected


def test_generator_of_another_device_raises() -> None:
    with pytest.raises(RuntimeError, match=r"(?i)generator"):
        torch.empty(3, device="mpsx").normal_(generator=torch.Generator())
