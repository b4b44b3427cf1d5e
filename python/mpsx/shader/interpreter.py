"""Settings of the Python interpreter that threads change for a while, at the same time as others."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from contextlib import ContextDecorator

# Python's default is 5 ms. A thread that runs a compiler needs the interpreter after every operation on a pipe, and
# waits for so long each time if another thread computes.
TURN_SECONDS = 0.0005


class Setting(ContextDecorator):
    """A context manager that changes a setting when the first thread enters, and restores it when the last one leaves.
    `change` changes it, and returns a function that restores it."""

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self.change, self.lock, self.threads = change, threading.Lock(), 0

    def __enter__(self) -> None:
        with self.lock:
            if self.threads == 0:
                self.restore = self.change()
            self.threads += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.threads -= 1
            if self.threads == 0:
                self.restore()


def _pause_collection() -> Callable[[], None]:
    was_enabled = gc.isenabled()
    gc.disable()
    return gc.enable if was_enabled else lambda: None


def _shorten_turns() -> Callable[[], None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TURN_SECONDS))
    return lambda: sys.setswitchinterval(before)


paused_collection = Setting(_pause_collection)
short_turns = Setting(_shorten_turns)
