"""Streams and events of `torch.mpsx`. They mirror `torch.cuda` and `torch.mps`."""

from __future__ import annotations

import torch

from .. import _runtime

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]

_PRIVATE_USE_1 = 20  # c10::DeviceType::PrivateUse1


class Stream(torch.Stream):
    """A queue of work: `with torch.mpsx.stream(torch.mpsx.Stream()): …`."""

    def __new__(cls, device: object = None, priority: int = 0, **kwargs: object) -> Stream:
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, device="mpsx" if device is None else device, priority=priority)


class _EventType(type):
    """Makes isinstance(x, Event) true for torch.Event objects of this device. PyTorch does not allow subclasses of
    torch.Event."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Event) and value.device.type == _runtime.device_type()


class Event(metaclass=_EventType):
    """A point in a stream's work. With `enable_timing`, it also records a timestamp."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> torch.Event:
        return torch.Event(device="mpsx", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def current_stream(device: object = None) -> torch.Stream:
    """Return the stream to which this thread submits work."""
    return torch.accelerator.current_stream("mpsx" if device is None else device)


def default_stream(device: object = None) -> Stream:
    """Return the default stream, which is current until `set_stream` is called."""
    return Stream(stream_id=0, device_index=0, device_type=_PRIVATE_USE_1)


def set_stream(stream: torch.Stream | None) -> None:
    """Submit this thread's work to `stream` from now on. None changes nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Submits this thread's work to a stream inside a with block. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._before: list[torch.Stream] = []

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self._before.append(current_stream())
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            set_stream(self._before.pop())


def stream(stream: torch.Stream | None) -> StreamContext:
    """Return `StreamContext(stream)`."""
    return StreamContext(stream)
