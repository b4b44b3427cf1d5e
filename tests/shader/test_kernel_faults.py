"""A signal inside a kernel (SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGABRT, stack overflow) raises an error that
names the kernel. All other signals reach the program's own handlers."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest
import torch
from processes import run_in_subprocess

import mpsx

pytestmark = [
    pytest.mark.skipif(mpsx.driver()["name"] not in ("host", "simt"), reason="kernels do not run on the CPU"),
    pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals"),
]
INDEX = "uint i [[thread_position_in_grid]]"
FAULTS = {
    "trap": ("if (i == 1) __builtin_trap();", "SIGILL|SIGTRAP"),
    "breakpoint": ("if (i == 1) __builtin_debugtrap();", "SIGTRAP"),
    "abort": ("if (i == 1) __builtin_abort();", "SIGABRT"),
    "null": ("device float* p = nullptr; p[i] = 3;", "address|bounds|outside"),
    "wild": ("device float* p = (device float*)(4096ul * 3); p[i] = 3;", "address|bounds|outside"),
    "not canonical": ("device float* p = (device float*)0xffff000000000010ul; p[i] = 3;", "address|bounds|outside"),
    "far away": ("x[i + 100000000000ul] = 3;", "address|bounds|outside"),
    "code": ("(*(void (*)())8ul)();", "address|SIGILL"),
    "large array": ("volatile float a[6000000]; a[i] = 3; x[i] = a[int(x[i])];", "stack"),
}
DEEP = """
int deep(device float* x, int n) {
  volatile int a[100];
  a[n % 100] = n;
  return n > 1000000000 ? 0 : deep(x, n + 1) + a[(n + 1) % 100];
}
"""


def launch(body: str, before: str = "", count: int = 3) -> torch.Tensor:
    x = torch.zeros(count, device="mpsx")
    mpsx.compile_shader(f"{before}\nkernel void faulty(device float* x, {INDEX}) {{ {body} }}").faulty(x)
    torch.mpsx.synchronize()
    return x


@pytest.mark.parametrize("name", FAULTS)
def test_fault_raises_an_error_that_names_the_kernel(name: str) -> None:
    body, cause = FAULTS[name]
    with pytest.raises(RuntimeError, match=rf"faulty: .*({cause})"):
        launch(body)
    assert launch("x[i] = 5;").tolist() == [5, 5, 5]


def test_stack_overflow() -> None:
    with pytest.raises(RuntimeError, match=r"faulty: stack overflow"):
        launch("x[i] = deep(x, 1);", DEEP)


def test_fault_in_a_threadgroup() -> None:
    body = """threadgroup float s[4]; s[i % 4] = i; threadgroup_barrier(metal::mem_flags::mem_threadgroup);
              x[i] = s[(i + 1) % 4]; if (i == 2) __builtin_trap();"""
    with pytest.raises(RuntimeError, match=r"faulty: __builtin_trap\(\)"):
        launch(body, "#include <metal_stdlib>", count=4)


def test_fault_in_a_worker_of_the_parallel_loop() -> None:
    """Repeat the fault. It may hit a different worker each time, and every worker must recover."""
    for _ in range(4):
        with pytest.raises(RuntimeError, match=r"faulty: __builtin_trap\(\)"):
            launch("x[i] = i; if (i % 100000 == 99999) __builtin_trap();", count=1000000)
    assert launch("x[i] = i;", count=1000000)[-1].item() == 999999


def test_fault_in_python_threads() -> None:
    """The threads exit after the fault, which frees the alternate stacks of their signal handlers."""
    faulty = mpsx.compile_shader(f"{DEEP}kernel void faulty(device float* x, {INDEX}) {{ x[i] = deep(x, 1); }}").faulty
    errors = []

    def work() -> None:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"faulty: stack overflow") as caught:
                faulty(torch.ones(2, device="mpsx"))
            errors.append(caught.value)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 16


# This program recovers from faults inside kernels, then faults outside a kernel.
PROGRAM = """
import ctypes, faulthandler, os, signal, sys, mpsx
{early}
lib = mpsx.compile_shader("kernel void trap(device float* x) {{ __builtin_trap(); }}")
{middle}
def kernel_fault():
    try:
        lib.trap(torch.ones(2, device="mpsx"))
    except RuntimeError as error:
        assert "trap: " in str(error), error
    else:
        raise AssertionError("no error")
kernel_fault()
kernel_fault()
print("recovered", flush=True)
{end}
"""
OTHER_FAULTS = {
    "SIGSEGV": "ctypes.string_at(0)",
    "SIGABRT": "os.abort()",
    "SIGILL": "signal.raise_signal(signal.SIGILL)",
    "SIGFPE": "os.kill(os.getpid(), signal.SIGFPE)",
    "SIGBUS": "os.kill(os.getpid(), signal.SIGBUS)",
}


QUICK = [("SIGSEGV", "nowhere"), ("SIGSEGV", "early"), ("SIGABRT", "middle"), ("SIGFPE", "variable")]
PAIRS = [(name, where) for where in ("nowhere", "variable", "early", "middle") for name in OTHER_FAULTS]


@pytest.mark.parametrize(
    ("name", "where"), [pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.sweep) for pair in PAIRS]
)
def test_other_faults_reach_faulthandler(name: str, where: str) -> None:
    """Enable faulthandler with PYTHONFAULTHANDLER, before the library loads, after it loads, or not at all."""
    enable = {where: "faulthandler.enable()"}
    code = PROGRAM.format(early=enable.get("early", ""), middle=enable.get("middle", ""), end=OTHER_FAULTS[name])
    done = run_in_subprocess(code, PYTHONFAULTHANDLER="1" if where == "variable" else "")
    assert done.returncode == -getattr(signal, name), done.stderr
    assert done.stdout == "recovered\n", done.stderr
    assert ("Fatal Python error" in done.stderr) == (where != "nowhere"), done.stderr


def test_other_faults_reach_the_programs_handlers() -> None:
    """Before mpsx loads, install handlers that return, with both the signal module and C's signal()."""
    code = """
import ctypes, os, signal
seen = []
signal.signal(signal.SIGABRT, lambda number, frame: seen.append(number))
HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)
handler = HANDLER(seen.append)
libc = ctypes.CDLL(None)
libc.signal.restype = ctypes.c_void_p
libc.signal(int(signal.SIGBUS), handler)
import mpsx
lib = mpsx.compile_shader("kernel void trap(device float* x) { __builtin_trap(); }")
for _ in range(3):
    try:
        lib.trap(torch.ones(2, device="mpsx"))
    except RuntimeError:
        seen.append("kernel")
    os.kill(os.getpid(), signal.SIGABRT)
    os.kill(os.getpid(), signal.SIGBUS)
assert seen.count("kernel") == 3 and seen.count(signal.SIGABRT) == 3 and seen.count(signal.SIGBUS) == 3, seen
"""
    done = run_in_subprocess(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr


def test_signal_sent_to_a_thread_that_runs_a_kernel() -> None:
    """A signal sent by another thread is not the kernel's fault. It terminates the process, and the message names the
    running kernel."""
    code = """
import os, signal, threading, time, mpsx
lib = mpsx.compile_shader('''
kernel void forever(device volatile int* x, uint i [[thread_position_in_grid]]) { while (x[0] == 0) {} }''')
x = torch.zeros(1, dtype=torch.int32, device="mpsx")
main = threading.main_thread().ident
def send():
    time.sleep(0.5)
    signal.pthread_kill(main, signal.SIGSEGV)
threading.Thread(target=send, daemon=True).start()
lib.forever(x)
"""
    done = run_in_subprocess(code)
    assert done.returncode == -signal.SIGSEGV
    assert "mpsx: fatal signal while running kernel forever" in done.stderr


def test_access_beyond_the_end_of_a_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(1 << 16))
    tensor = mpsx.device_view(torch.from_file(str(path), shared=True, size=1 << 14))
    os.truncate(path, 0)
    lib = mpsx.compile_shader(f"kernel void faulty(device float* x, {INDEX}) {{ x[i] += 1; }}")
    with pytest.raises(RuntimeError, match=r"faulty: .*(SIGBUS|address)"):
        lib.faulty(tensor)
