"""Fusion of kernels that neither share data nor depend on each other, to launch fewer kernels.

Inductor fuses nodes that share data. The update of a batch counter, or the addition of a reduction's parts, takes less
time than its launch, so such nodes become one kernel if their sizes are equal. So do larger nodes that can run at any
time, such as the conversions of weights and of their gradients under autocast.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from torch._inductor import config
from torch._inductor.scheduler import BaseSchedulerNode, FusedSchedulerNode, Scheduler, SchedulerNode
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .lanes import runs_loops
from .nesting import known

MAX_ELEMENTS = 2**18  # that a small kernel loads
MAX_FUSED = 2**24  # elements that a fused kernel loads, because their memory is freed later
MAX_DISTANCE = 8  # in the schedule, because users of a result wait for the others
MAX_KERNELS = 4  # that a node can join


def elements(node: BaseSchedulerNode) -> int | None:
    """Return the number of elements that a kernel loads, or None if it is not generated for mpsx with SIMD groups."""
    device = node.get_device()
    if type(node) not in (SchedulerNode, FusedSchedulerNode) or device is None or device.type != "mpsx":
        return None
    sizes = node.group[1]
    if node.is_template() or runs_loops() or not known(*sizes):
        return None
    parts = node.get_nodes()
    return int(sizes[0] * sizes[1]) * len(parts) if all(type(part) is SchedulerNode for part in parts) else None


def is_unused(node: BaseSchedulerNode) -> bool:
    """Return whether no other node uses the results."""
    names = node.get_operation_names()
    return all(user.get_name() in {*names, "OUTPUT"} for out in node.get_outputs() for user in out.users)


def is_saved(node: BaseSchedulerNode, outputs: OrderedSet[str]) -> bool:
    """Return whether a node reads only inputs of the graph, and all its results are among the graph's `outputs`."""
    return not node.ancestors and node.get_buffer_names() <= outputs


def can_move(outputs: OrderedSet[str], *nodes: BaseSchedulerNode) -> bool:
    """Return whether all nodes can run later, or all can run earlier, without delaying others."""
    return all(map(is_unused, nodes)) or all(is_saved(node, outputs) for node in nodes)


def can_join(scheduler: Scheduler, first: BaseSchedulerNode, second: BaseSchedulerNode) -> bool:
    """Return whether one kernel can compute two nodes."""
    if len(first.get_nodes()) + len(second.get_nodes()) > config.max_fusion_size:
        return False
    if first.ancestors & second.get_operation_names() or second.ancestors & first.get_operation_names():
        return False
    streams = getattr(scheduler, "node_to_stream", {})
    if streams.get(first) != streams.get(second):
        return False
    if (first.get_buffer_names() | second.get_buffer_names()) & V.graph.no_fuse_buffer_names:
        return False
    backend = scheduler.get_backend(first.get_device())
    return backend.can_fuse_horizontal(first, second) and not scheduler.will_fusion_create_cycle(first, second)


def fuse_small(scheduler: Scheduler, nodes: Sequence[BaseSchedulerNode]) -> list[BaseSchedulerNode]:
    """Return the nodes of a schedule after fusing those of equal sizes that are small or can move."""
    outputs = OrderedSet(V.graph.get_output_names())
    groups: dict[Any, list[tuple[int, BaseSchedulerNode]]] = defaultdict(list)
    for position, node in enumerate(nodes):
        size = elements(node)
        if size is not None and (size <= MAX_ELEMENTS or can_move(outputs, node)):
            groups[node.group, size <= MAX_ELEMENTS].append((position, node))
    fused = OrderedSet(nodes)
    for (_, is_small), group in groups.items():
        found: list[tuple[int, BaseSchedulerNode]] = []  # the latest kernels, with the position of their first node
        for position, node in group:
            for i, (start, other) in enumerate(found):
                is_near = is_small and position - start <= MAX_DISTANCE
                fits = (elements(other) or 0) + (elements(node) or 0) <= MAX_FUSED
                if fits and (is_near or can_move(outputs, other, node)) and can_join(scheduler, other, node):
                    found[i] = start, scheduler.fuse_two_nodes(other, node, fused)
                    break
            else:
                found = [*found[-MAX_KERNELS + 1 :], (position, node)]
    if len(fused) == len(nodes):
        return list(nodes)
    # At the position of its first node, a kernel without users would make the nodes that it reads from run early, too.
    order = {node: node.max_order if is_unused(node) else node.min_order for node in fused}
    return scheduler.topological_sort_schedule(sorted(fused, key=order.__getitem__))


def install() -> None:
    """Fuse small nodes after Inductor's own fusions."""
    previous = Scheduler.fuse_nodes

    @functools.wraps(previous)
    def fuse(self: Scheduler, nodes: list[BaseSchedulerNode]) -> list[BaseSchedulerNode]:
        return fuse_small(self, previous(self, nodes))

    Scheduler.fuse_nodes = fuse
