"""Loading of the eager kernels that a graph calls, such as those of matmul, while Inductor lowers the rest of it.

A GPU's driver compiles a kernel when it is first used, which takes up to a second. So threads call the graph's
operators in a plan (src/runtime/launch_plan.h), which loads kernels but neither launches them nor uses memory.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.graph import GraphLowering
from torch._ops import OpOverload
from torch._prims_common import compute_required_storage_length
from torch.utils._pytree import tree_leaves, tree_map_only

from .. import _runtime
from .kernels import CORES
from .lanes import runs_loops
from .lowerings import on_mpsx

NAMESPACES = ("aten", "mpsx")  # a user's operators may do more than launch kernels
THREADS = min(4, max(1, CORES // 2))  # the others compile generated kernels
_started: set[str] = set()


@dataclass(frozen=True)
class Layout:
    """The properties of a tensor that decide which kernel an operator uses."""

    device: torch.device
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, x: torch.Tensor) -> Layout:
        """Return a tensor's layout."""
        return cls(x.device, x.dtype, tuple(x.shape), x.stride(), x.storage_offset())

    def tensor(self) -> torch.Tensor:
        """Return a tensor with this layout."""
        elements = compute_required_storage_length(self.size, self.stride, self.offset)
        memory = torch.empty(elements, dtype=self.dtype, device=self.device)
        return memory.as_strided(self.size, self.stride, self.offset)


def is_known(x: Any) -> bool:
    """Return whether an argument is not symbolic, and if it is a tensor, whether it is dense and of known size."""
    if isinstance(x, torch.Tensor):
        return x.layout == torch.strided and all(map(is_known, (*x.shape, *x.stride(), x.storage_offset())))
    return not isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool)


@functools.cache
def pool() -> ThreadPoolExecutor:
    """Return the threads."""
    return ThreadPoolExecutor(THREADS, "mpsx-preload")


def load(op: OpOverload, args: Any, kwargs: Any) -> list[str]:
    """Load the kernels of a call. Return its launches, or [] if it fails, as the graph's own call will."""

    def call() -> None:
        tensors, named = tree_map_only(Layout, Layout.tensor, (args, kwargs))
        op(*tensors, **named)

    with torch.no_grad(), suppress(Exception):
        return _runtime.plan(call)
    return []


def preload(node: torch.fx.Node) -> None:
    """Start to load the kernels of an operator that a node calls with known arguments."""
    op = node.target
    if not isinstance(op, OpOverload) or op.namespace not in NAMESPACES:
        return
    values = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda x: x.meta.get("val"))
    if not on_mpsx(values) or not all(map(is_known, tree_leaves(values))):
        return
    start(op, *tree_map_only(torch.Tensor, Layout.of, values))


def start(op: OpOverload, args: Any, kwargs: Any) -> None:
    """Start to load the kernels of a call, unless that has been done."""
    call = f"{op} {args} {kwargs}"
    if call not in _started:
        _started.add(call)
        pool().submit(load, op, args, kwargs)


def install() -> None:
    """Preload the kernels of each node that Inductor lowers to a call of an operator."""
    previous = GraphLowering.run_node

    @functools.wraps(previous)
    def run_node(self: GraphLowering, n: torch.fx.Node) -> object:
        before = len(self.operations)
        result = previous(self, n)
        if not runs_loops() and any(isinstance(op, ir.ExternKernel) for op in self.operations[before:]):
            preload(n)
        return result

    GraphLowering.run_node = run_node
