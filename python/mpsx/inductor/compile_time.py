"""Changes to PyTorch that reduce the time in which it compiles a graph, but do not affect the result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torch._dynamo.callback import CallbackArgs, callback_handler
from torch._inductor import utils
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler

from ..shader.interpreter import paused_collection


def call_around_compilations(start: Callable[[], Any], end: Callable[[], Any] = lambda: None) -> None:
    """Call functions before and after the outermost compilation. If one is already running, only `end` is called.
    Callbacks registered with Dynamo would be lost at torch._dynamo.reset()."""
    run_start, run_end = callback_handler.run_start_callbacks, callback_handler.run_end_callbacks

    def run_start_callbacks(args: CallbackArgs) -> None:
        run_start(args)
        start()

    def run_end_callbacks(args: CallbackArgs) -> None:
        try:
            run_end(args)
        finally:
            end()

    callback_handler.run_start_callbacks, callback_handler.run_end_callbacks = run_start_callbacks, run_end_callbacks


def _pause_collector() -> None:
    """Pause Python's garbage collector during a compilation, which creates millions of objects that live until its end.
    The collector would traverse them again and again, which takes 8% of the time in which GPT-2 compiles."""
    pause = ExitStack()
    call_around_compilations(lambda: pause.enter_context(paused_collection), pause.close)


def _initialize_dtype_rules_once() -> None:
    """PyTorch constructs this singleton again for every operation of a kernel, and each time it sets its hundreds of
    attributes. Set them again only after rules have been added."""
    previous = DtypePropagationOpsHandler.__init__
    initialized_with = 0

    @functools.wraps(previous)
    def initialize(self: Any) -> None:
        nonlocal initialized_with
        count = len(utils.op_dtype_propagation_rules)
        if initialized_with != count:
            previous(self)
            initialized_with = count

    DtypePropagationOpsHandler.__init__ = initialize


def install() -> None:
    """Apply the changes."""
    _pause_collector()
    _initialize_dtype_rules_once()
