"""Hugging Face safetensors. Its Rust code rejects the name mpsx, but accepts an index of the current accelerator."""

from __future__ import annotations

import functools
from types import ModuleType

import torch


def _accept_mpsx(module: ModuleType) -> None:
    """Support `safe_open(…, device="mpsx")`, which `safetensors.torch.load_file` also calls."""
    original = module.safe_open
    if hasattr(original, "__wrapped__"):  # already wrapped: safetensors.torch imports it from safetensors
        return

    @functools.wraps(original, updated=())
    def safe_open(filename: object, framework: str = "pt", device: object = "cpu", **options: object) -> object:
        if isinstance(device, torch.device) or (isinstance(device, str) and device.startswith("mps")):
            wanted = torch.device(device)
            device = 0 if wanted.type == torch.accelerator.current_accelerator().type else str(wanted)
        return original(filename, framework, device, **options)

    module.safe_open = safe_open


PATCHES = {"safetensors": (_accept_mpsx,), "safetensors.torch": (_accept_mpsx,)}
