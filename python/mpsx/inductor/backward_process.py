"""Compilation of a backward graph in a second process, while this process compiles the forward graph.

PyTorch would compile the backward graph afterwards. The second process only adds to the caches on disk: Inductor's of
compiled graphs and mpsx's of kernel libraries. When this process compiles the backward graph, it finds it there. If the
second process fails, or compiles a different graph because the forward pass saves tensors with unexpected strides, then
this process finds nothing and compiles the graph itself.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import pickle
import threading
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import torch
from torch._functorch import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd import graph_compile
from torch._inductor import compile_fx, config, lowering
from torch._inductor.codecache import CacheBase, torch_key
from torch._logging._internal import log_state
from torch.fx import GraphModule
from torch.fx._graph_pickler import GraphPickler, Options

from .. import _runtime
from . import preloading
from .compile_process import Job, Process, Settings
from .compile_time import call_around_compilations

log = logging.getLogger(__name__)
# The process takes about 4 s to start. A graph with fewer inputs, mainly parameters, takes less time to compile.
MIN_INPUTS = 32
FEW_CORES = 4  # up to which the process is only started for large graphs
VARIABLES = ("TORCHINDUCTOR_", "MPSX_")  # prefixes of environment variables, which a program may change
LIBRARIES = {"torch", "mpsx", "functools", "_operator"}  # packages whose lowerings the process has
process = Process()
_thread = threading.local()  # .backward is the graph that belongs to the forward graph to be compiled next
_compiling: dict[int, Future] = {}  # by Inductor's number for the pair of graphs
_warned: dict[Any, Any] = {}  # warnings that have been issued


def is_possible() -> bool:
    """Return whether the process may compile graphs: whether it finds the caches, and nothing would differ."""
    cached = config.fx_graph_cache and not config.force_disable_caches and not functorch_config.bundled_autograd_cache
    custom_passes = any(getattr(config, name) for name in config._save_config_ignore if "custom" in name)
    packages = {str(getattr(f, "__module__", None)).partition(".")[0] for f in lowering.lowerings.values()}
    logs = config.trace.enabled or log_state.artifact_names or log_state.log_qname_to_level  # by TORCH_LOGS
    allowed = config.compile_threads > 1 and not process.failed and not torch.mpsx.is_mps()
    return bool(cached and allowed and not custom_passes and packages <= LIBRARIES and not logs)


def is_worthwhile(inputs: list[Any]) -> bool:
    """Return whether to compile the backward graph of a function with these inputs in another process."""
    on_device = any(isinstance(x, torch.Tensor) and x.device.type == "mpsx" for x in inputs)
    return len(inputs) >= MIN_INPUTS and on_device and is_possible()


def keywords(inner_compile: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the keyword arguments that a partial of Inductor's compile_fx_inner adds. Return None if it is something
    else. With options for torch.compile, a wrapper sets them in Inductor's configuration, where they already are."""
    partial = inner_compile if isinstance(inner_compile, functools.partial) else functools.partial(inner_compile)
    return partial.keywords if inspect.unwrap(partial.func) is inspect.unwrap(compile_fx.compile_fx_inner) else None


def needs_metadata(key: str) -> bool:
    """Return whether to send this metadata of nodes. The rest contains the modules' classes, which the user's main
    program may define. Inductor uses it only in comments and logs."""
    return "module_stack" not in key and "source_fn_stack" not in key and key != "from_node"


def start_first() -> None:
    """Start the process with the first compilation, unless it is for inference."""
    many_cores = config.compile_threads > FEW_CORES
    if process.child is None and many_cores and torch.is_grad_enabled() and _runtime.driver_started() and is_possible():
        process.start()


def send(gm: GraphModule, extra: Any, options: dict[str, Any]) -> Future | None:
    """Let the process compile a backward graph. `extra` and `options` are arguments of Inductor's functions. Return
    None if the graph has symbolic sizes or contains tensors, or if it cannot be pickled."""
    inputs = graph_compile.fx_placeholder_vals(gm)
    constants = any(isinstance(getattr(gm, n.target, None), torch.Tensor) for n in gm.graph.nodes if n.op == "get_attr")
    if constants or not all(map(preloading.is_known, inputs)):
        return None
    environment = {name: value for name, value in os.environ.items() if name.startswith(VARIABLES)}
    try:
        arguments = GraphPickler.dumps((gm, inputs, extra, options), Options(None, needs_metadata))
        job = Job(arguments, config.save_config_portable(ignore_private_configs=False), environment, Settings.current(),
                  torch_key(), CacheBase.get_system())  # fmt: skip
        future = process.submit(pickle.dumps(job))
    except Exception:  # for example, a user's function in the graph
        log.debug("Cannot send the backward graph to another process", exc_info=True)
        return None
    future.add_done_callback(preload)
    return future


def preload(future: Future) -> None:
    """Load the eager kernels that a backward graph calls. The other process has no device."""
    with suppress(Exception):
        for call in future.result().calls:
            preloading.start(*call.unpack())


def wait(future: Future) -> None:
    """Wait until a backward graph has been compiled, and issue the warnings. Do not wait for the process to start."""
    if future.cancel():
        return
    try:
        compiled = future.result()
    except Exception:
        log.debug("The other process has not compiled the backward graph", exc_info=True)
        return
    for warning in compiled.warnings:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno, registry=_warned)


def install() -> None:
    """Start the process when PyTorch traces a function, and use it for the backward graph."""
    trace, partition = aot_autograd.aot_stage1_graph_capture, graph_compile._aot_stage2a_partition
    both = graph_compile.aot_stage2_autograd
    forward, backward = compile_fx.compile_fx_forward, compile_fx.compile_fx_backward

    call_around_compilations(start_first)

    @functools.wraps(trace)
    def start_and_trace(state: Any, *args: Any) -> Any:
        if state.needs_autograd and is_worthwhile(state.flat_args):
            process.start()
        return trace(state, *args)

    @functools.wraps(partition)
    def keep_backward(*args: Any) -> tuple[Any, ...]:
        result = partition(*args)
        _thread.backward = result[1]
        return result

    @functools.wraps(both)
    def drop_backward(*args: Any) -> Any:
        try:
            return both(*args)
        finally:
            _thread.__dict__.pop("backward", None)

    @functools.wraps(forward)
    def send_and_compile(gm: GraphModule, inputs: Any, *, compiler_config_extra: Any, inner_compile: Any,
                         **kwargs: Any) -> Any:  # fmt: skip
        graph = _thread.__dict__.pop("backward", None)
        options = keywords(inner_compile)
        if graph is not None and options is not None and is_worthwhile(inputs):
            future = send(graph, compiler_config_extra, options)
            if future:
                _compiling[compiler_config_extra.graph_id] = future
                weakref.finalize(compiler_config_extra, _compiling.pop, compiler_config_extra.graph_id, None)
        return forward(gm, inputs, compiler_config_extra=compiler_config_extra, inner_compile=inner_compile, **kwargs)

    @functools.wraps(backward)
    def wait_and_compile(gm: GraphModule, inputs: Any, *, compiler_config_extra: Any, **kwargs: Any) -> Any:
        future = _compiling.pop(compiler_config_extra.graph_id, None)
        if future:
            wait(future)
        return backward(gm, inputs, compiler_config_extra=compiler_config_extra, **kwargs)

    aot_autograd.aot_stage1_graph_capture = start_and_trace
    graph_compile._aot_stage2a_partition, graph_compile.aot_stage2_autograd = keep_backward, drop_backward
    compile_fx.compile_fx_forward, compile_fx.compile_fx_backward = send_and_compile, wait_and_compile
