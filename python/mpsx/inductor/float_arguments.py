"""Keep graphs with changing Python floats out of PyTorch's caches.

If a function is called with different floats, PyTorch makes the float a symbol. Some operators, such as torch.where,
replace the symbol by its current value. Dynamo then compiles again for another value, but PyTorch's caches do not know
the value, and return the code for the earlier one (with tensors on the CPU, too).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._functorch._aot_autograd import autograd_cache
from torch._inductor import codecache
from torch.fx import GraphModule


def has_float_symbol(gm: GraphModule) -> bool:
    """Return whether a graph with tensors on mpsx depends on a symbolic float."""
    values = [node.meta.get("example_value", node.meta.get("val")) for node in gm.graph.nodes]
    on_mpsx = any(isinstance(value, torch.Tensor) and value.device.type == "mpsx" for value in values)
    return on_mpsx and any(isinstance(value, torch.SymFloat) for value in values)


def rejecting(check: Callable[..., None], bypass: type[Exception]) -> Callable[..., None]:
    """Return a cache's check of a graph that also rejects symbolic floats, by raising `bypass`."""

    @functools.wraps(check)
    def check_graph(gm: GraphModule, *args: Any, **kwargs: Any) -> None:
        check(gm, *args, **kwargs)
        if has_float_symbol(gm):
            raise bypass("the graph depends on a symbolic float")

    return check_graph


def install() -> None:
    """Let the checks of both caches reject such graphs."""
    graphs = codecache.FxGraphCache
    graphs._check_can_cache = staticmethod(rejecting(graphs._check_can_cache, codecache.BypassFxGraphCache))
    autograd_cache.check_cacheable = rejecting(autograd_cache.check_cacheable, autograd_cache.BypassAOTAutogradCache)
