"""The caching allocator: statistics, limits, reuse and pinned memory."""

from __future__ import annotations

import gc
import random
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from processes import run_in_subprocess
from torch.utils.data import DataLoader, TensorDataset

import mpsx

pytestmark = pytest.mark.usefixtures("silent_fallback")

MIB = 1 << 20
HUGE = 2 * MIB  # size of a huge page; the allocator reserves memory in such pages


def test_accelerator_statistics() -> None:
    gc.collect()
    before = torch.accelerator.memory_allocated()
    block = torch.empty(8 * MIB, dtype=torch.uint8, device="mpsx")
    assert torch.accelerator.memory_allocated() - before >= 8 * MIB
    assert torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated()
    del block
    assert torch.accelerator.memory_allocated() == before
    assert torch.accelerator.max_memory_allocated() >= before + 8 * MIB
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == torch.accelerator.memory_allocated()
    stats = torch.accelerator.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.mpsx.memory_allocated()
    assert torch.mpsx.memory_stats()["reserved_bytes.all.peak"] == torch.mpsx.max_memory_reserved()
    free, total = torch.accelerator.get_memory_info("mpsx")
    assert 0 < free <= total == torch.mpsx.recommended_max_memory()


def test_results_of_cpu_kernels_are_counted() -> None:
    x = torch.eye(512, device="mpsx")
    gc.collect()
    before = torch.mpsx.memory_allocated()
    result = torch.linalg.cholesky_ex(x).L  # falls back: the CPU kernel allocates the result
    assert torch.mpsx.memory_allocated() - before >= result.nbytes
    assert torch.mpsx.memory_reserved() >= torch.mpsx.memory_allocated()
    kept = result[:10]
    del result
    assert torch.mpsx.memory_allocated() > before
    del kept
    assert torch.mpsx.memory_allocated() == before


def test_torch_mps_names() -> None:
    assert torch.mpsx.current_allocated_memory() == torch.mpsx.memory_allocated()
    assert torch.mpsx.driver_allocated_memory() == torch.mpsx.memory_reserved()
    assert "allocated" in torch.mpsx.memory_summary()


def test_memory_is_reused_and_returned() -> None:
    first = torch.empty(3 * MIB, dtype=torch.uint8, device="mpsx")
    address = first.data_ptr()
    del first
    again = torch.empty(3 * MIB, dtype=torch.uint8, device="mpsx")
    assert again.data_ptr() == address
    del again
    reserved = torch.mpsx.memory_reserved()
    torch.accelerator.empty_cache()
    assert torch.mpsx.memory_reserved() <= reserved - 3 * MIB


def test_freed_memory_stays_cached_below_the_limit() -> None:
    torch.mpsx.empty_cache()
    sizes = [5 * MIB, 7 * MIB, 9 * MIB]

    def allocate() -> list[torch.Tensor]:
        return [torch.empty(size, dtype=torch.uint8, device="mpsx") for size in sizes]

    allocate()
    kept = torch.mpsx.memory_reserved()
    allocate()
    assert kept - torch.mpsx.memory_allocated() >= sum(sizes)
    assert torch.mpsx.memory_reserved() == kept
    torch.mpsx.empty_cache()
    assert torch.mpsx.memory_reserved() <= kept - sum(sizes) + 2 * HUGE


def test_idle_cached_memory_is_bounded() -> None:
    """Idle cached memory stays below 32 MiB or an eighth of the peak, even if every allocation has a new size."""
    if torch.mpsx.get_device_properties().driver in ("metal", "cuda"):
        pytest.skip("on GPUs, allocation is expensive, so only the watermarks limit the cache")
    torch.mpsx.empty_cache()
    before, in_use = torch.mpsx.memory_reserved() - torch.mpsx.memory_allocated(), torch.mpsx.memory_allocated()
    sizes = [size * MIB for size in range(10, 30)]
    for size in sizes:
        torch.empty(size, dtype=torch.uint8, device="mpsx")
    idle = torch.mpsx.memory_reserved() - torch.mpsx.memory_allocated()
    assert idle <= before + 32 * MIB + 2 * max(sizes) + in_use // 8


def test_blocks_of_random_sizes_do_not_overlap() -> None:
    """Allocate and free blocks in random order. Blocks must keep their contents, and the statistics must stay exact."""
    torch.mpsx.empty_cache()
    start, generator, held = torch.mpsx.memory_allocated(), random.Random(7), {}
    for step in range(600):
        if held and generator.random() < 0.45:
            value, t = held.popitem() if generator.random() < 0.5 else (key := next(iter(held)), held.pop(key))
            first, last = t[0].item(), t[-1].item()
            assert first == last == value and t[:: max(1, t.numel() // 97)].eq(value).all()
        else:
            size = int(2 ** generator.uniform(0, 24))
            held[step] = torch.full((size,), step, dtype=torch.int16, device="mpsx")
        if step % 150 == 0:
            torch.mpsx.empty_cache()
        assert torch.mpsx.memory_reserved() >= torch.mpsx.memory_allocated()
        assert torch.mpsx.memory_allocated() >= start + sum(t.nbytes for t in held.values())
    assert all(t.eq(value).all() for value, t in held.items())
    held.clear()
    del t
    assert torch.mpsx.memory_allocated() == start


def test_high_watermark_is_a_limit() -> None:
    code = "torch.empty(1 << 20, device='mpsx')\ntorch.empty(1 << 26, dtype=torch.uint8, device='mpsx')"
    ratio = str(32 * MIB / torch.mpsx.recommended_max_memory())
    run = run_in_subprocess(code, PYTORCH_MPS_HIGH_WATERMARK_RATIO=ratio, PYTORCH_MPS_LOW_WATERMARK_RATIO=ratio)
    assert run.returncode and "OutOfMemoryError: mpsx: out of memory. Tried to allocate 64.00 MiB" in run.stderr
    assert not run_in_subprocess(code, PYTORCH_MPS_HIGH_WATERMARK_RATIO="0").returncode


def test_low_watermark_releases_cached_memory() -> None:
    code = """
both = [torch.empty(size, dtype=torch.uint8, device='mpsx') for size in (5 << 20, 7 << 20)]
del both
torch.empty(6 << 20, dtype=torch.uint8, device='mpsx')
print(torch.mpsx.memory_reserved() >> 20)
"""
    assert int(run_in_subprocess(code).stdout) >= 12
    low = str(4 * MIB / torch.mpsx.recommended_max_memory())
    assert int(run_in_subprocess(code, PYTORCH_MPS_LOW_WATERMARK_RATIO=low).stdout) in (6, 7, 8)


@pytest.mark.parametrize("ratios", [("x", "1"), ("3", "1"), ("0.5", "0.6")])
def test_invalid_watermarks_raise(ratios: tuple[str, str]) -> None:
    high, low = ratios
    run = run_in_subprocess("torch.empty(1, device='mpsx')", PYTORCH_MPS_HIGH_WATERMARK_RATIO=high,
                       PYTORCH_MPS_LOW_WATERMARK_RATIO=low)
    assert run.returncode > 0 and "PYTORCH_MPS_" in run.stderr and "expected" in run.stderr


def test_views_keep_memory_alive() -> None:
    gc.collect()
    before = torch.mpsx.memory_allocated()
    view = torch.full((1000,), 7.0, device="mpsx")[10:12]
    assert view.tolist() == [7, 7]
    assert torch.mpsx.memory_allocated() > before
    del view
    assert torch.mpsx.memory_allocated() == before


def test_no_growth() -> None:
    weight = torch.randn(64, 64, device="mpsx", requires_grad=True)

    def step() -> None:
        loss = (torch.randn(32, 64, device="mpsx") @ weight).relu().mean()
        loss.backward()
        weight.grad = None

    for _ in range(5):
        step()
    gc.collect()
    before = torch.mpsx.memory_allocated(), torch.mpsx.memory_reserved()
    for _ in range(200):
        step()
    gc.collect()
    assert (torch.mpsx.memory_allocated(), torch.mpsx.memory_reserved()) == before


def test_limit_gives_a_clear_error() -> None:
    torch.mpsx.empty_cache()
    fraction = (torch.mpsx.memory_reserved() + 16 * MIB) / torch.mpsx.recommended_max_memory()
    torch.mpsx.set_per_process_memory_fraction(fraction)
    try:
        with pytest.raises(torch.OutOfMemoryError, match=r"mpsx: out of memory. Tried to allocate 64\.00 MiB"):
            torch.empty(64 * MIB, dtype=torch.uint8, device="mpsx")
        assert torch.empty(MIB, dtype=torch.uint8, device="mpsx").numel() == MIB
    finally:
        torch.mpsx.set_per_process_memory_fraction(1.0)
    assert torch.empty(64 * MIB, dtype=torch.uint8, device="mpsx").numel() == 64 * MIB
    with pytest.raises(ValueError, match="fraction"):
        torch.mpsx.set_per_process_memory_fraction(-1)


def test_pinned_memory() -> None:
    cpu = torch.arange(10)
    assert not cpu.is_pinned()
    pinned = cpu.pin_memory()
    assert pinned.is_pinned()
    assert pinned[3:].is_pinned()
    assert torch.equal(pinned, cpu)
    assert torch.equal(pinned.to("mpsx", non_blocking=True).cpu(), cpu)
    assert torch.empty(4, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="only CPU tensors can be pinned"):
        torch.empty(4, device="mpsx", pin_memory=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader_pins(workers: int) -> None:
    torch.ones(1, device="mpsx")  # start the driver before the workers are forked
    data = TensorDataset(torch.arange(32.0), torch.arange(32))
    loader = DataLoader(data, batch_size=8, num_workers=workers, pin_memory=True)
    seen = []
    for values, labels in loader:
        assert values.is_pinned()
        on_mpsx = values.to("mpsx", non_blocking=True)
        assert torch.equal(on_mpsx.cpu().long(), labels)
        seen += labels.tolist()
    assert seen == list(range(32))


def convolved(device: str) -> torch.Tensor:
    return F.conv2d(torch.ones(1, 4, 600, 600, device=device), torch.ones(4, 4, 3, 3, device=device))


def test_results_of_cpu_libraries_use_the_cache() -> None:
    """The cache provides the memory for results of CPU libraries. Plain CPU tensors do not use the cache."""
    result = convolved("mpsx")
    torch.testing.assert_close(result.cpu(), convolved("cpu"))
    reserved, allocated = torch.mpsx.memory_reserved(), torch.mpsx.memory_allocated()
    second = convolved("mpsx")
    assert torch.mpsx.memory_allocated() >= allocated + second.nbytes
    del second
    for _ in range(4):
        convolved("mpsx")
    assert torch.mpsx.memory_allocated() == allocated
    assert torch.mpsx.memory_reserved() <= reserved + result.nbytes + 2 * HUGE
    beside = torch.empty(8 * MIB, dtype=torch.uint8)
    assert torch.mpsx.memory_allocated() == allocated
    del beside


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists(), reason="Linux's huge pages")
def test_large_tensors_use_huge_pages() -> None:
    if mpsx.driver()["name"] != "host" or "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        pytest.skip("needs the host driver and a system with huge pages")
    t = torch.ones(32 * MIB, dtype=torch.uint8, device="mpsx")
    huge = 0
    for area in Path("/proc/self/smaps").read_text().split("VmFlags")[:-1]:
        begin, end = re.search(r"^([0-9a-f]+)-([0-9a-f]+) ", area, re.MULTILINE).groups()
        if int(begin, 16) < t.data_ptr() + t.nbytes and t.data_ptr() < int(end, 16):
            huge += 1024 * int(re.search(r"AnonHugePages: +(\d+) kB", area)[1])
    assert huge >= t.nbytes - 2 * HUGE
