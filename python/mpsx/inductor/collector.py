"""Pause Python's garbage collector while PyTorch compiles a graph.

Compilation creates millions of objects that live until its end. The collector would traverse them again and again,
which takes 2 of the 25 seconds in which GPT-2 compiles.
"""

from __future__ import annotations

from contextlib import ExitStack

from torch._dynamo.callback import callback_handler

from ..shader.interpreter import paused_collection


def install() -> None:
    """Register the callbacks. Dynamo calls them around the outermost compilation. After one that started before this,
    it calls only the second."""
    pause = ExitStack()
    callback_handler.register_start_callback(lambda _: pause.enter_context(paused_collection))
    callback_handler.register_end_callback(lambda _: pause.close())
