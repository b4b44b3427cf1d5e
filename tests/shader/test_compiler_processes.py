"""Shader compilers stop when the process that started them exits, or after MPSX_SHADER_TIMEOUT seconds."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from processes import is_running

import mpsx
from mpsx.msl import processes
from mpsx.msl.compiler import find_compiler

SOURCE = "kernel void {name}(device float* x, uint i [[thread_position_in_grid]]) {{ x[i] *= 2; }}"
# A fake compiler that hangs if `{}` is among its arguments. Like zig, it starts a child process. It writes the IDs of
# both processes to $MARK.
ENDLESS = """#!/bin/sh
case " $* " in *" {} "*) sleep 600 & echo $! $$ >"$MARK.new"; mv "$MARK.new" "$MARK"; wait ;; esac
exec {} "$@"
"""
STEPS = {"version": "--version", "preprocessor": "-E", "address spaces": "-ffreestanding", "library": "c++-header",
         "kernels": "-c"}  # fmt: skip


def wait_until(condition: object, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


@pytest.fixture
def hanging_compiler(tmp_path, monkeypatch):
    """Return a function that installs a compiler that hangs in a given step, and returns the environment variables."""

    def make(step: str) -> dict[str, str]:
        compiler = tmp_path / "clang++"
        compiler.write_text(ENDLESS.format(step, shlex.join(find_compiler().clang)))
        compiler.chmod(0o700)
        for name, value in {"MARK": tmp_path / "mark", "MPSX_CACHE_DIR": tmp_path / "cache",
                            "MPSX_KERNEL_CXX": shlex.quote(str(compiler))}.items():  # fmt: skip
            monkeypatch.setenv(name, str(value))
        return dict(os.environ)

    yield make
    mark = tmp_path / "mark"
    for pid in map(int, mark.read_text().split() if mark.exists() else ()):
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks up processes in /proc")
needs_clang = pytest.mark.skipif(mpsx.driver()["name"] in ("cuda", "metal"), reason="this driver has its own compiler")


@needs_proc
@needs_clang
@pytest.mark.parametrize("how", ["kill", "exit in a thread", pytest.param("group", marks=pytest.mark.sweep)])
def test_compilers_exit_with_a_killed_caller(tmp_path, hanging_compiler, how) -> None:
    code = f"import torch, mpsx; mpsx.compile_shader({SOURCE.format(name='f')!r})"
    if how == "exit in a thread":  # exit the main thread while another thread runs the compiler
        code = ("import threading, time, os, torch, mpsx\n"
                f"work = lambda: mpsx.compile_shader({SOURCE.format(name='f')!r})\n"
                "threading.Thread(target=work, daemon=True).start()\n"
                "while not os.path.exists(os.environ['MARK']): time.sleep(0.02)\n"
                "os._exit(0)\n")  # fmt: skip
    program = subprocess.Popen([sys.executable, "-c", code], env=hanging_compiler("-E"), start_new_session=True)
    mark = tmp_path / "mark"
    assert wait_until(mark.exists)
    compilers = list(map(int, mark.read_text().split()))
    if how == "kill":
        assert all(map(is_running, compilers))
        program.kill()
    elif how == "group":
        os.killpg(program.pid, signal.SIGKILL)
    program.wait(timeout=60)
    assert wait_until(lambda: not any(map(is_running, compilers)), 20)


@needs_proc
@needs_clang
@pytest.mark.parametrize("step", [pytest.param(step, marks=[] if step in ("version", "kernels") else
                                               pytest.mark.sweep) for step in STEPS])  # fmt: skip
def test_timeout_error_names_kernel_and_file(tmp_path, monkeypatch, hanging_compiler, step) -> None:
    hanging_compiler(STEPS[step])
    monkeypatch.setenv("MPSX_SHADER_TIMEOUT", "1.5")
    with pytest.raises(RuntimeError, match=r"compile_shader: program_source, kernels slow: the compiler was stopped "
                                           r"after 1.5 seconds, the limit of MPSX_SHADER_TIMEOUT"):  # fmt: skip
        mpsx.compile_shader(SOURCE.format(name="slow"))
    compilers = list(map(int, (tmp_path / "mark").read_text().split()))
    assert wait_until(lambda: not any(map(is_running, compilers)), 10)
    assert not list((tmp_path / "cache").glob("tmp-*"))


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_invalid_timeout_raises(tmp_path, monkeypatch, text) -> None:
    monkeypatch.setenv("MPSX_SHADER_TIMEOUT", text)
    with pytest.raises(ValueError, match=f"MPSX_SHADER_TIMEOUT: expected a number of seconds, got '{text}'"):
        processes.time_limit()


@pytest.mark.parametrize(("text", "seconds"), [("", 120), ("0", None), ("inf", None), ("2.5", 2.5)])
def test_timeout_values(monkeypatch, text, seconds) -> None:
    monkeypatch.setenv("MPSX_SHADER_TIMEOUT", text)
    assert processes.time_limit() == seconds


def test_compiler_input_and_output() -> None:
    assert processes.run(["sh", "-c", "cat; echo to stderr >&2; exit 3"], "text\n") == (3, "text\n", "to stderr\n")
    many = "x" * (1 << 20)
    assert processes.run(["sh", "-c", "cat; echo go >&2"], many)[1] == many
    with pytest.raises(FileNotFoundError, match="no such program"):
        processes.run(["no such program"])


@needs_proc
def test_killed_reaper_is_replaced() -> None:
    processes.run(["true"])
    first = processes._reaper.process
    first.kill()
    first.wait()
    for _ in range(3):
        assert processes.run(["echo", "on"])[1] == "on\n"
    assert processes._reaper.process is not first


@needs_proc
def test_concurrent_processes_leave_none_behind() -> None:
    def work() -> None:
        for _ in range(5):
            assert processes.run(["sh", "-c", "cat"], "x")[1] == "x"

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(processes.TimeLimitError):
        processes.run(["sh", "-c", "sleep 600 & sleep 600"], seconds=0.2)


@needs_proc
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_fork_has_its_own_reaper(tmp_path) -> None:
    """When a forked process exits, its own compilers stop, but those of its parent keep running."""
    running = processes.Process(["sleep", "600"])
    pid = os.fork()
    if pid == 0:
        inner = processes.Process(["sleep", "600"])
        (tmp_path / "pid").write_text(str(inner.pid))
        os._exit(0)
    os.waitpid(pid, 0)
    inner = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not is_running(inner), 20)
    assert is_running(running.pid)
    running.end()
    assert not is_running(running.pid)
