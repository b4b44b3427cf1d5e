"""The device as PyTorch sees it: `torch.mpsx` (module.py), and the hooks that PyTorch's own Python code calls."""

from __future__ import annotations


def register() -> None:
    """Register everything with PyTorch. The backend must be initialized."""
    from . import backward, module, printing, serialization, sharing, shutdown

    for part in (module, serialization, backward, shutdown, printing, sharing):
        part.register()
