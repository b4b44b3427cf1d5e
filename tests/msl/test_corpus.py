"""Run kernels in the style of published ones (corpus/*.metal) with mpsx.compile_shader, and compare with numpy.

The tests run on the current driver and on simt, which checks every memory access.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from run_corpus import failures  # noqa: E402

FILES = sorted(path.stem for path in (HERE / "corpus").glob("*.metal"))


def check(failed: dict[str, str]) -> None:
    assert not failed, "\n\n".join(f"{case}: {text}" for case, text in failed.items())


@pytest.mark.parametrize("file", FILES)
def test_kernels(file: str) -> None:
    check(failures(file))


def in_process(files: list[str], **environment: str) -> None:
    """Run the cases of the given corpus files in a separate process."""
    run = subprocess.run(
        [sys.executable, str(HERE / "run_corpus.py"), *files], env=os.environ | environment,
        capture_output=True, text=True, check=False, timeout=600)  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    check(json.loads(run.stdout.splitlines()[-1]))


def test_kernels_with_checks(simt_library: Path) -> None:
    in_process(FILES, MPSX_DRIVER="simt")


@pytest.mark.sweep
@pytest.mark.parametrize("driver", ["host", "simt"])
@pytest.mark.parametrize("compiler", ["g++", "clang++", "clang++-19"])
def test_other_compilers(simt_library: Path, compiler: str, driver: str) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    # g++ does not support half members of anonymous structs.
    files = [f for f in FILES if compiler != "g++" or f != "models"]
    in_process(files, MPSX_DRIVER=driver, MPSX_KERNEL_CXX=compiler)


def test_logging(capfd: pytest.CaptureFixture) -> None:
    """Log messages go to stderr, one per line, with printf formatting (MSL specification 3.2, section 6.19)."""
    import torch

    import mpsx

    lib = mpsx.compile_shader("""
        #include <metal_logging>
        #include <metal_stdlib>
        using namespace metal;
        constant os_log logger("subsystem", "category");
        kernel void talk(device float* x, uint i [[thread_position_in_grid]]) {
          os_log_default.log("thread %u of %lu%%: %5.2f", i, 12345678901ul, x[i]);
          if (i != 0) return;
          logger.log_error("%v4f %v2hlx %c %s %hhd", float4(1, 2, 3, 4), uint2(255, -1), 'a', "text", 300);
          logger.log_with_type(OS_LOG_TYPE_DEBUG, "no arguments");
          metal::os_log_default.log_info("%v3d %#x %g %g %d", int3(-1, 2, 3), short(7), 0.5h, 1.5bf);
          x[0] = 2;
        }""")
    x = torch.tensor([1.5, 2.5]).to("mpsx")
    lib.talk(x)
    assert x.tolist() == [2, 2.5]
    assert sorted(capfd.readouterr().err.splitlines()) == sorted([
        "thread 0 of 12345678901%:  1.50", "thread 1 of 12345678901%:  2.50",
        "subsystem:category: error: 1.000000,2.000000,3.000000,4.000000 ff,ffffffff a text 44",
        "subsystem:category: debug: no arguments", "info: -1,2,3 0x7 0.5 1.5 <missing>"])  # fmt: skip
