"""torch.mpsx and torch.backends.mpsx expose the names that programs use, and no internal names."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest
import torch
import torch.mps.profiler

import mpsx

CUDA = """synchronize memory_allocated max_memory_allocated reset_max_memory_allocated memory_reserved
    max_memory_reserved memory_cached max_memory_cached reset_max_memory_cached reset_peak_memory_stats
    reset_accumulated_memory_stats memory_stats memory_stats_as_nested_dict memory_snapshot memory_summary mem_get_info
    empty_cache set_per_process_memory_fraction is_available is_initialized init device_count current_device set_device
    device device_of get_device_properties get_device_name get_device_capability is_bf16_supported Stream Event stream
    StreamContext current_stream default_stream set_stream manual_seed manual_seed_all seed seed_all initial_seed
    get_rng_state set_rng_state get_rng_state_all set_rng_state_all default_generators ipc_collect get_arch_list
    can_device_access_peer random memory device_memory_used get_per_process_memory_fraction
    is_current_stream_capturing""".split()


@pytest.mark.parametrize("name", sorted({*CUDA, *torch.mps.__all__}))
def test_name_exists(name: str) -> None:
    assert hasattr(torch.mpsx, name)
    assert name in dir(torch.mpsx)


def test_no_names_leak_into_the_module() -> None:
    for name in dir(torch.mpsx):
        value = getattr(torch.mpsx, name)
        home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        assert home is None or home.startswith("mpsx.") or value is torch.OutOfMemoryError, f"{name} of {home}"


def test_profiler_has_the_names_of_torch_mps() -> None:
    names = {"is_capturing_metal", "is_metal_capture_enabled", "metal_capture", "profile", "start", "stop"}
    assert names <= set(dir(torch.mps.profiler)) and names <= set(dir(torch.mpsx.profiler))
    with torch.mpsx.profiler.profile("interval,event"):
        torch.ones(3, device="mpsx").exp()
    with pytest.raises(ValueError, match="expected the mode 'interval', 'event'"):
        torch.mpsx.profiler.start("often")
    assert not torch.mpsx.profiler.is_capturing_metal()


def test_backend() -> None:
    import torch.backends.mpsx as backend

    assert backend is torch.backends.mpsx
    assert backend.is_available() and backend.is_built() and backend.is_macos_or_newer(14, 0)
    assert backend.get_name() and backend.get_core_count() >= 1


def test_deprecated_names() -> None:
    kept = torch.empty(1 << 20, device="mpsx")
    del kept
    torch.mpsx.reset_max_memory_allocated()
    assert torch.mpsx.max_memory_allocated() == torch.mpsx.memory_allocated()
    assert torch.mpsx.memory_cached() == torch.mpsx.memory_reserved()
    nested = torch.mpsx.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == torch.mpsx.memory_allocated()


def test_memory_snapshot() -> None:
    """Segments and blocks in the snapshot have the same keys as in torch.cuda.memory_snapshot()."""
    kept = torch.ones(1000, device="mpsx")
    (segment,) = torch.mpsx.memory_snapshot()
    assert segment.keys() >= {"device", "address", "total_size", "allocated_size", "active_size", "requested_size",
                              "stream", "segment_type", "segment_pool_id", "is_expandable", "frames", "blocks"}
    assert segment["total_size"] == torch.mpsx.memory_reserved() == sum(block["size"] for block in segment["blocks"])
    held = [block["size"] for block in segment["blocks"] if block["state"] == "active_allocated"]
    assert sum(held) == torch.mpsx.memory_allocated() >= kept.nbytes
    assert all(block.keys() >= {"size", "requested_size", "address", "state", "frames"} for block in segment["blocks"])


def test_memory_fractions() -> None:
    _, total = torch.mpsx.mem_get_info()
    assert 0 < torch.mpsx.device_memory_used() < total
    before = torch.mpsx.get_per_process_memory_fraction()
    torch.mpsx.set_per_process_memory_fraction(0.5)
    assert torch.mpsx.get_per_process_memory_fraction() == pytest.approx(0.5)
    torch.mpsx.set_per_process_memory_fraction(before)


def test_environment_report() -> None:
    from torch.utils.collect_env import get_pretty_env_info

    text = get_pretty_env_info()
    assert "PyTorch version" in text and "\nDriver\n" in text


@pytest.mark.sweep
def test_environment_report_as_a_program() -> None:
    command = [sys.executable, "-m", "torch.utils.collect_env"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert "PyTorch version" in run.stdout and "\nDriver\n" in run.stdout


def test_functions_that_are_imported_on_first_use() -> None:
    for name in ("compile_shader", "load_metallib"):
        assert name in dir(torch.mpsx)
        assert getattr(torch.mpsx, name) is getattr(mpsx, name)
        with mpsx.as_mps():
            assert getattr(torch.mps, name) is getattr(mpsx, name)
