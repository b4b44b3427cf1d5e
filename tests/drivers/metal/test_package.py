"""Test the package on emulated Metal: waits for the GPU, errors, and leaks.

`python tools/dev.py run --metal -- python -m pytest tests` runs all other tests on emulated Metal.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import PRELUDE, ROOT, emulated_metal

import mpsx


def test_waits_only_for_cpu_access(run: Callable[..., str]) -> None:
    """An operation waits exactly once if the CPU accesses the memory, and otherwise not at all."""
    run("""
        def nothing(b):
            c = (b * 2).exp().reshape(8, 8).t()[1:]
            return c.shape, c.stride(), str(c.dtype), torch.empty_like(c), c.detach(), c.to(torch.float16)
        assert waits(nothing)[0] == 0
        for name, function, expected in [
            ("item", lambda b: b[3].item(), 2.0),
            ("tolist", lambda b: b[:2].tolist(), [2.0, 2.0]),
            ("cpu", lambda b: b.cpu().sum().item(), 128.0),
            ("numpy", lambda b: float(mpsx.numpy_view(b)[5]), 2.0),
            ("cpu_view", lambda b: mpsx.cpu_view(b)[5].item(), 2.0),
            ("print", lambda b: str(b)[:12], "tensor([2., "),
            ("bool", lambda b: bool(b.all()), True),
            ("fallback", lambda b: torch.special.bessel_j0(b * 0).cpu()[0].item(), 1.0),
            ("save", lambda b: len(pickle.dumps(b.untyped_storage())) > 256, True),
            ("vendor", lambda b: (b.reshape(8, 8) @ b.reshape(8, 8)).cpu()[0, 0].item(), 32.0),
            ("nonzero", lambda b: b.nonzero().shape[0], 64),
            ("synchronize", lambda b: torch.mpsx.synchronize(), None),
        ]:
            count, result = waits(function)
            assert result == expected, (name, result)
            assert count == 1, (name, count)
    """)


# Cache and reuse memory, as on a Mac. Blocks of up to 64 KiB share a buffer.
CACHED = {"MPSX_METAL_EXACT_BUFFERS": "0"}


@pytest.mark.parametrize(("size", "guard"), [(20000, "1"), (1000, "0")])
def test_memory_freed_in_flight_is_not_touched(run: Callable[..., str], size: int, guard: str) -> None:
    """The CPU reuses a freed block only after the GPU has finished with it. Until then, the pages are inaccessible."""
    run(f"""
        emulation.mpsx_emulation_delay(20000)
        n = {size}
        for i in range(20):
            a = torch.full((n,), float(i), device="mpsx")
            b = a * 2
            del a
            c = (torch.arange(n) % 2).float().to("mpsx")          # the CPU writes, perhaps to the memory of a
            d = mpsx.device_view(torch.ones(n))
            assert (b + c + d).sum().item() == n * (2 * i + 1) + n // 2
        assert torch.mpsx.memory_stats()["segment.all.peak"] < 10  # memory was reused
    """, MPSX_EMULATION_GUARD=guard, **CACHED)  # fmt: skip


def test_waits_for_one_block(run: Callable[..., str]) -> None:
    """Before the CPU accesses a buffer, the driver waits for work that uses this buffer, but not for other work."""
    run("""
        emulation.mpsx_emulation_delay(0)
        done, weights = torch.ones(1000, device="mpsx") + 1, torch.ones(1000, device="mpsx")
        torch.mpsx.synchronize()
        emulation.mpsx_emulation_delay(20000)
        busy = weights * 3
        counts = emulation.mpsx_emulation_waits(), emulation.mpsx_emulation_command_buffers()
        assert done[0].item() == 2 and done.tolist()[5] == 2     # the GPU has no work on it
        batch = torch.arange(1000.).to("mpsx")                   # memory that the GPU has not used
        batch.copy_(torch.arange(1000.) + 1)
        mpsx.cpu_view(batch)[0] = 5
        fresh = torch.tensor([1., 2.], device="mpsx")
        assert (emulation.mpsx_emulation_waits(), emulation.mpsx_emulation_command_buffers()) == counts
        sum_ = (busy + batch)
        sum_.copy_(torch.zeros(1000))                            # overwrites what the GPU has yet to write
        assert emulation.mpsx_emulation_waits() == counts[0] + 1
        assert sum_[7].item() == 0 and busy[7].item() == 3 and batch[0].item() == 5
        assert emulation.mpsx_emulation_waits() == counts[0] + 1  # earlier work is complete, too
    """)


def test_blocks_of_a_buffer_are_tracked_separately(run: Callable[..., str]) -> None:
    """Small tensors share a buffer, but accessing one tensor must not wait for work on a different one."""
    run("""
        emulation.mpsx_emulation_delay(0)
        done, weights = torch.full((8,), 2.0, device="mpsx"), torch.ones(8, device="mpsx")
        torch.mpsx.synchronize()
        emulation.mpsx_emulation_delay(20000)
        busy = weights + weights
        torch.mpsx.current_stream().query()
        before = emulation.mpsx_emulation_waits()
        assert done.tolist() == [2.0] * 8 and emulation.mpsx_emulation_waits() == before
        assert busy.tolist() == [2.0] * 8 and emulation.mpsx_emulation_waits() == before + 1
    """, MPSX_EMULATION_GUARD="0", **CACHED)


def test_index_errors_surface_at_the_next_wait(run: Callable[..., str]) -> None:
    run("""
        def expect_error():
            try:
                torch.mpsx.synchronize()
            except IndexError as e:
                assert "9" in str(e), e
            else:
                raise AssertionError("no error")
        t = torch.arange(4., device="mpsx")
        t[torch.tensor([9], device="mpsx")]
        expect_error()
        assert t.sum().item() == 6
        bad = torch.tensor([9], device="mpsx")
        t[bad], t.gather(0, bad), t.take(bad)                    # three bad lookups, one error
        expect_error()
        torch.mpsx.synchronize()
        assert t.sum().item() == 6
    """)


@pytest.mark.sweep  # the race is rare
def test_waits_ignore_error_records_of_work_in_flight(run: Callable[..., str]) -> None:
    """Two threads wait, and therefore check the error records of all threads, while a third thread looks up rows."""
    run("""
        import threading, time
        end, failures = time.monotonic() + 15, []
        def look_up():
            table, rows = torch.arange(8.).reshape(4, 2).to("mpsx"), torch.tensor([3, 1], device="mpsx")
            while time.monotonic() < end:
                found = torch.nn.functional.embedding(rows, table)
            failures.extend([] if found.tolist() == [[6, 7], [2, 3]] else [found])
        def wait():
            while time.monotonic() < end:
                torch.mpsx.synchronize()
        threads = [threading.Thread(target=look_up), threading.Thread(target=wait), threading.Thread(target=wait)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not failures, failures
    """, MPSX_EMULATION_DELAY="0")  # fmt: skip


def test_failed_work_raises(run: Callable[..., str]) -> None:
    run("""
        t = torch.ones(4, device="mpsx")
        torch.mpsx.synchronize()
        emulation.mpsx_emulation_fail(b"command_buffer", 0, 1)
        u = t.exp()
        try:
            torch.mpsx.synchronize()
        except RuntimeError as e:
            assert "the GPU failed in mpsx" in str(e) and "exp" in str(e), e
        else:
            raise AssertionError("no error")
        assert t.exp().cpu()[0].item() > 2.7
    """)


def test_gpu_out_of_memory_raises(run: Callable[..., str]) -> None:
    """Every wait raises the error, except that an allocation waiting for memory leaves it to the next wait."""
    run("""
        import re
        t = torch.ones(4, device="mpsx")
        torch.mpsx.synchronize()
        for wait in (torch.mpsx.synchronize, lambda: u.cpu(), lambda: u[0].item()):
            emulation.mpsx_emulation_fail(b"gpu_memory", 0, 1)
            u = t.exp()
            try:
                wait()
            except torch.OutOfMemoryError as e:
                assert "mpsx: out of memory. the GPU failed in mpsx" in str(e) and "exp" in str(e), e
                assert "(code 8)" in str(e) and "Use smaller batches" in str(e), e
                assert re.search(r"tensors use \\d+ MiB, \\d+ MiB are reserved, limit \\d+ MiB", str(e)), e
            else:
                raise AssertionError("no error")
        emulation.mpsx_emulation_fail(b"gpu_memory", 0, 1)
        u = t.exp()
        emulation.mpsx_emulation_fail(b"allocation", 0, 1)
        torch.empty(1 << 20, device="mpsx")
        assert torch.mpsx.memory_stats()["num_alloc_retries"] == 1
        try:
            torch.mpsx.synchronize()
        except torch.OutOfMemoryError:
            pass
        else:
            raise AssertionError("no error")
        assert t.exp().cpu()[0].item() > 2.7
    """)


def test_compile_shader(run: Callable[..., str]) -> None:
    """The source is passed to Metal's compiler unchanged."""
    run('''
        library = mpsx.compile_shader("""
            #include <metal_stdlib>
            using namespace metal;
            kernel void scale(device float* x [[buffer(0)]], constant float& by [[buffer(1)]],
                              uint i [[thread_position_in_grid]]) { x[i] *= by; }
        """)
        t = torch.ones(10, device="mpsx")
        library.scale(t, 3.0)
        assert t.tolist() == [3.0] * 10
    ''')


def test_tensors_of_metal_4(run: Callable[..., str]) -> None:
    run('''
        library = mpsx.compile_shader("""
            #include <metal_stdlib>
            #include <metal_tensor>
            using namespace metal;
            kernel void scale(tensor<device float, dextents<int, 2>> to, tensor<device float, dextents<int, 2>> from,
                              constant float& by, uint2 i [[thread_position_in_grid]]) {
              to[i.x, i.y] = by * from[i.x, i.y];
            }
        """)
        x, y = torch.arange(12.0, device="mpsx").view(3, 4), torch.ones(3, 4, device="mpsx")
        library.scale(y, x + 1, 2.0, threads=(4, 3))
        library.scale(x[:2, 1:], (y + y)[1:, :3], 3.0, threads=(3, 2))
        assert y.tolist() == [[2, 4, 6, 8], [10, 12, 14, 16], [18, 20, 22, 24]]
        assert x[:2].tolist() == [[0, 60, 72, 84], [4, 108, 120, 132]]
        for wrong, says in [(x.t(), "pass tensor.contiguous()"), (x[0], "rank 2 and float"),
                            (x.half(), "got rank 2 and half"), (x.cpu(), "expected a tensor of rank 1 to 8"),
                            (1.0, "got float")]:
            try:
                library.scale(y, wrong, 1.0, threads=(3, 3))
            except RuntimeError as e:
                assert says in str(e) and "scale: " in str(e), e
            else:
                raise AssertionError(says)
    ''')


def test_sources_are_compiled_on_first_use(toolchain: None, tmp_path: Path) -> None:
    """If there is no metallib, the driver compiles the flattened source on the first use of a kernel. If a file does
    not compile, the error names the operator and the kernel that are lost, and the other kernels still work."""
    broken = ("index/flip", "reduce/trace")
    files = [ROOT / "metal" / f"{name}.metal" for name in ("sort/search", *broken)]
    sources = emulated_metal.flattened(files, tmp_path / "mpsx.metal")
    text = sources.read_text()
    for name in broken:
        before, unit, after = text.partition(f"//mpsx:unit metal/{name}.metal\n")
        kernels, _, rest = after.partition("\n")
        text = f"{before}{unit}{kernels}\nint broken = undeclared_name;\n{rest}"
    sources.write_text(text)
    environment = emulated_metal.environment(Path(mpsx.__file__).parent, tmp_path / "site", sources)
    code = """
        x, y = torch.randn(300).sort().values, torch.randn(5, 30)
        z = y.to("mpsx")
        lost = {"tril: triangle_i32: cannot compile metal/index/flip.metal": z.tril,
                "triu: triangle_i32: cannot compile metal/index/flip.metal": lambda: torch.triu(z, out=z),
                "trace: trace_f32: cannot compile metal/reduce/trace.metal": z.trace}
        for _ in range(2):
            for says, call in lost.items():
                try:
                    call()
                except RuntimeError as e:
                    assert str(e).startswith(says) and "undeclared_name" in str(e), e
                else:
                    raise AssertionError(says)
            assert torch.searchsorted(x.to("mpsx"), z).cpu().equal(torch.searchsorted(x, y))
        assert emulation.mpsx_emulation_live(b"EmulatedLibrary") == 1
    """
    done = subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(code)], env=environment, text=True,
                          capture_output=True, timeout=240, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.sweep  # compiles every kernel file
def test_all_sources_are_compiled_and_run(toolchain: None, tmp_path: Path) -> None:
    files = [path for path in sorted((ROOT / "metal").glob("*/*.metal")) if not path.stem.endswith("_tensor")]
    sources = emulated_metal.flattened(files, tmp_path / "mpsx.metal")
    environment = emulated_metal.environment(Path(mpsx.__file__).parent, tmp_path / "site", sources)
    environment["MPSX_EMULATION_KEEP"] = str(tmp_path / "compiled")  # processes share the compiled kernels
    report = tmp_path / "report.md"
    arguments = ["doctor", "--stages", "environment,kernels,families", "--output", str(report)]
    done = subprocess.run([sys.executable, "-m", "mpsx", *arguments], env=environment, text=True, capture_output=True,
                          timeout=3600, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr + (report.read_text() if report.exists() else "")


def test_info_if_the_driver_does_not_start(run: Callable[..., str]) -> None:
    said = run("from mpsx.cli import info; print(info.report())", MPSX_EMULATION_FAIL="old_gpu:0:1000000")
    assert "driver           does not start: mpsx: expected an Apple GPU (M1 or later), got Emulated" in said
    assert "MPSX_DRIVER=host runs on the CPU" in said
    assert "Metal device     not usable: mpsx: expected an Apple GPU" in said


def test_forked_process_raises(run: Callable[..., str]) -> None:
    run("""
        import os
        t = torch.ones(4, device="mpsx")
        pid = os.fork()
        if pid == 0:
            try:
                t + t
            except RuntimeError as e:
                os._exit(0 if "fork" in str(e) and "spawn" in str(e) else 2)
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    """)


def test_exit_with_work_in_flight(run: Callable[..., str]) -> None:
    """Exit while work from a finished thread and from the main thread is in flight and a module holds tensors."""
    run("""
        import threading
        emulation.mpsx_emulation_delay(20000)
        torch.kept = [torch.ones(100000, device="mpsx") for _ in range(4)]
        event = torch.Event("mpsx", enable_timing=True)
        thread = threading.Thread(target=lambda: [torch.kept[0].add_(torch.kept[1]) for _ in range(200)])
        thread.start()
        thread.join()
        torch.kept[2].add_(torch.kept[3])
        event.record()
    """)


def test_training_leaks_nothing(run: Callable[..., str]) -> None:
    """Train, and compare the loss with the CPU's. Afterwards, only buffers, pipelines and one queue may exist."""
    run("""
        # float32 sums that are computed in a different order differ by a few ULPs.
        torch.testing.assert_close(train("mpsx"), train("cpu"), rtol=5e-7, atol=0)
        gc.collect()
        torch.mpsx.synchronize()
        torch.mpsx.empty_cache()
        import time
        for _ in range(100):
            if emulation.mpsx_emulation_live(b"EmulatedCommandBuffer") <= 1:
                break
            time.sleep(0.01)
        live = lambda name: emulation.mpsx_emulation_live(name)
        assert live(b"EmulatedCommandBuffer") <= 1            # the last one, kept for events
        assert live(b"EmulatedEncoder") == 0 and live(b"EmulatedQueue") == 1 and live(b"EmulatedLibrary") == 1
        assert live(b"EmulatedString") <= 3 and live(b"NSError") == 0 and live(b"NSURL") == 0
        assert live(b"EmulatedBuffer") == torch.mpsx.memory_stats()["segment.all.current"] + 1, live(b"EmulatedBuffer")
    """)


@pytest.mark.parametrize(("ratio", "fits"), [("0.0001", False), ("0", True), ("1", True)])
def test_watermark_ratio(run: Callable[..., str], ratio: str, fits: bool) -> None:
    """PYTORCH_MPS_HIGH_WATERMARK_RATIO is relative to the device's recommended size, which is 8 GiB here."""
    run(f"""
        try:
            torch.empty(4 << 20, dtype=torch.uint8, device="mpsx")
            fits = True
        except torch.OutOfMemoryError as e:
            fits = False
            assert "out of memory" in str(e)
        assert fits == {fits}
    """, PYTORCH_MPS_HIGH_WATERMARK_RATIO=ratio, PYTORCH_MPS_LOW_WATERMARK_RATIO=ratio)  # fmt: skip


def test_invalid_watermark_ratio_raises(run: Callable[..., str]) -> None:
    run("""
        try:
            torch.empty(4, device="mpsx")
        except RuntimeError as e:
            assert "PYTORCH_MPS_HIGH_WATERMARK_RATIO: expected a number from 0 to 2" in str(e), e
        else:
            raise AssertionError("no error")
    """, PYTORCH_MPS_HIGH_WATERMARK_RATIO="three")  # fmt: skip
