"""Record the launches of a compiled graph once, and replay them in later calls, for mode="reduce-overhead".

The counterpart of torch._inductor.cudagraph_trees. A recording (torch.classes.mpsx.Recording) contains addresses, so

- inputs are copied into fixed buffers, except those that have the same address in every call (parameters, tensors that
  the graph updates in place, and results of other recordings);
- results are tensors in the recording's memory. As long as one of them is in use, the recording is not replayed.
  Another recording of the same graph takes its place.

torch._inductor decides whether a graph can be recorded at all (install() extends this to mpsx) and logs the reason if
it cannot: `skipping cudagraphs due to …`. Recording detects the rest, such as operators that fall back to the CPU.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import cudagraph_utils, output_code
from torch._inductor.compile_fx import get_first_incompatible_cudagraph_node
from torch._inductor.virtualized import V

MAX_RECORDINGS = 8  # per combination of numbers among the inputs, such as sizes
MAX_RECORDED = 64  # number of recordings that a graph may make in total
MAX_MOVES = 2  # after this many changes of its address, a static input is copied

_thread = threading.local()  # .recording is true while the thread records

Model = Callable[[list[Any]], Sequence[Any]]


def log_skip(reason: str) -> None:
    """Log why a graph is not recorded, as for CUDA graphs."""
    cudagraph_utils.log_cudagraph_skip_and_bump_counter(f"skipping cudagraphs due to {reason}")


def without_expanded_dims(x: torch.Tensor) -> torch.Tensor:
    """Return a view with one element in place of each expanded dimension."""
    if 0 not in x.stride():
        return x
    size = [1 if stride == 0 else n for n, stride in zip(x.size(), x.stride(), strict=True)]
    return x.as_strided(size, x.stride(), x.storage_offset())


def layout_of(x: torch.Tensor) -> tuple[Any, ...]:
    """Return the dtype, sizes, strides and offset of a tensor."""
    return x.dtype, x.size(), x.stride(), x.storage_offset()


class Recorded:
    """A recording and how its inputs and results relate to the arguments of a call."""

    def __init__(self, graph: Graph, inputs: list[Any], in_place: list[int]) -> None:
        """Run the graph on `inputs`, and record it. The attribute `results` contains the results."""
        self.in_place = in_place
        self.copied = [i for i in graph.tensors if i not in in_place]
        self.recording = torch.classes.mpsx.Recording()
        arguments = list(inputs)
        with torch.inference_mode(mode=False):
            self.recording.begin(False)
            try:
                for i in self.copied:
                    x = inputs[i]
                    arguments[i] = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
            finally:
                self.recording.end()
            fixed = [arguments[i] for i in self.copied]
            self.targets = [without_expanded_dims(x) for x in fixed]
        self.copy(inputs)
        self.recording.begin(True)
        _thread.recording = True
        try:
            self.results = list(graph.model(arguments))
        finally:
            _thread.recording = False
            self.recording.end()
        self.results, self.problem = self.finish(inputs, fixed)

    def finish(self, inputs: list[Any], fixed: list[torch.Tensor]) -> tuple[list[Any], str]:
        """Classify the results. Return them, and why they cannot be produced by a replay, if that is the case."""
        results, recorded, x = self.results, [], None
        kept = [inputs[i] for i in self.in_place]
        storages = {inputs[i].untyped_storage()._cdata: i for i in reversed(self.in_place)}
        # For each result: the index of a recorded tensor, an input (with its shape if it is a view), or a constant.
        self.recorded, self.views, self.constants = {}, {}, {}
        for k, x in enumerate(results):
            if not isinstance(x, torch.Tensor):
                self.constants[k] = x
            elif x.device.type != "mpsx":
                self.constants[k] = None
                return results, f"{x.device.type} device (a result)"
            elif (source := storages.get(x.untyped_storage()._cdata)) is not None:
                layout, own = layout_of(x), layout_of(inputs[source])
                self.views[k] = (source, None if layout == own else layout)
            else:
                self.recorded[k] = len(recorded)
                recorded.append(x)
        problem = self.recording.finish(kept, recorded, fixed)
        if problem:
            return results, problem
        self.all_recorded = len(recorded) == len(results)
        self.results = None
        del results, recorded, x
        return self.make_results(inputs), ""

    def copy(self, inputs: list[Any]) -> None:
        """Copy inputs into the fixed buffers."""
        if self.copied:
            with torch.no_grad():
                torch._foreach_copy_(self.targets, [without_expanded_dims(inputs[i]) for i in self.copied])

    def matches(self, inputs: list[Any]) -> bool:
        """Return whether the inputs that are used in place have the recorded addresses."""
        return self.recording.matches([inputs[i] for i in self.in_place])

    def replay(self, inputs: list[Any]) -> list[Any] | None:
        """Run the graph. Return None if memory that it uses has moved."""
        self.copy(inputs)
        return self.make_results(inputs) if self.recording.replay() else None

    def make_results(self, inputs: list[Any]) -> list[Any]:
        """Return new tensors over the memory of the results."""
        made = self.recording.outputs()
        if self.all_recorded:
            return made
        results: list[Any] = [None] * (len(self.recorded) + len(self.views) + len(self.constants))
        for k, index in self.recorded.items():
            results[k] = made[index]
        for k, value in self.constants.items():
            results[k] = value
        for k, (i, view) in self.views.items():
            if view is None:
                results[k] = inputs[i]
            else:
                dtype, *shape = view
                results[k] = inputs[i].detach().view(dtype).as_strided(*shape)
        return results


class Calls:
    """The recordings for one combination of numbers among the inputs."""

    def __init__(self) -> None:
        self.warm = False
        self.recordings: list[Recorded] = []  # the most recently used last


class Graph:
    """A compiled graph that records itself. Call it with a list of inputs, which it clears, as Inductor does."""

    def __init__(self, model: Model, static: Sequence[int], mutated: Sequence[int]) -> None:
        """`static`: inputs that usually keep their addresses. `mutated`: inputs that the graph updates in place."""
        self.model = model
        self.static, self.mutated = frozenset(static), frozenset(mutated)
        self.calls: dict[tuple[Any, ...], Calls] = {}
        self.addresses: dict[int, int] = {}  # the last addresses of static inputs
        self.moves: dict[int, int] = {}  # how often they changed
        self.recorded = 0
        self.stopped = False  # whether the graph is no longer recorded or replayed
        self.warned = False
        self.numbers: list[int] | None = None  # the inputs that are not tensors
        self.tensors: list[int] = []
        self.lock = threading.Lock()

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        """Run the graph."""
        # A graph within a recording belongs to it. Concurrent calls would overwrite each other's inputs.
        if self.stopped or getattr(_thread, "recording", False) or not self.lock.acquire(blocking=False):
            return self.model(inputs)
        try:
            results = self.run(inputs)
        finally:
            self.lock.release()
        if results is None:
            return self.model(inputs)
        inputs.clear()
        return results

    def stop(self, reason: str) -> None:
        """Run the graph without recordings from now on."""
        self.stopped = True
        self.calls.clear()
        log_skip(reason)

    def run(self, inputs: list[Any]) -> list[Any] | None:
        """Return the results of a recording, or None to run the graph without one."""
        if self.numbers is None:
            self.numbers = [i for i, x in enumerate(inputs) if not isinstance(x, torch.Tensor)]
            self.tensors = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)]
            if any(not isinstance(inputs[i], int | float | bool | None) for i in self.numbers):
                return self.stop("non-Tensor inputs")
            if any(inputs[i].device.type != "mpsx" for i in self.tensors):
                return self.stop("multiple devices")
        key = tuple(inputs[i] for i in self.numbers)
        calls = self.calls.get(key)
        if calls is None:
            calls = self.calls[key] = Calls()
        busy = False
        for recorded in reversed(calls.recordings):
            if not recorded.matches(inputs):
                continue
            if not recorded.recording.is_idle():
                busy = True
                continue
            results = recorded.replay(inputs)
            calls.recordings.remove(recorded)
            if results is not None:
                calls.recordings.append(recorded)
                return results
        return self.record(calls, inputs, busy)

    def record(self, calls: Calls, inputs: list[Any], busy: bool) -> list[Any] | None:
        """Record the graph, after one call without recording that compiles kernels. Return the results of the call."""
        for i in self.static:
            address = inputs[i].data_ptr() if isinstance(inputs[i], torch.Tensor) else 0
            if self.addresses.setdefault(i, address) != address:
                self.moves[i] = self.moves.get(i, 0) + 1
                self.addresses[i] = address
        if not calls.warm:
            calls.warm = True
            return None
        if len(calls.recordings) == MAX_RECORDINGS:
            stale = next((r for r in calls.recordings if not r.matches(inputs)), None)
            if stale is None:
                if busy and not self.warned:
                    self.warned = True
                    log_skip(f"results of the last {MAX_RECORDINGS} calls that are still in use; clone them instead")
                return None
            calls.recordings.remove(stale)
        if self.recorded == MAX_RECORDED:
            return self.stop(f"{MAX_RECORDED} recordings, because sizes or the addresses of static inputs change")
        self.recorded += 1
        recorded = Recorded(self, inputs, [i for i in self.tensors if self.is_in_place(i, inputs[i])])
        results, recorded.results = recorded.results, None
        if recorded.problem:
            self.stop(recorded.problem)
        else:
            calls.recordings.append(recorded)
        return results

    def is_in_place(self, i: int, x: torch.Tensor) -> bool:
        """Return whether a recording should use input `i` at its address instead of copying it."""
        if i in self.mutated or torch.classes.mpsx.Recording.is_recorded(x):
            return True
        if i in self.static and self.moves.get(i, 0) < MAX_MOVES:
            return True
        return torch._debug_has_internal_overlap(without_expanded_dims(x)) == 1  # cannot be copied element by element


def _check(previous: Callable[..., str | None]) -> Callable[..., str | None]:
    """Wrap the function that decides whether a graph's devices and operators allow recording."""

    @functools.wraps(previous)
    def check(device_node_mapping: dict[torch.device, torch.fx.Node]) -> str | None:
        devices = {device.type for device in device_node_mapping} - {"meta"}
        if "mpsx" not in devices:
            return previous(device_node_mapping)
        reason = None
        if devices != {"mpsx"}:
            other = next(device for device in device_node_mapping if device.type not in ("mpsx", "meta"))
            node = device_node_mapping[other]
            reason = f"{other.type} device ({node.name})"
            if trace := cudagraph_utils._get_use_stack_trace(node):
                reason += f". Found from : \n {trace}"
        elif node := get_first_incompatible_cudagraph_node(V.graph.module):
            reason = f"incompatible op {node.target}"
        if reason:
            log_skip(reason)
        return reason

    return check


def _post_compile(previous: Callable[..., None]) -> Callable[..., None]:
    """Wrap the function that makes a compiled graph record itself."""

    @functools.wraps(previous)
    def post_compile(example_inputs: Any, compiled_graph: Any, cudagraphs: Any, *rest: Any) -> None:
        if "mpsx" not in compiled_graph.device_types:
            return previous(example_inputs, compiled_graph, cudagraphs, *rest)
        if reasons := compiled_graph.cudagraph_info.cudagraph_fail_reasons:
            return log_skip(", ".join(reasons))
        static = compiled_graph.fx_kwargs["static_input_idxs"] or ()
        mutated = compiled_graph.mutated_input_idxs
        compiled_graph.current_callable = Graph(compiled_graph.current_callable, static, mutated)
        return None

    return post_compile


def _load(previous: Callable[..., None]) -> Callable[..., None]:
    """Wrap the last step of loading a compiled graph, to log why a graph from the cache is not recorded."""

    @functools.wraps(previous)
    def load(graph: Any, *arguments: Any) -> None:
        reason = graph.disabled_cudagraphs_reason
        if reason and "mpsx" in graph.device_types and arguments[-1]["cudagraphs"]:
            log_skip(reason)
        previous(graph, *arguments)

    return load


def install() -> None:
    """Make torch._inductor use this module where it would use CUDA graphs."""
    cudagraph_utils.check_lowering_disable_cudagraph = _check(cudagraph_utils.check_lowering_disable_cudagraph)
    for name in ("cudagraph_post_compile", "cudagraph_partition_post_compile"):
        setattr(output_code, name, _post_compile(getattr(output_code, name)))
    output_code.CompiledFxGraph.post_compile = _load(output_code.CompiledFxGraph.post_compile)
