"""Compare error messages of the CPU and mpsx."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def error_messages(call: Callable[[str], object]) -> list[str]:
    """Return the messages of the errors that `call(device)` raises on the CPU and on mpsx."""
    messages = []
    for device in ("cpu", "mpsx"):
        with pytest.raises((RuntimeError, ValueError, IndexError)) as caught:
            call(device)
        messages.append(str(caught.value))
    return messages
