"""torch.profiler: kernels on the device's track, device times in the table, and memory events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, supported_activities

import mpsx

if torch.__version__ < "2.13":
    pytest.skip("before torch 2.13, traces have no track for PrivateUse1 devices", allow_module_level=True)


def work() -> torch.Tensor:
    x = torch.randn(256, 256, device="mpsx")
    with record_function("my part"):
        return torch.softmax(x.exp() @ x, -1)


@pytest.fixture(scope="module")
def profiled() -> profile:
    work()
    # By default, CUDA builds of torch also trace CUDA, and they label the times of every device as CUDA times.
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], profile_memory=True) as result:
        work()
        torch.mpsx.synchronize()
    return result


def test_activities() -> None:
    assert ProfilerActivity.PrivateUse1 in supported_activities()


def test_kernels_are_on_the_device_track(profiled: profile) -> None:
    device = [event for event in profiled.events() if event.device_type == DeviceType.PrivateUse1]
    names = {event.name for event in device}
    assert any(name.startswith("exp_") for name in names) and any("softmax" in name for name in names)
    assert all(event.time_range.elapsed_us() >= 0 for event in device)


def test_time_in_the_table(profiled: profile) -> None:
    rows = {row.key: row for row in profiled.key_averages()}
    assert rows["aten::exp"].device_time_total > 0
    assert rows["my part"].count == 1
    assert "mpsx" in profiled.key_averages().table().lower()
    assert rows["aten::empty"].self_device_memory_usage > 0


def test_trace(profiled: profile, tmp_path: Path) -> None:
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert any(event["name"].startswith("exp_") for event in kernels)
    operators = {event["args"]["External id"]: event["name"] for event in events if event.get("cat") == "cpu_op"}
    launched_by = {event["name"]: operators.get(event["args"].get("External id")) for event in kernels}
    assert next(op for name, op in launched_by.items() if name.startswith("exp_")) == "aten::exp"


def test_trace_context_manager(tmp_path: Path) -> None:
    with mpsx.profiler.trace(tmp_path / "trace.json"):
        work()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event.get("cat") == "kernel" and event["name"].startswith("exp_") for event in events)


def test_tracing_stops_afterwards(profiled: profile) -> None:
    count = len(profiled.events())
    work()
    assert len(profiled.events()) == count
