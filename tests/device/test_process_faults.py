"""Fault injection. Each test runs in its own process, which must exit cleanly."""

from __future__ import annotations

import os
import platform
import select
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import is_running, run_in_subprocess

import mpsx
from mpsx.msl.compiler import find_compiler

KERNEL = "kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= %d; }"
COMPILE = f"""
import mpsx
x = torch.ones(4, device="mpsx")
mpsx.compile_shader({KERNEL!r} % factor).twice(x)
assert x.tolist() == [factor] * 4, x
"""


def assert_exited(done: subprocess.CompletedProcess[str], status: int = 0) -> None:
    assert done.returncode == status, f"status {done.returncode}: {done.stderr[-2000:]}"


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)", "os.kill(os.getpid(), signal.SIGTERM)", "os._exit(0)"])
def test_exit_while_threads_launch(end: str) -> None:
    """Launch kernels from non-daemon threads. Python kills daemon threads in the middle of calls, and torch then aborts
    even on the CPU."""
    code = f"""
import os, signal, sys, threading, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
def work():
    x = torch.randn(64, 64, device="mpsx")
    while threading.main_thread().is_alive():
        x = (x @ x).softmax(-1)
for _ in range(4):
    threading.Thread(target=work).start()
time.sleep(0.3)
{end}
"""
    assert_exited(run_in_subprocess(code, OMP_NUM_THREADS="1"))


@pytest.mark.parametrize(("text", "mebibytes"), [("64M", 64), ("6.4e7", 61), ("67108864", 64), ("0.0625 GiB", 64)])
def test_recovery_from_out_of_memory(text: str, mebibytes: int) -> None:
    code = f"""
x = torch.ones(1 << 20, device="mpsx")
for _ in range(3):
    try:
        torch.empty(({mebibytes} << 20) + 1, dtype=torch.uint8, device="mpsx")
    except torch.OutOfMemoryError as error:
        assert "out of memory" in str(error) and "MPSX_MEMORY_LIMIT" in str(error), error
    else:
        raise AssertionError("no error")
    kept = torch.empty(({mebibytes} << 20) // 2, dtype=torch.uint8, device="mpsx")
    assert (x + 1).sum().item() == 2 << 20
    del kept
"""
    assert_exited(run_in_subprocess(code, MPSX_MEMORY_LIMIT=text))


@pytest.mark.parametrize("text", ["abc", "12Q", "-1", "64MX", "nan"])
def test_invalid_memory_limit_raises(text: str) -> None:
    done = run_in_subprocess("torch.ones(1, device='mpsx')", MPSX_MEMORY_LIMIT=text)
    assert f"MPSX_MEMORY_LIMIT: expected a number of bytes, like 2000000000, 2e9 or 2G, got '{text}'" in done.stderr
    assert done.returncode == 1


def test_result_larger_than_memory_raises() -> None:
    code = """
a, b = torch.ones(1 << 16, 1, device="mpsx"), torch.ones(1, 1 << 17, device="mpsx")
for call in (lambda: torch.bmm(a[None], b[None]), lambda: a * b, lambda: torch.empty(1 << 62, device="mpsx")):
    try:
        call()
    except RuntimeError as error:
        assert "out of memory" in str(error) or "overflow" in str(error), error
    else:
        raise AssertionError("no error")
assert (a + 1).sum().item() == 2 << 16
"""
    assert_exited(run_in_subprocess(code, MPSX_MEMORY_LIMIT="1G"))


def test_unusable_cache_folder_leaves_no_files(tmp_path: Path) -> None:
    """If the cache folder cannot be created, shaders compile in a temporary folder, which is deleted at exit."""
    (tmp_path / "file").touch()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    cache = tmp_path / "file" / "cache"
    done = run_in_subprocess("factor = 3" + COMPILE, MPSX_CACHE_DIR=str(cache), TMPDIR=str(temporary))
    assert_exited(done)
    assert list(temporary.glob("mpsx-*")) == []


def test_full_disk(tmp_path: Path) -> None:
    """Shaders still compile if the disk is full and the cache cannot be written."""
    code = """
import errno, os
from mpsx.shader import cache
replace_file = os.replace
def replace(source, target):
    if str(target).startswith(os.environ["MPSX_CACHE_DIR"]):
        raise OSError(errno.ENOSPC, "No space left on device")
    return replace_file(source, target)
os.replace = replace
factor = 5
"""
    assert_exited(run_in_subprocess(code + COMPILE, MPSX_CACHE_DIR=str(tmp_path / "cache")))


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write to read-only folders")
def test_read_only_cache(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert_exited(run_in_subprocess("factor = 7" + COMPILE, MPSX_CACHE_DIR=str(tmp_path / "cache")))


def children(pid: int) -> set[int]:
    """Return the IDs of all descendant processes."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found |= {int(status.parent.name)} | children(int(status.parent.name))
    return found


# A fake compiler: if it is called with the given option, it creates the file `compiling` and hangs. On NVIDIA GPUs,
# opening a shader runs the compiler only for the syntax check.
ENDLESS = """#!/bin/sh
case " $* " in *" {} "*) sleep 0.2; touch "$TMPDIR/compiling"; exec sleep 600 ;; esac
exec {} "$@"
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks up processes in /proc")
def test_interrupted_compilation_leaves_nothing(tmp_path: Path) -> None:
    compiler = tmp_path / "clang++"
    compiler.write_text(
        ENDLESS.format("-fsyntax-only" if mpsx.driver()["name"] == "cuda" else "-c", shlex.join(find_compiler().clang))
    )
    compiler.chmod(0o700)
    # A shell makes background jobs and their child processes ignore SIGINT.
    code = ("import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
            f"import torch, mpsx; mpsx.compile_shader({KERNEL % 2!r})")  # fmt: skip
    environment = os.environ | {"MPSX_CACHE_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    environment["MPSX_KERNEL_CXX"] = shlex.quote(str(compiler))
    program = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
    deadline = time.monotonic() + 120
    while not (tmp_path / "compiling").exists() and program.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    compilers = children(program.pid)
    program.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in program.communicate(timeout=60)[1]
    assert compilers
    deadline = time.monotonic() + 10
    while (left := [pid for pid in compilers if is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    assert [path.name for path in tmp_path.glob("tmp-*")] == []


FOREVER = """
import signal; signal.signal(signal.SIGINT, signal.default_int_handler)
import torch, mpsx
lib = mpsx.compile_shader('''
#include <metal_stdlib>
using namespace metal;
kernel void forever(device volatile int* x, uint i [[thread_position_in_grid]]) {
  BODY
}
kernel void seven(device int* x, uint i [[thread_position_in_grid]]) { x[i] = 7; }''')
x = torch.zeros(100000, dtype=torch.int32, device="mpsx")
lib.seven(x)  # the library is loaded
x.zero_()
print("go", flush=True)
try:
    lib.forever(x)
except KeyboardInterrupt:
    lib.seven(x)
    print("ended", x.sum().item(), flush=True)
"""


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="interrupts need x86-64 Linux")
@pytest.mark.skipif(mpsx.driver()["name"] not in ("host", "simt"), reason="a GPU kernel cannot be interrupted")
@pytest.mark.parametrize("body", [
    "while (x[0] == 0) {}",
    "threadgroup int s[1]; s[0] = 0; while (x[s[0]] == 0) {}",
    "while (x[0] == 0) threadgroup_barrier(mem_flags::mem_threadgroup);",
], ids=["a loop", "in threadgroups", "with barriers"])  # fmt: skip
def test_second_ctrl_c_interrupts_an_endless_kernel(body: str) -> None:
    program = subprocess.Popen([sys.executable, "-c", FOREVER.replace("BODY", body)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
    try:
        assert program.stdout.readline() == "go\n", program.stderr.read()
        time.sleep(0.5)
        program.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert program.poll() is None  # Python only records the first signal, so the program continues
        for _ in range(20):  # retry: the signal may arrive while no kernel is running
            program.send_signal(signal.SIGINT)
            if select.select([program.stdout], [], [], 0.5)[0]:
                break
        assert program.communicate(timeout=60)[0] == "ended 700000\n"
    finally:
        program.kill()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="counts mappings in /proc")
def test_unused_shaders_are_unloaded(tmp_path: Path) -> None:
    code = f"""
import gc, mpsx
x = torch.ones(4, device="mpsx")
def mappings(first, last):
    for factor in range(first, last):
        mpsx.compile_shader({KERNEL!r} % factor).twice(x)
        kept = mpsx.compile_shader({KERNEL!r} % 2).twice
    gc.collect()
    kept(x)  # a kernel keeps its library loaded
    return len(open("/proc/self/maps").readlines())
before = mappings(3, 6)
after = mappings(6, 16)
assert after < before + 10, (before, after)
rows = [row for row in mpsx.profiler.rows() if row.name == "twice"]
assert len(rows) == 2 and sum(row.calls for row in rows) == 15, rows
"""
    assert_exited(run_in_subprocess(code, MPSX_CACHE_DIR=str(tmp_path)))


SOAK = """
import random, resource, time
import torch.nn.functional as F
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
def steps(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        n = random.randrange(1, 1500)
        x = torch.randn(n, 64, device="mpsx")
        loss = F.cross_entropy(F.layer_norm(x @ weight, (96,)), torch.randint(96, (n,), device="mpsx"))
        loss.backward()
        weight.grad = None
        x[torch.randperm(n, device="mpsx")[: n // 2 + 1]].sort(0)
random.seed(0)
weight = torch.randn(64, 96, device="mpsx", requires_grad=True)
steps(SECONDS / 2)
first = resident()
steps(SECONDS / 2)
grown = (resident() - first) >> 20
assert grown < 24, f"{grown} MiB more"
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the resident set size from /proc")
@pytest.mark.parametrize("seconds", [6, pytest.param(600, marks=pytest.mark.sweep)])
def test_memory_stays_flat_with_varying_lengths(seconds: int) -> None:
    assert_exited(run_in_subprocess(f"SECONDS = {seconds}\n" + SOAK))


def test_division_by_zero_with_faulthandler() -> None:
    """faulthandler replaces the driver's SIGFPE handler with one that would terminate the process."""
    code = """
import faulthandler, torch, mpsx
x = torch.zeros(2, dtype=torch.int32, device="mpsx") + 0
faulthandler.enable()
mpsx.compile_shader("kernel void f(device int* x, uint i [[thread_position_in_grid]]) { x[i] = 7 / x[i]; }").f(x)
print(x.cpu())
"""
    assert_exited(run_in_subprocess(code))
