"""Reductions of Inductor's kernels over a threadgroup, for drivers with SIMD groups.

In PyTorch's Metal functions, each thread computes a variance by looping over the values of all threads, and reductions
of 64-bit integers read lanes that a partial SIMD group does not have. These kernels use metal/lib for both.
"""

from __future__ import annotations

import math
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.mps import MetalKernel
from torch._inductor.virtualized import OpsWrapper
from torch.utils._sympy.functions import Min

HEADERS = {"tg_moments(": "lib/moments.h", "tg_reduce<": "lib/collective.h", "tg_argmax(": "lib/collective.h"}
SCRATCH = 32  # kScratch in metal/lib/threadgroup.h
LOWEST, LARGEST = "::metal::numeric_limits<long>::lowest()", "::metal::numeric_limits<long>::max()"
# How to combine two 64-bit integers, and the value to start with.
INTEGERS = {"sum": ("CombineSum", "0"), "prod": ("CombineProduct", "1"), "max": ("CombineMax", LOWEST),
            "min": ("CombineMin", LARGEST)}  # fmt: skip


class GroupReductionKernel(MetalKernel):
    """A MetalKernel that reduces moments and 64-bit integers with functions of metal/lib."""

    _group = ""  # the GroupThread of tg_reduce(), once a reduction needs it

    def _reduction_nocache(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Any:
        """Emit a reduction over the threadgroup, after one over each thread's elements if there are several."""
        if reduction_type in ("welford_reduce", "welford_combine"):
            return self._moments(value)
        if src_dtype == torch.int64 and reduction_type in INTEGERS:
            combine, init = INTEGERS[reduction_type]
            partial = self._of_thread("long", init, combine, f"long({value})")
            return self._of_group(self.stores, f"tg_reduce<{combine}>", "long", partial, torch.int64)
        if src_dtype == torch.int64 and reduction_type in ("argmax", "argmin"):
            return self._first(dtype, f"~long({value})" if reduction_type == "argmin" else f"long({value})")
        return super()._reduction_nocache(dtype, src_dtype, reduction_type, value)

    def _moments(self, value: Any) -> Any:
        """Emit a variance. Return the mean, the sum of squared deviations, and the number of elements."""
        code = self.stores if self.multistage_reduction_entry else self.compute
        mean, m2, count = value if isinstance(value, tuple) else (value, "0.0f", "1.0f")
        moments = f"Moments{{float({count}), float({mean}), float({m2})}}"
        partial = self._of_thread("Moments", "{0.0f, 0.0f, 0.0f}", "CombineMoments", moments)
        found = self._of_group(code, "tg_moments", "Moments", partial, torch.float32)
        return OpsWrapper._unwrap([CSEVariable(f"{found}.{field}", found.bounds, found.dtype)
                                   for field in ("mean", "m2", "count")])  # fmt: skip

    def _first(self, dtype: torch.dtype, key: str) -> CSEVariable:
        """Emit the index of the first of the largest keys."""
        index = self._position()
        if self.multistage_reduction_entry:
            index = next(entry for entry in self.range_tree_nodes.values() if entry.is_reduction).name
        lowest, value = f"{{{LOWEST}, {LARGEST}}}", f"Indexed<long>{{{key}, long({index})}}"
        partial = self._of_thread("Indexed<long>", lowest, "CombineArgMax", value)
        found = self._of_group(self.stores, "tg_argmax", "Indexed<long>", partial, torch.int64)
        return self.cse.generate(self.stores, f"{found}.index", dtype=dtype)

    def _of_thread(self, kind: str, init: str, combine: str, value: str) -> str:
        """Combine the values of a thread's elements if it has several. Return the result, or else the value."""
        if not self.multistage_reduction_entry:
            return value
        partial = self._new_idxvar(kind, default_value=init, is_threadgroup=False)
        self.compute.writeline(f"{partial} = {combine}::apply({partial}, {value});")
        return str(partial)

    def _of_group(self, code: Any, function: str, kind: str, value: str, dtype: torch.dtype) -> CSEVariable:
        """Emit a call that reduces one value per thread."""
        scratch = self._new_idxvar(kind, SCRATCH)
        return self.cse.generate(code, f"{function}({value}, {scratch}, {self._group_thread()})", dtype=dtype)

    def _position(self) -> str:
        """Return the thread's index in the threadgroup."""
        terms, before = [], sympy.Integer(1)
        for tree in self._reduction_trees():
            terms.append(f"{tree.name} * ({self.sexpr(before)})")
            before = before * Min(self._numel(tree), self.max_threadgroup_size)
        return " + ".join(terms)

    def _group_thread(self) -> str:
        """Return the name of the GroupThread that functions of metal/lib need."""
        if not self._group:
            self._group, width = "reduction_group", self.simd_group_size
            numel = math.prod((self._numel(tree) for tree in self._reduction_trees()), start=sympy.Integer(1))
            size = self.sexpr(Min(numel, self.max_threadgroup_size))
            self.indexing_code.splice(f"""
                const uint reduction_thread = uint({self._position()});
                const GroupThread {self._group} = {{
                    uint3(0), reduction_thread, uint({size}), reduction_thread % {width}, {width}
                }};
            """)
        return self._group

    def _reduction_trees(self) -> list[Any]:
        return [tree for tree in self.range_trees if tree.is_reduction]

    def _numel(self, tree: Any) -> sympy.Expr:
        if isinstance(tree.numel, sympy.Integer):
            return tree.numel
        return sympy.Symbol(f"{tree.prefix}numel", integer=True, positive=True)
