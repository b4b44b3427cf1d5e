"""The driver and the emulation under clang's sanitizers: races between threads, undefined behaviour. In its own test
program, and in the package, whose tests run on it."""

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

# Everything is compiled once more for each sanitizer, and runs at a tenth of the speed; and clang's runtimes
# (libclang-rt-19-dev) are one more package, which .ci/run installs for sweeps.
pytestmark = pytest.mark.sweep

FLAGS = {
    "thread": ("-fsanitize=thread",),
    # Messages to nil are calls through null pointers for the check of functions' types, and GNU's runtime has its own.
    "undefined": ("-fsanitize=undefined", "-fno-sanitize=function", "-fno-sanitize-recover=all"),
}
# Tests of the package whose every step is the driver's: launches, waits, events, threads, memory, shaders.
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


# Launches, waits and events of several threads at once, which end at the same moment as the process.
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


def run_package(environment: dict[str, str], folder: Path, *words: str | Path) -> str:
    """Runs Python under a sanitizer; what that reports, with the end of what the program prints where it fails."""
    log, suppressions = folder / "report", HERE / "thread_suppressions.txt"
    own = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    own["PYTHONPATH"] = os.pathsep.join([own["PYTHONPATH"], str(HERE)])
    own["TSAN_OPTIONS"] = f"{OPTIONS['TSAN_OPTIONS']}:log_path={log}:suppressions={suppressions}"
    own["UBSAN_OPTIONS"] = f"{OPTIONS['UBSAN_OPTIONS']}:log_path={log}"
    done = subprocess.run([sys.executable, *map(str, words)], env=own, cwd=ROOT, capture_output=True, text=True,
                          timeout=3600, check=False)  # fmt: skip
    said = "".join(path.read_text() for path in sorted(folder.glob("report.*")))
    return said if said or not done.returncode else done.stdout[-4000:] + done.stderr[-4000:]


PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "leak_check", "-o", "addopts=", "-m", "not sweep"]


@pytest.mark.parametrize("kind", FLAGS)
def test_package(kind: str, tmp_path: Path, toolchain: None) -> None:
    """The driver and the emulation under it, the rest of the package over them. Not libmpsx.so: it shares counted
    objects with torch, which is not compiled for the sanitizer of threads, and of which that sees one side alone."""
    environment = emulated_metal.sanitized_environment(Path(mpsx.__file__).parent, kind, FLAGS[kind])
    assert run_package(environment, tmp_path, *PYTEST, *(ROOT / "tests" / name for name in PACKAGE)) == ""
    assert run_package(environment, tmp_path, "-c", STORM) == ""


# Of every way through launchers, memory and fallback: numbers that become others, indices, strides, lists, storages.
WHOLE = ["streams", "traps", "cat", "copy", "index", "scatter", "reduce", "foreach", "resample", "serialization"]


def test_whole_package(tmp_path: Path, toolchain: None) -> None:
    """libmpsx.so too, under the sanitizer of undefined behaviour. Ten minutes of compiling."""
    environment = emulated_metal.sanitized_environment(
        Path(mpsx.__file__).parent, "undefined", FLAGS["undefined"], whole=True
    )
    assert run_package(environment, tmp_path, *PYTEST, *(ROOT / "tests" / f"test_{name}.py" for name in WHOLE)) == ""


# A line of the driver, what it becomes, and the report.
PLANTED = {
    "thread": ("command_stream.mm", "  std::lock_guard<std::mutex> lock(mutex_);\n  id<MTLComputeCommandEncoder> to",
               "  id<MTLComputeCommandEncoder> to", "data race"),
    "undefined": ("command_stream.mm", "  if (kernels % kFirstBatch) return false;",
                  "  if (int(kernels) * (1 << 30) % int(kFirstBatch)) return false;", "runtime error"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLANTED)
def test_what_is_planted_in_the_package_is_found(kind: str, tmp_path: Path, toolchain: None) -> None:
    file, old, new, report = PLANTED[kind]
    copy = tmp_path / "driver" / "metal"
    shutil.copytree(emulated_metal.DRIVER, copy)
    text = (copy / file).read_text()
    assert text.count(old) == 1, "the driver changed: bring the line up to date"
    (copy / file).write_text(text.replace(old, new))
    environment = emulated_metal.sanitized_environment(Path(mpsx.__file__).parent, kind, FLAGS[kind], copy)
    said = run_package(environment, tmp_path, "-c", STORM)
    assert report in said, said
    assert "CommandStream" in said, said


@pytest.mark.parametrize("kind", FLAGS)
def test_driver(kind: str, kernels: Path, toolchain: None) -> None:
    """Every case, the one with many threads included."""
    program = harness.build_program(flags=FLAGS[kind])
    done = run_cases(program, kernels, timeout=900, environment=OPTIONS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]


def test_races_are_found(tmp_path: Path, toolchain: None) -> None:
    """The sanitizer works here: it finds a race that is there."""
    source, program = tmp_path / "race.cpp", tmp_path / "race"
    source.write_text(RACE)
    compiler, _, _ = emulated_metal.toolchain()
    emulated_metal.run(compiler, "-g", "-fsanitize=thread", str(source), "-o", str(program))
    with pytest.raises(RuntimeError, match="data race"):
        emulated_metal.run(str(program))
