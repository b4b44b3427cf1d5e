"""Run the driver and the emulation with clang's ThreadSanitizer and UndefinedBehaviorSanitizer.

Runs the driver's test program and some of the package's tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import harness
import pytest
from harness import HERE, ROOT, emulated_metal, run_cases

import mpsx

# Sanitizer builds recompile everything and run ten times slower. They need clang's runtimes (libclang-rt-19-dev), which
# .ci/run installs for sweeps.
pytestmark = pytest.mark.sweep

FLAGS = {
    "thread": ("-fsanitize=thread",),
    # The function type check would reject messages to nil, and the types of GNU's runtime.
    "undefined": ("-fsanitize=undefined", "-fno-sanitize=function", "-fno-sanitize-recover=all"),
}
# Tests that exercise the driver: launches, waits, events, threads, memory and shaders.
PACKAGE = ["device/test_streams.py", "device/test_device.py", "ops/test_traps.py", "ops/index/test_cat.py",
           "shader/test_shader.py"]  # fmt: skip
OPTIONS = {"TSAN_OPTIONS": "halt_on_error=1:report_signal_unsafe=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
RACE = """#include <thread>
int main() {
  int count = 0;
  std::thread other([&] { ++count; });
  ++count;
  other.join();
  return count != 2;
}
"""


# Several threads launch kernels, wait, and record events. They end just before the process exits.
STORM = """
import threading, torch, mpsx
def work(seed):
    x = torch.full((100,), float(seed), device="mpsx")
    event = torch.mpsx.Event(enable_timing=True)
    for step in range(60):
        y = (x * 2 + step).cumsum(0)
        event.record()
        event.query()
        if step % 7 == seed:
            assert y[:2].tolist() == [2.0 * seed + step, 2 * (2.0 * seed + step)]
        if step % 11 == seed:
            event.synchronize()
            torch.mpsx.synchronize()
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


SUPPRESSIONS = HERE / "thread_suppressions.txt"


def run_package(environment: dict[str, str], folder: Path, *arguments: str | Path,
                suppressions: Path = SUPPRESSIONS) -> str:  # fmt: skip
    """Run Python under a sanitizer. Return the sanitizer's report, or the end of the output if the program fails."""
    log = folder / "report"
    own = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    own["PYTHONPATH"] = os.pathsep.join([own["PYTHONPATH"], str(HERE)])
    own["TSAN_OPTIONS"] = f"{OPTIONS['TSAN_OPTIONS']}:log_path={log}:suppressions={suppressions}"
    own["UBSAN_OPTIONS"] = f"{OPTIONS['UBSAN_OPTIONS']}:log_path={log}"
    done = subprocess.run([sys.executable, *map(str, arguments)], env=own, cwd=ROOT, capture_output=True, text=True,
                          timeout=3600, check=False)  # fmt: skip
    said = "".join(path.read_text() for path in sorted(folder.glob("report.*")))
    return said if said or not done.returncode else done.stdout[-4000:] + done.stderr[-4000:]


PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "leak_check", "-o", "addopts=", "-m", "not sweep"]


@pytest.mark.parametrize("kind", FLAGS)
def test_package(kind: str, tmp_path: Path, toolchain: None) -> None:
    """Instrument the driver and the emulation, but not libmpsx.so.

    libmpsx.so shares reference-counted objects with torch. torch is not instrumented, so ThreadSanitizer would not see
    torch's part of the synchronization.
    """
    environment = emulated_metal.sanitized_environment(Path(mpsx.__file__).parent, kind, FLAGS[kind])
    assert run_package(environment, tmp_path, *PYTEST, *(ROOT / "tests" / name for name in PACKAGE)) == ""
    assert run_package(environment, tmp_path, "-c", STORM) == ""


# One thread constructs the allocator, and then another one uses it. The helper library is not instrumented, so
# ThreadSanitizer sees no synchronization between the threads, as if they had met in a static object's guard.
FIRST_USE = """#include <atomic>
#include <cstdint>
#include <thread>
extern "C" void run(const char* (*memory_limit)(uint64_t*)) {
  std::atomic<bool> constructed = false;
  uint64_t limits[2];
  std::thread second([&] { while (!constructed) {} memory_limit(&limits[1]); });
  std::thread first([&] { memory_limit(&limits[0]); constructed = true; });
  first.join();
  second.join();
}
"""
CALL_FIRST_USE = """
import ctypes, pathlib, torch, mpsx
torch.mpsx.get_device_properties(0)  # starts the driver without the allocator
library = next(pathlib.Path(mpsx.__file__).parent.rglob("libmpsx.so"))
ctypes.CDLL("{helper}").run(ctypes.CDLL(str(library)).mpsx_memory_limit)
"""


def test_first_use_of_the_allocator_is_no_race(tmp_path: Path, toolchain: None) -> None:
    """ThreadSanitizer reports the allocator's construction in libmpsx.so as a race unless it is suppressed."""
    environment = emulated_metal.sanitized_environment(Path(mpsx.__file__).parent, "thread", FLAGS["thread"])
    source, helper, without = tmp_path / "first_use.cpp", tmp_path / "first_use.so", tmp_path / "suppressions"
    source.write_text(FIRST_USE)
    emulated_metal.run(emulated_metal.toolchain()[0], "-O1", "-fPIC", "-shared", str(source), "-o", str(helper))
    without.write_text(SUPPRESSIONS.read_text().replace("called_from_lib:libmpsx.so", ""))
    code = CALL_FIRST_USE.format(helper=helper)
    assert run_package(environment, tmp_path, "-c", code) == ""
    said = run_package(environment, tmp_path, "-c", code, suppressions=without)
    assert "data race" in said, said
    assert "malloc" in said, said  # the write that precedes the lock of the mutex


# Tests that cover all code paths of launchers, memory and fallback: conversions, indices, strides, tensor lists and
# storages.
WHOLE = ["device/test_serialization.py", "device/test_streams.py", "ops/test_traps.py", "ops/elementwise/test_copy.py",
         "ops/index/test_cat.py", "ops/index/test_index.py", "ops/index/test_scatter.py", "ops/optim/test_foreach.py",
         "ops/reduce/test_reduce.py", "ops/resample/test_resample.py"]  # fmt: skip


def test_whole_package(tmp_path: Path, toolchain: None) -> None:
    """Also build libmpsx.so with UndefinedBehaviorSanitizer, which takes ten minutes."""
    environment = emulated_metal.sanitized_environment(
        Path(mpsx.__file__).parent, "undefined", FLAGS["undefined"], whole=True
    )
    assert run_package(environment, tmp_path, *PYTEST, *(ROOT / "tests" / name for name in WHOLE)) == ""


# Each value is (file of the driver, original line, replacement, part of the expected sanitizer report).
PLANTED = {
    "thread": ("command_stream.mm", "  std::lock_guard<std::mutex> lock(mutex_);\n  if (!kernel.tensors.empty())",
               "  if (!kernel.tensors.empty())", "data race"),
    "undefined": ("command_stream.mm", "  if (kernels % kFirstBatch) return false;",
                  "  if (int(kernels) * (1 << 30) % int(kFirstBatch)) return false;", "runtime error"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLANTED)
def test_planted_bug_is_found(kind: str, tmp_path: Path, toolchain: None) -> None:
    file, old, new, report = PLANTED[kind]
    copy = tmp_path / "driver" / "metal"
    shutil.copytree(emulated_metal.DRIVER, copy)
    text = (copy / file).read_text()
    assert text.count(old) == 1, "the driver has changed: update this line"
    (copy / file).write_text(text.replace(old, new))
    environment = emulated_metal.sanitized_environment(Path(mpsx.__file__).parent, kind, FLAGS[kind], copy)
    for _ in range(60):  # in most runs, no two threads launch at the same time
        said = run_package(environment, tmp_path, "-c", STORM)
        if said:
            break
    assert report in said, said
    assert "CommandStream" in said, said


@pytest.mark.parametrize("kind", FLAGS)
def test_driver(kind: str, kernels: Path, toolchain: None) -> None:
    """Run every case of the test program, including the multithreaded one."""
    program = harness.build_program(flags=FLAGS[kind])
    done = run_cases(program, kernels, timeout=900, environment=OPTIONS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]


def test_sanitizer_finds_a_race(tmp_path: Path, toolchain: None) -> None:
    """Check that ThreadSanitizer works on this machine."""
    source, program = tmp_path / "race.cpp", tmp_path / "race"
    source.write_text(RACE)
    compiler, _, _ = emulated_metal.toolchain()
    emulated_metal.run(compiler, "-g", "-fsanitize=thread", str(source), "-o", str(program))
    with pytest.raises(RuntimeError, match="data race"):
        emulated_metal.run(str(program))
