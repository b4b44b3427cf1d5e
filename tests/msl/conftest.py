"""Provides the fixture `msl`, which compiles a Metal source and calls it through the kernel ABI."""

from compiled_snippets import msl

__all__ = ["msl"]
