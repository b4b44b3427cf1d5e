"""Generators: seeds, states, the default generator, forks of the random state."""

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
    with pytest.raises(RuntimeError, match="bytes"):
        generator.set_state(torch.zeros(4, dtype=torch.uint8))


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


def test_generators_of_other_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"(?i)generator"):
        torch.empty(3, device="mpsx").normal_(generator=torch.Generator())
