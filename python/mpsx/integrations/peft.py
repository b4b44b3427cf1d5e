"""Hugging Face peft: the device onto which adapters are loaded."""

from __future__ import annotations

from .rewrite import instead_of_cuda

PATCHES = {"peft.utils.other": (instead_of_cuda("infer_device"),)}
