"""The fixture `msl`: a Metal source compiled and called through the kernel ABI."""

from compiled_snippets import msl

__all__ = ["msl"]
