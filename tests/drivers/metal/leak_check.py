"""A pytest plugin for runs on emulated Metal. It fails the run if Metal objects leak."""

from __future__ import annotations

import ctypes
import gc
import sys
import time

import pytest
import torch

from mpsx import _runtime


def left_over() -> list[str]:
    """Describe the leaked objects."""
    emulation = ctypes.CDLL(None)
    emulation.mpsx_emulation_live.restype = ctypes.c_long
    gc.collect()
    try:
        torch.mpsx.synchronize()
    except (RuntimeError, IndexError):
        torch.mpsx.synchronize()  # the first call raised a pending error of a test
    torch.mpsx.empty_cache()
    # The driver keeps one queue, the last command buffer, one buffer per segment, one buffer for absent arguments, and
    # label strings.
    most = {"EmulatedCommandBuffer": 1, "EmulatedEncoder": 0, "EmulatedQueue": 1, "NSError": 0, "NSURL": 0,
            "EmulatedString": 8, "NSArray": 0, "NSDictionary": 0, "EmulatedFunction": None,
            "EmulatedBuffer": torch.mpsx.memory_stats()["segment.all.current"] + 1}  # fmt: skip
    found: list[str] = []
    for _ in range(200):  # the queue's thread releases the last command buffer after a delay
        live = {name: emulation.mpsx_emulation_live(name.encode()) for name in most}
        found = [f"{live[name]} {name}, at most {n}" for name, n in most.items() if n is not None and live[name] > n]
        if not found:
            break
        time.sleep(0.01)
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if objects leaked."""
    if hasattr(session.config, "workerinput") or not _runtime.driver_started():
        return
    found = left_over()
    if found:
        print("left behind:", "; ".join(found), file=sys.stderr)
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
