"""The driver and the emulation under clang's sanitizers: races between threads, undefined behaviour."""

from __future__ import annotations

from pathlib import Path

import harness
import pytest
from harness import emulated_metal, run_cases

# Everything is compiled once more for each sanitizer, and runs at a tenth of the speed; and clang's runtimes
# (libclang-rt-19-dev) are one more package, which .ci/run installs for sweeps.
pytestmark = pytest.mark.sweep

FLAGS = {
    "thread": ("-fsanitize=thread",),
    # Messages to nil are calls through null pointers for the check of functions' types, and GNU's runtime has its own.
    "undefined": ("-fsanitize=undefined", "-fno-sanitize=function", "-fno-sanitize-recover=all"),
}
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
