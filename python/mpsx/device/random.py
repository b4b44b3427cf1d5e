"""Random number functions of `torch.mpsx`. They mirror the functions of `torch.cuda` and `torch.mps`."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .. import _runtime

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]

default_generators: tuple[torch.Generator, ...] = (torch.ops.mpsx._default_generator(),)


def _generator(device: object = None) -> torch.Generator:
    index = device if isinstance(device, int) else torch.device("mpsx" if device is None else device).index
    if index is not None and not _runtime.is_device_index(index):
        raise ValueError(f"expected device index 0, got {index}")
    return default_generators[0]


def manual_seed(seed: int) -> None:
    """Seed the default generator."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Call `manual_seed()`, because there is only one device. `torch.manual_seed` calls this function."""
    manual_seed(seed)


def seed() -> int:
    """Seed the default generator with a random number, and return that number."""
    return _generator().seed()


def seed_all() -> None:
    """Call `seed()`, because there is only one device."""
    seed()


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return _generator().initial_seed()


def get_rng_state(device: object = "mpsx") -> torch.Tensor:
    """Return the default generator's state as a uint8 tensor on the CPU."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: object = "mpsx") -> None:
    """Restore a state returned by `get_rng_state`."""
    _generator(device).set_state(new_state.clone(memory_format=torch.contiguous_format).cpu())


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the state of each device's default generator."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Restore the state of each device's default generator."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
