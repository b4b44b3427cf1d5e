"""sentence-transformers: the default device for models."""

from __future__ import annotations

from .rewrite import instead_of_cuda

PATCHES = {"sentence_transformers.util.environment": (instead_of_cuda("get_device_name"),)}
