"""torch.save and torch.load: the device's name in files, and what `map_location` makes of it."""

from __future__ import annotations

import torch

from .. import _runtime

# Below 21, where torch's own handler for "mps" takes every location that starts with those letters.
PRIORITY = 15


def _tag(storage: torch.UntypedStorage) -> str | None:
    name = _runtime.device_type()
    return name if storage.device.type == name else None


def _restore(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage | None:
    if location.partition(":")[0] not in ("mpsx", _runtime.device_type()):
        return None
    index = torch.device(location).index
    if index is not None and not _runtime.is_device_index(index):
        raise RuntimeError(f"torch.load: the file has a storage of {location}; there is only mpsx:0")
    return storage.mpsx()


def register() -> None:
    """Makes torch know it."""
    torch.serialization.register_package(PRIORITY, _tag, _restore)
