"""Random state: the `torch.mpsx` functions that mirror `torch.cuda`'s and `torch.mps`'s."""

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

# torch.mpsx.default_generators, as every other device has them.
default_generators: tuple[torch.Generator, ...] = (torch.ops.mpsx._default_generator(),)


def _generator(device: object = None) -> torch.Generator:
    index = device if isinstance(device, int) else torch.device("mpsx" if device is None else device).index
    if index is not None and not _runtime.is_device_index(index):
        raise ValueError(f"expected device index 0, got {index}")
    return default_generators[0]


def manual_seed(seed: int) -> None:
    """Seeds the default generator."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the default generator of every device; there is one. `torch.manual_seed` calls it."""
    manual_seed(seed)


def seed() -> int:
    """Seeds the default generator with a random number, which it returns."""
    return _generator().seed()


def seed_all() -> None:
    """`seed()` for every device; there is one."""
    seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return _generator().initial_seed()


def get_rng_state(device: object = "mpsx") -> torch.Tensor:
    """The default generator's state, a CPU byte tensor."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: object = "mpsx") -> None:
    """Sets the default generator's state to what `get_rng_state` returned."""
    _generator(device).set_state(new_state.clone(memory_format=torch.contiguous_format).cpu())


def get_rng_state_all() -> list[torch.Tensor]:
    """The state of every device's default generator."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the state of every device's default generator."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
