"""Support torch.save and torch.load, including `map_location`."""

from __future__ import annotations

import torch

from .. import _runtime

# Handlers with lower numbers run first. PyTorch's handler for "mps" (21) accepts every location that starts with "mps".
PRIORITY = 15


def _tag(storage: torch.UntypedStorage) -> str | None:
    name = _runtime.device_type()
    return name if storage.device.type == name else None


def _restore(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage | None:
    if location.partition(":")[0] not in ("mpsx", _runtime.device_type()):
        return None
    index = torch.device(location).index
    if index is not None and not _runtime.is_device_index(index):
        raise RuntimeError(f"torch.load: expected the device mpsx:0, got a storage on {location}")
    return storage.mpsx()


def register() -> None:
    """Register the handlers with torch.serialization."""
    torch.serialization.register_package(PRIORITY, _tag, _restore)
