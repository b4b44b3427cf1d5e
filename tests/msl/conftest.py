"""The fixture `msl`, which compiles Metal source and calls its kernels through the kernel ABI."""

from compiled_snippets import msl

__all__ = ["msl"]
