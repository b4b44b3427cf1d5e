"""Streams and events."""

from __future__ import annotations

import threading
import time

import pytest
import torch

pytestmark = pytest.mark.usefixtures("silent_fallback")


def test_default_stream() -> None:
    stream = torch.mpsx.current_stream()
    assert stream.device.type == "mpsx"
    assert stream == torch.mpsx.default_stream()
    assert torch.accelerator.current_stream() == stream
    stream.synchronize()
    assert stream.query()


def test_stream_context() -> None:
    default = torch.mpsx.current_stream()
    side = torch.mpsx.Stream()
    with torch.mpsx.stream(side):
        assert torch.mpsx.current_stream() == side
        result = torch.ones(8, device="mpsx") * 2
    assert torch.mpsx.current_stream() == default
    default.wait_stream(side)
    assert result.tolist() == [2] * 8
    with side:
        assert torch.accelerator.current_stream() == side
    with torch.mpsx.stream(None):
        assert torch.mpsx.current_stream() == default


def test_current_stream_is_per_thread() -> None:
    seen = []
    with torch.mpsx.stream(torch.mpsx.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.mpsx.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.mpsx.default_stream()]


def test_events_measure_time() -> None:
    start, end = torch.mpsx.Event(enable_timing=True), torch.mpsx.Event(enable_timing=True)
    assert isinstance(start, torch.mpsx.Event)
    start.record()
    torch.ones(1000, device="mpsx").sum()
    time.sleep(0.02)
    end.record()
    end.synchronize()
    assert end.query()
    assert 15 < start.elapsed_time(end) < 5000


def test_events_order_streams() -> None:
    side = torch.mpsx.Stream()
    with torch.mpsx.stream(side):
        value = torch.full((4,), 3.0, device="mpsx")
        event = side.record_event()
    torch.mpsx.current_stream().wait_event(event)
    event.synchronize()
    value.record_stream(torch.mpsx.current_stream())
    assert value.tolist() == [3] * 4


def test_accelerator_api() -> None:
    event = torch.Event(device="mpsx")
    assert event.query()
    event.record(torch.mpsx.current_stream())
    torch.accelerator.synchronize()
    assert event.query()
    side = torch.Stream(device="mpsx")
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(side)
    assert torch.accelerator.current_stream() == side
    torch.accelerator.set_stream(before)
