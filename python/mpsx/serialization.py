"""torch.save and torch.load: the tag "mpsx" in files, and what `map_location` makes of it."""

from __future__ import annotations

import torch

# Below 21, where torch's own handler for "mps" takes every location that starts with those letters.
PRIORITY = 15


def _tag(storage: torch.UntypedStorage) -> str | None:
    return "mpsx" if storage.device.type == "mpsx" else None


def _restore(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage | None:
    if location != "mpsx" and not location.startswith("mpsx:"):
        return None
    index = torch.device(location).index
    if index not in (None, 0):
        raise RuntimeError(f"torch.load: the file has a storage of {location}; there is only mpsx:0")
    return storage.mpsx()


def register() -> None:
    """Makes torch know it."""
    torch.serialization.register_package(PRIORITY, _tag, _restore)
