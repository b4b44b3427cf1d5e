"""The words in which a call is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def error_messages(call: Callable[[str], object]) -> list[str]:
    """The words of a call that takes a device's name, on the CPU and on mpsx."""
    messages = []
    for device in ("cpu", "mpsx"):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            call(device)
        messages.append(str(caught.value))
    return messages
