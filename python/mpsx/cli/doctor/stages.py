"""The doctor's stages."""

from __future__ import annotations

import gc
import os
import platform
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

import mpsx
from mpsx import _runtime

from .. import info
from .check import check, note
from .families import FLOATS, Case, cases, compare

# Allowed growth of allocated memory per thread, for one-time allocations such as error records.
BYTES_PER_THREAD = 4096


def expect(condition: object, message: str) -> None:
    """Raise RuntimeError unless the condition holds."""
    if not condition:
        raise RuntimeError(message)


def raises(body: Callable[[], object], *expected: str) -> str:
    """Check that `body` raises an error whose message contains all texts in `expected`. Return the message's first
    line."""
    try:
        body()
    except Exception as error:
        text = str(error)
        expect(all(part in text for part in expected), f"expected an error with {expected}, got {text!r}")
        return text.splitlines()[0]
    raise RuntimeError(f"expected an error with {expected}, got none")


def output_of(*command: str) -> str:
    """Return the output of a system command, or "not found"."""
    if shutil.which(command[0]) is None:
        return "not found"
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    return (done.stdout + done.stderr).strip()


def environment(_: float) -> None:
    """Report the installed packages and the system."""
    note("environment", "mpsx info", info.report())
    if sys.platform == "darwin":
        note("environment", "macOS", output_of("sw_vers"))
        note("environment", "processor", output_of("sysctl", "-n", "machdep.cpu.brand_string"))
        note("environment", "Metal compiler", output_of("xcrun", "-sdk", "macosx", "metal", "--version"))
        note("environment", "xcode-select", output_of("xcode-select", "-p"))
    note("environment", "processors", os.cpu_count())
    library = Path(mpsx.__file__).parent / "lib"
    rows = [f"{path.name}  {path.stat().st_size:,} bytes" for path in sorted(library.iterdir())]
    note("environment", "libraries", "\n".join(rows))
    check("environment", "the driver starts", lambda: _runtime.driver()["device"])
    if sys.platform == "darwin":
        check("environment", "macOS version", macos_version)
        check("environment", "Metal is in use", lambda: expect(_runtime.driver()["name"] == "metal", info.why_metal()))


def macos_version() -> str:
    """Raise unless macOS is at least version 14, which PyTorch's wheels require."""
    version = platform.mac_ver()[0]
    expect(int(version.split(".")[0]) >= 14, f"expected macOS 14 or later, got {version}")
    return version


def kernels(_: float) -> None:
    """Load every kernel, in an order shuffled with a fixed seed."""
    names = _runtime.kernel_names()
    check(
        "kernels", "found", lambda: expect(len(names) > 100, f"expected hundreds of kernels, got {len(names)}")
    )
    times, widths, failed = [], set(), 0
    random.Random(0).shuffle(names)
    for name in names:
        start = time.perf_counter()
        try:
            limits = _runtime.load_kernel(name)
        except RuntimeError as error:
            failed += 1
            text = str(error)
            check("kernels", name, lambda text=text: expect(False, text))
            continue
        times.append((time.perf_counter() - start, name))
        widths.add((limits["simd_width"], limits["max_threads"]))
    total = sum(seconds for seconds, _ in times)
    check("kernels", "all load", lambda: expect(failed == 0, f"{failed} of {len(names)} kernels failed to load"))
    slowest = "\n".join(f"{seconds * 1e3:10.1f} ms  {name}" for seconds, name in sorted(times, reverse=True)[:15])
    note("kernels", f"{len(times)} loaded in {total:.1f} s; slowest", slowest)
    note("kernels", "(SIMD width, maximum threads per threadgroup)", sorted(widths))


def families(_: float) -> None:
    """Run every case in float32 with gradients, then in float16 and bfloat16."""
    for dtype in FLOATS:
        for case in cases():
            if dtype != torch.float32 and (case.exact or case.family in ("index", "reduce", "loss")):
                continue  # the CPU rounds float16 and bfloat16 differently
            torch.manual_seed(0)
            tag = "" if dtype == torch.float32 else f" {str(dtype).removeprefix('torch.')}"
            check("families", f"{case.family}: {case.name}{tag}", lambda c=case, d=dtype: compare(c, d))
    check("families", "a training step", training_step)
    check("families", "random numbers repeat", random_repeats)


def training_step() -> str:
    """Train a small network with AdamW, and compare its losses with the CPU's."""
    losses = {}
    for device in ("cpu", "mpsx"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 10)
        )
        x, y = torch.randn(64, 32), torch.randint(10, (64,))
        model, x, y = model.to(device), x.to(device), y.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        found = []
        for _ in range(20):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        losses[device] = torch.tensor(found)
    torch.testing.assert_close(losses["mpsx"], losses["cpu"], rtol=1e-3, atol=1e-4)
    return f"loss {losses['mpsx'][0]:.4f} to {losses['mpsx'][-1]:.4f}"


def random_repeats() -> None:
    """Check that a seed determines the random numbers."""
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(torch.randn(1000, device="mpsx").cpu())
    expect(draws[0].equal(draws[1]), "the same seed gave different numbers")
    expect(not draws[0].equal(draws[2]), "a different seed gave the same numbers")
    expect(abs(draws[0].mean()) < 0.2 and abs(draws[0].std() - 1) < 0.2, "the numbers are not standard normal")


def device(_: float) -> None:
    """Check everything about the device except its operators."""
    check("device", "memory is freed", memory_is_freed)
    check("device", "too large an allocation raises", too_much_memory)
    check("device", "an out-of-range index raises", index_error)
    check("device", "events measure time", events)
    check("device", "threads", threads)
    check("device", "many launches in a row", many_launches)
    check("device", "CPU and device see the same bytes", shared_bytes)


def memory_is_freed() -> str:
    """Check that deleted tensors free their memory."""
    gc.collect()
    before = _runtime.memory()["allocated"]
    for size in (1, 1000, 1 << 20, 5 << 20):
        torch.ones(size, device="mpsx").add_(1)
    torch.mpsx.synchronize()
    gc.collect()
    found = _runtime.memory()
    expect(found["allocated"] == before, f"{found['allocated'] - before} bytes are still allocated")
    torch.mpsx.empty_cache()
    return f"reserved {found['reserved']:,} bytes, then {_runtime.memory()['reserved']:,}"


def too_much_memory() -> str:
    """Check that an impossible allocation raises and the device still works."""
    text = raises(lambda: torch.empty(1 << 50, dtype=torch.uint8, device="mpsx"), "memory")
    expect(torch.ones(3, device="mpsx").sum().item() == 3, "the device does not work after the error")
    return text


def index_error() -> str:
    """Check that an out-of-range index raises and the device still works."""

    def look_up() -> None:
        torch.nn.functional.embedding(torch.tensor([99], device="mpsx"), torch.ones(5, 3, device="mpsx"))
        torch.mpsx.synchronize()

    text = raises(look_up, "index")
    expect(torch.ones(3, device="mpsx").sum().item() == 3, "the device does not work after the error")
    return text


def events() -> str:
    """Check that the elapsed time between two events is positive."""
    start, end = (torch.Event("mpsx", enable_timing=True) for _ in range(2))
    start.record()
    x = torch.ones(1 << 20, device="mpsx")
    for _ in range(20):
        x = x * 1.0001
    end.record()
    end.synchronize()
    elapsed = start.elapsed_time(end)
    expect(elapsed > 0, f"expected a positive time, got {elapsed}")
    return f"{elapsed:.3f} ms for 21 kernels over a million elements"


def threads() -> str:
    """Launch kernels from four threads at once."""
    errors: list[str] = []

    def work(seed: int) -> None:
        x = torch.full((1000,), float(seed), device="mpsx")
        for _ in range(200):
            x = x + 1
        if not x.cpu().eq(seed + 200).all():
            errors.append(f"thread {seed}: wrong values")

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expect(not errors, "; ".join(errors))
    return "4 threads, 800 launches"


def many_launches() -> str:
    """Submit more launches than any queue can hold, without synchronizing."""
    x, start = torch.zeros(1, device="mpsx"), time.perf_counter()
    for _ in range(20_000):
        x.add_(1)
    queued = time.perf_counter() - start
    expect(x.item() == 20_000, f"expected 20000, got {x.item()}")
    total = time.perf_counter() - start
    return f"{queued / 20_000 * 1e6:.2f} µs per launch to submit, {total / 20_000 * 1e6:.2f} µs to run"


def shared_bytes() -> None:
    """Check that a CPU view shares memory and waits for the device."""
    x = torch.zeros(1 << 16, device="mpsx")
    for round_ in range(1, 50):
        x.add_(1)
        view = mpsx.cpu_view(x)
        expect(bool(view.eq(round_).all()), f"round {round_}: the CPU saw {view.unique().tolist()}")


def tuning(_: float) -> None:
    """Measure which kernels are fastest, and report the numbers that would make launchers choose them."""
    from ..tune.main import search

    if _runtime.driver()["name"] == "simt":
        note("tuning", "skipped", "the times of simt say nothing about a GPU")
        return

    def quick() -> str:
        result = search("quick")
        expect(not result.wrong, "\n".join(map(str, result.wrong)))
        note("tuning", "gains over the defaults", result.table())
        note("tuning", "numbers (rows of src/runtime/tuning.def)", result.rows() or "the defaults")
        return f"{len(result.gains)} of {result.cases} cases have faster kernels than the default's"

    check("tuning", "every variant is right", quick)


def stress(seconds: float) -> None:
    """Run random cases in two threads for `seconds`."""
    check("stress", f"{seconds:.0f} seconds of random cases", lambda: random_cases(seconds))


def random_cases(seconds: float) -> str:
    """Run random cases. Raise at the first mismatch, or if allocated memory grows. Return a summary."""
    usable, end = cases(), time.monotonic() + seconds
    counts, errors, lock = {"runs": 0}, [], threading.Lock()
    gc.collect()
    before = _runtime.memory()["allocated"]

    def work(seed: int) -> None:
        generator = random.Random(seed)
        while time.monotonic() < end and not errors:
            case = generator.choice(usable)
            try:
                compare_once(case)
            except Exception as error:
                with lock:
                    errors.append(f"{case.family}: {case.name} (after {counts['runs']} runs): {error}")
            with lock:
                counts["runs"] += 1

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expect(not errors, errors[0] if errors else "")
    torch.mpsx.synchronize()
    gc.collect()
    found = _runtime.memory()
    grown = found["allocated"] - before
    expect(grown <= BYTES_PER_THREAD * len(workers), f"{grown} more bytes are allocated than before")
    rate = f"{counts['runs']} runs, {counts['runs'] / seconds:.0f} per second; {grown} bytes still allocated"
    return f"{rate}; at most {found['allocated_peak']:,} bytes allocated, {found['reserved_peak']:,} reserved"


def compare_once(case: Case) -> None:
    """Compare a case with the CPU. Leaves the fallback mode and the launch log alone, because all threads share
    them."""
    from .families import run

    inputs = case.make()
    expected = run(case, inputs, "cpu", case.backward)
    for ours, theirs in zip(run(case, inputs, "mpsx", case.backward), expected, strict=True):
        # Allow for rounding. Sums of random inputs may cancel, and their error depends on the summation order. The
        # stage "families" checks accuracy on fixed inputs.
        scale = max(1.0, float(theirs.abs().max())) if theirs.numel() and theirs.is_floating_point() else 0.0
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * scale)


STAGES: dict[str, Callable[[float], None]] = {
    "environment": environment, "kernels": kernels, "families": families, "device": device, "tuning": tuning,
    "stress": stress,
}  # fmt: skip
