"""Run other tests of the package on emulated Metal. The default run uses a sample, and the sweep uses all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import HERE, ROOT, emulated_metal

import mpsx

TESTS = ROOT / "tests"
# A sample of each kind: launches of every shape, memory accesses by the CPU, streams, fallbacks, and users' shaders.
SAMPLE = ["device/test_streams.py", "ops/test_traps.py", "ops/index/test_cat.py", "shader/test_shader.py",
          "shader/test_shader_constants.py"]  # fmt: skip
# Operators that run in kernels, in vendor libraries, and as fallbacks.
OPINFO = "add where index_put nn.functional.layer_norm matmul nn.functional.conv2d linalg.solve fft.rfft".split()
PARTS = 12  # number of processes among which the sweep splits the OpInfos
# These tests need a driver that caches memory. In all other tests, every tensor has its own buffer, because the
# emulation tracks ownership per buffer.
CACHING = ["device/test_memory.py"]
# Tests that only start other processes or compilers, or that need too much memory for the emulated GPU.
ELSEWHERE = {"ops/test_large.py", "ops/test_vendor_off.py", "shader/test_shader_cache.py", "cli/test_demo.py", *CACHING}
FOLDERS = ["cli", "device", "inductor", "models", "ops", "shader"]
FILES = sorted({p.relative_to(TESTS).as_posix() for folder in FOLDERS for p in TESTS.glob(f"{folder}/**/test_*.py")}
               - ELSEWHERE)  # fmt: skip


@pytest.fixture(scope="module")
def environment(toolchain: None) -> dict[str, str]:
    try:
        return emulated_metal.environment(Path(mpsx.__file__).parent)
    except emulated_metal.Unavailable as e:
        pytest.skip(str(e))


def run(environment: dict[str, str], *arguments: str | Path, timeout: float = 600) -> str:
    """Run pytest in a separate process, and return its output."""
    own = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    own["PYTHONPATH"] = os.pathsep.join([own["PYTHONPATH"], str(HERE)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "leak_check"]
    command += ["-o", "addopts=", "-m", "not sweep"]
    done = subprocess.run([*command, *map(str, arguments)], env=own, cwd=ROOT, capture_output=True, text=True,
                          timeout=timeout, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-4000:]
    return done.stdout


def test_sample(environment: dict[str, str]) -> None:
    out = run(environment, *(TESTS / name for name in SAMPLE))
    assert "passed" in out


def test_opinfo_sample(environment: dict[str, str]) -> None:
    names = [f"test_{kind}[{op}]" for op in OPINFO for kind in ("forward", "backward")]
    out = run(environment, *(f"{TESTS / 'opinfo' / 'test_opinfo.py'}::{name}" for name in names))
    assert f"{len(names)} passed" in out


@pytest.mark.sweep
@pytest.mark.parametrize("file", FILES)
def test_file(environment: dict[str, str], file: str) -> None:
    run(environment, TESTS / file, timeout=3600)


@pytest.mark.sweep
@pytest.mark.parametrize("file", CACHING)
def test_file_with_cached_memory(environment: dict[str, str], file: str) -> None:
    run(environment | {"MPSX_METAL_EXACT_BUFFERS": "0", "MPSX_EMULATION_GUARD": "0"}, TESTS / file, timeout=3600)


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_every_opinfo(environment: dict[str, str], part: int) -> None:
    """Run about 200 tests in each process. No process may leak objects."""
    run(environment | {"MPSX_TEST_PART": f"{part}/{PARTS}"}, "-p", "part", TESTS / "opinfo", timeout=3600)


@pytest.mark.sweep
@pytest.mark.parametrize("model", ["resnet", "gpt"])
def test_demo(environment: dict[str, str], model: str, tmp_path: Path) -> None:
    # Use only a few steps. The emulated GPU is slow, because it multiplies matrices element by element and checks every
    # access.
    arguments = ["--model", model, "--steps", "3", "--output", str(tmp_path / "demo.png")]
    done = subprocess.run([sys.executable, "-m", "mpsx", "demo", *arguments], env=environment, cwd=tmp_path, text=True,
                          capture_output=True, timeout=1800, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "driver metal" in done.stdout
