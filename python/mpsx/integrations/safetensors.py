"""Hugging Face safetensors: it parses names of devices in Rust, and takes a number for the current accelerator."""

from __future__ import annotations

import functools
from types import ModuleType

import torch


def _open_anywhere(module: ModuleType) -> None:
    """`safe_open(…, device="mpsx")`, which `safetensors.torch.load_file` calls too."""
    original = module.safe_open
    if hasattr(original, "__wrapped__"):  # safetensors.torch got it from safetensors
        return

    @functools.wraps(original, updated=())
    def safe_open(filename: object, framework: str = "pt", device: object = "cpu", **options: object) -> object:
        if isinstance(device, torch.device) or (isinstance(device, str) and device.startswith("mps")):
            place = torch.device(device)
            device = 0 if place.type == torch.accelerator.current_accelerator().type else str(place)
        return original(filename, framework, device, **options)

    module.safe_open = safe_open


PATCHES = {"safetensors": (_open_anywhere,), "safetensors.torch": (_open_anywhere,)}
