"""Inductor kernels in which adjacent threads access adjacent elements, for drivers with SIMD groups.

In PyTorch's Metal kernels with several index variables, adjacent threads differ in the first variable, although the
last one is contiguous in Inductor's tilings. The threads of a SIMD group then access different cache lines.
"""

from __future__ import annotations

from typing import Any

import sympy
from torch._inductor.codegen.mps import MetalKernel

MIN_ADJACENT = 32  # threads of a SIMD group


class CallAwareKernel(MetalKernel):
    """A MetalKernel that knows when its call is emitted, so that active_range_trees() can return other dimensions."""

    _in_call = False

    def call_kernel(self, *args: Any, **kwargs: Any) -> None:
        """Emit the call."""
        self._in_call = True
        try:
            super().call_kernel(*args, **kwargs)
        finally:
            self._in_call = False


class CoalescedKernel(CallAwareKernel):
    """A MetalKernel whose accesses are coalesced where its index variables permit."""

    def codegen_kernel(self, *args: Any) -> str:
        """Emit the kernel."""
        text = super().codegen_kernel(*args)
        if self._last_is_adjacent():
            names = [tree.name for tree in self.active_range_trees()]
            for name, old, new in zip(names, "xyz", "zyx"[3 - len(names) :], strict=False):
                text = text.replace(f"auto {name} = thread_pos.{old};", f"auto {name} = thread_pos.{new};")
        return text

    def active_range_trees(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the index variables. While a call is emitted, start with the one of adjacent threads, as the kernel's
        thread positions do."""
        trees = super().active_range_trees(*args, **kwargs)
        return trees[::-1] if self._in_call and self._last_is_adjacent() else trees

    def _last_is_adjacent(self) -> bool:
        """Return whether adjacent threads differ in the last index variable."""
        trees = super().active_range_trees()
        if len(trees) < 2:
            return False
        return not isinstance(trees[-1].numel, sympy.Integer | int) or trees[-1].numel >= MIN_ADJACENT
