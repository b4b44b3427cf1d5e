"""Memory functions of `torch.mpsx`. They mirror the functions of `torch.cuda` and `torch.mps`."""

from __future__ import annotations

from collections import OrderedDict

import torch

from .. import _runtime

__all__ = [
    "current_allocated_memory",
    "device_memory_used",
    "driver_allocated_memory",
    "empty_cache",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "recommended_max_memory",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def memory_stats(device: object = None) -> OrderedDict[str, int]:
    """Return the allocator's statistics, with the keys of `torch.cuda.memory_stats`."""
    return OrderedDict(sorted(torch.accelerator.memory_stats(0).items()))


def memory_allocated(device: object = None) -> int:
    """Return the number of bytes in use by tensors."""
    return _runtime.memory()["allocated"]


def max_memory_allocated(device: object = None) -> int:
    """Return the peak of `memory_allocated()` since process start or `reset_peak_memory_stats()`."""
    return _runtime.memory()["allocated_peak"]


def memory_reserved(device: object = None) -> int:
    """Return the number of bytes allocated from the driver: in use by tensors, or cached for reuse."""
    return _runtime.memory()["reserved"]


def max_memory_reserved(device: object = None) -> int:
    """Return the peak of `memory_reserved()` since process start or `reset_peak_memory_stats()`."""
    return _runtime.memory()["reserved_peak"]


def reset_peak_memory_stats(device: object = None) -> None:
    """Reset the peaks to the current values."""
    _runtime.reset_peak_memory()


def reset_accumulated_memory_stats(device: object = None) -> None:
    """Reset the accumulated counts to zero."""
    _runtime.reset_accumulated_memory()


def memory_cached(device: object = None) -> int:
    """Deprecated name of `memory_reserved`."""
    return memory_reserved()


def max_memory_cached(device: object = None) -> int:
    """Deprecated name of `max_memory_reserved`."""
    return max_memory_reserved()


def reset_max_memory_allocated(device: object = None) -> None:
    """Deprecated name of `reset_peak_memory_stats`."""
    reset_peak_memory_stats()


def reset_max_memory_cached(device: object = None) -> None:
    """Deprecated name of `reset_peak_memory_stats`."""
    reset_peak_memory_stats()


def memory_stats_as_nested_dict(device: object = None) -> dict[str, object]:
    """Return `memory_stats` as nested dictionaries."""
    return _nested(memory_stats())


def _nested(stats: dict[str, int]) -> dict[str, object]:
    nested: dict[str, object] = {}
    for name, value in stats.items():
        *outer, last = name.split(".")
        inner = nested
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def host_memory_stats() -> OrderedDict[str, int]:
    """Return statistics of pinned memory, with the keys of `torch.cuda.host_memory_stats`."""
    values = iter(torch.ops.mpsx._host_memory_stats())
    kinds = ("active_bytes", "active_requests", "allocated_bytes", "allocations")
    parts = ("current", "peak", "allocated", "freed")
    return OrderedDict(sorted((f"{kind}.{part}", next(values)) for kind in kinds for part in parts))


def host_memory_stats_as_nested_dict() -> dict[str, object]:
    """Return `host_memory_stats` as nested dictionaries."""
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    """Reset the peaks of pinned memory to the current values."""
    torch.ops.mpsx._reset_host_memory_stats(True)


def reset_accumulated_host_memory_stats() -> None:
    """Reset the accumulated counts of pinned memory to zero."""
    torch.ops.mpsx._reset_host_memory_stats(False)


def memory_snapshot(device: object = None) -> list[dict[str, object]]:
    """Return the memory segments, with the keys of `torch.cuda.memory_snapshot`.

    All reserved memory appears as a single segment with two blocks: one for memory in use, one for cached memory.
    """
    stats = _runtime.memory()
    allocated, reserved = stats["allocated"], stats["reserved"]
    sizes = {"active_allocated": allocated, "inactive": reserved - allocated}
    blocks = [{"address": 0, "size": size, "requested_size": size, "state": state, "frames": []}
              for state, size in sizes.items() if size > 0]  # fmt: skip
    return [{
        "device": 0, "address": 0, "segment_type": "large", "segment_pool_id": (0, 0), "stream": 0, "frames": [],
        "is_expandable": False, "total_size": reserved, "allocated_size": allocated,
        "active_size": allocated, "requested_size": allocated, "blocks": blocks,
    }]  # fmt: skip


def device_memory_used(device: object = None) -> int:
    """Return the bytes of device memory in use by all processes."""
    free, total = mem_get_info()
    return total - free


def get_per_process_memory_fraction(device: object = None) -> float:
    """Return the fraction of `recommended_max_memory()` that this process may reserve. It is greater than 1 if no limit
    is set."""
    return _runtime.memory_limit() / recommended_max_memory()


def mem_get_info(device: object = None) -> tuple[int, int]:
    """Return the free and total device memory in bytes."""
    info = _runtime.driver()
    return info["free_memory"], info["total_memory"]


def memory_summary(device: object = None, abbreviated: bool = False) -> str:
    """Return the main statistics as text."""
    stats = _runtime.memory()
    rows = [
        ("allocated", stats["allocated"], stats["allocated_peak"]),
        ("reserved", stats["reserved"], stats["reserved_peak"]),
    ]
    lines = [f"{'MiB':<12}{'now':>12}{'peak':>12}"]
    lines += [f"{name:<12}{now / 2**20:>12.2f}{peak / 2**20:>12.2f}" for name, now, peak in rows]
    if not abbreviated:
        lines += [
            f"{stats['active_blocks']} blocks in {stats['segments']} driver buffers; "
            f"{stats['retries']} retries, {stats['out_of_memory']} times out of memory",
            f"limit {_runtime.memory_limit() / 2**20:.2f} MiB",
        ]
    return "\n".join(lines)


def empty_cache() -> None:
    """Release cached memory to the driver."""
    _runtime.empty_cache()


def set_per_process_memory_fraction(fraction: float, device: object = None) -> None:
    """Limit reserved memory to a fraction of `recommended_max_memory()`. 0 removes the limit."""
    if not 0 <= fraction <= 2:
        raise ValueError(f"set_per_process_memory_fraction: expected a fraction from 0 to 2, got {fraction}")
    limit = int(fraction * recommended_max_memory()) if fraction else 2**63 - 1
    _runtime.set_memory_limit(limit)


def current_allocated_memory() -> int:
    """Return `memory_allocated()`, under its name in `torch.mps`."""
    return memory_allocated()


def driver_allocated_memory() -> int:
    """Return `memory_reserved()`, under its name in `torch.mps`."""
    return memory_reserved()


def recommended_max_memory() -> int:
    """Return the size of the device's memory in bytes."""
    return _runtime.driver()["total_memory"]
