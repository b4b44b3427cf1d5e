"""torch.mpsx has the public names of torch.mps, torch.cuda, torch.xpu and torch.accelerator. The exceptions are listed
here with reasons."""

from __future__ import annotations

import contextlib
import importlib
import os
from types import SimpleNamespace

import pytest
import torch
import torch.mps.event
import torch.mps.profiler

_REASONS = {
    "a class or handle specific to CUDA or XPU": """
        CudaError DeferredCudaCallError ExternalStream GreenContext CUDAGraph XPUGraph MTIAGraph check_error cudaStatus
        cudart current_blas_handle current_solver_handle get_stream_from_external get_gencode_flags jiterator nccl nvtx
        tunable has_magma has_half""",
    "the device's work cannot be captured into a graph": """
        Graph graph graphs graph_pool_handle make_graphed_callables export_dot export_graph_data graph_annotations""",
    "the allocator cannot be replaced": """
        CUDAPluggableAllocator XPUPluggableAllocator MemPool use_mem_pool change_current_allocator get_allocator_backend
        caching_allocator_alloc caching_allocator_delete caching_allocator_disabled caching_allocator_enable""",
    "a sensor that mpsx cannot read; torch.cuda uses NVML": """
        temperature power_draw clock_rate memory_usage list_gpu_processes""",
    "CUDA's warnings about synchronization do not apply": "get_sync_debug_mode set_sync_debug_mode",
    "legacy tensor types; use torch.tensor(…, device='mpsx')": """
        BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor CharStorage CharTensor
        ComplexDoubleStorage ComplexFloatStorage DoubleStorage DoubleTensor FloatStorage FloatTensor HalfStorage
        HalfTensor IntStorage IntTensor LongStorage LongTensor ShortStorage ShortTensor""",
    "deprecated in favor of torch.amp, which accepts 'mpsx'": "amp",
    "torch.sparse works for all devices": "sparse",
}
LEFT_OUT = {name: reason for reason, names in _REASONS.items() for name in names.split()}

# Each function of torch.accelerator, and a check of its result. These functions need not exist in torch.mpsx.
ACCELERATOR = {
    "current_accelerator": lambda f: f().type == "mpsx",
    "current_device_idx": lambda f: f() == 0,
    "current_device_index": lambda f: f() == 0,
    "current_stream": lambda f: f().device.type == "mpsx",
    "device_count": lambda f: f() == 1,
    "device_index": lambda f: f(0).__enter__() is None,
    "empty_cache": lambda f: f() is None,
    "empty_host_cache": lambda f: f() is None,
    "get_device_capability": lambda f: torch.float32 in f()["supported_dtypes"],
    "get_memory_info": lambda f: 0 < f()[0] <= f()[1],
    "is_available": lambda f: f() is True,
    "max_memory_allocated": lambda f: f() == torch.mpsx.max_memory_allocated(),
    "max_memory_reserved": lambda f: f() == torch.mpsx.max_memory_reserved(),
    "memory_allocated": lambda f: f() == torch.mpsx.memory_allocated(),
    "memory_reserved": lambda f: f() == torch.mpsx.memory_reserved(),
    "memory_stats": lambda f: f()["allocated_bytes.all.current"] == torch.mpsx.memory_allocated(),
    "reset_accumulated_memory_stats": lambda f: f() is None,
    "reset_peak_memory_stats": lambda f: f() is None,
    "set_device_idx": lambda f: f(0) is None,
    "set_device_index": lambda f: f(0) is None,
    "set_stream": lambda f: f(torch.accelerator.current_stream()) is None,
    "synchronize": lambda f: f() is None,
}


def _public(module: object) -> set[str]:
    names = {name for name in dir(module) if not name.startswith("_") and name not in ("torch", "Tensor", "Any")}
    return set(getattr(module, "__all__", names))


@pytest.mark.parametrize("origin", ["mps", "cuda", "xpu"])
def test_names(origin: str) -> None:
    names = _public(getattr(torch, origin)) | {"OutOfMemoryError", "streams"}
    missing = {name for name in names if not hasattr(torch.mpsx, name)}
    assert missing <= LEFT_OUT.keys(), f"missing without a reason: {sorted(missing - LEFT_OUT.keys())}"


def test_left_out_names_do_not_exist() -> None:
    assert not [name for name in LEFT_OUT if hasattr(torch.mpsx, name)]


@pytest.mark.parametrize("name", sorted(torch.accelerator.__all__))
def test_accelerator(name: str) -> None:
    if name in LEFT_OUT:
        pytest.skip(LEFT_OUT[name])
    torch.ones(1, device="mpsx")
    with pytest.warns(FutureWarning) if name.endswith("_idx") else contextlib.nullcontext():
        assert ACCELERATOR[name](getattr(torch.accelerator, name))


@pytest.mark.parametrize("name", ["memory", "profiler", "random", "streams", "event"])
def test_submodules(name: str) -> None:
    module = importlib.import_module(f"torch.mpsx.{name}")
    assert module is getattr(torch.mpsx, name)
    twin = {"event": torch.mps.event, "profiler": torch.mps.profiler}.get(name)
    names = {"Event"} if name == "event" else _public(twin) & {"profile", "start", "stop"} if twin else set()
    assert names <= set(dir(module))


def test_backend_names() -> None:
    names = {name for name, value in vars(torch.backends.mps).items() if name[:1] != "_" and callable(value)}
    ours = torch.backends.mpsx
    assert {name for name in names if name.startswith(("is_", "get_"))} <= set(dir(ours))
    assert ours.is_macos13_or_newer() and ours.is_macos13_or_newer(2) and ours.is_macos_or_newer(15, 0)


def test_out_of_memory() -> None:
    assert torch.mpsx.OutOfMemoryError is torch.OutOfMemoryError
    with pytest.raises(torch.mpsx.OutOfMemoryError):
        torch.empty(1 << 60, dtype=torch.uint8, device="mpsx")


def test_host_memory_stats() -> None:
    torch.mpsx.reset_accumulated_host_memory_stats()
    before = torch.mpsx.host_memory_stats()
    kept = torch.zeros(1000).pin_memory()
    after = torch.mpsx.host_memory_stats()
    assert after["active_bytes.current"] == before["active_bytes.current"] + kept.nbytes
    assert after["allocations.allocated"] == 1 and after["allocations.freed"] == 0
    nested = torch.mpsx.host_memory_stats_as_nested_dict()
    assert nested["active_bytes"]["current"] == after["active_bytes.current"]
    del kept
    last = torch.mpsx.host_memory_stats()
    assert last["active_bytes.current"] == before["active_bytes.current"] and last["allocations.freed"] == 1
    assert last["active_bytes.peak"] >= after["active_bytes.current"]
    torch.mpsx.reset_peak_host_memory_stats()
    assert torch.mpsx.host_memory_stats()["active_bytes.peak"] == last["active_bytes.current"]


def test_utilization(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 <= torch.mpsx.utilization() <= 100
    clock, busy = torch.mpsx._last_utilization
    cores = os.cpu_count() or 1
    later = SimpleNamespace(monotonic=lambda: clock + 2, process_time=lambda: busy + cores)
    monkeypatch.setattr(torch.mpsx, "_time", later)
    assert torch.mpsx.utilization("mpsx:0") == 50
    assert torch.mpsx.utilization() == 0  # the device was idle since the previous call
    with pytest.raises(ValueError, match="expected device index 0"):
        torch.mpsx.utilization(7)
