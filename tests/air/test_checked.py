"""The simt driver also checks kernels from metallibs."""

import os
import subprocess
import sys

import pytest
from air_modules import metallib, text_of

SCRIPT = """
import sys, torch, mpsx
from mpsx.shader import kernel_library
kernel_library.shaders_only = True
plain, racy = (mpsx.load_metallib(path) for path in sys.argv[1:])
out, x = torch.zeros(4).to("mpsx"), torch.arange(1000.0).to("mpsx")
half = torch.arange(1000).bfloat16().to("mpsx")

def run(name, launch):
    try:
        launch()
        torch.accelerator.synchronize()
        print(f"{name}: {out.cpu().tolist()}")
    except RuntimeError as error:
        print(f"{name}: {' '.join(str(error).split())}")

def reduce(library):
    return lambda: library.reduce(out, x, threads=1000, group_size=250, threadgroup_memory=16)

run("result", reduce(plain))
run("race", reduce(racy))
run("bounds", lambda: plain.axpy(out, half, 2.0, threads=1000))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Run correct and faulty launches in a process that uses the simt driver. Return each launch's outcome by name."""
    folder = tmp_path_factory.mktemp("checked")
    racy = text_of("reduce").replace("@air.wg.barrier(i32 2,", "@air.wg.barrier(i32 0,")
    (folder / "plain.metallib").write_bytes(metallib(text_of("reduce"), text_of("axpy")))
    (folder / "racy.metallib").write_bytes(metallib(racy))
    command = [sys.executable, "-c", SCRIPT, str(folder / "plain.metallib"), str(folder / "racy.metallib")]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=os.environ | {"MPSX_DRIVER": "simt"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def test_result(outcomes):
    assert outcomes["result"] == "[31125.0, 93625.0, 156125.0, 218625.0]"


def test_missing_barrier(outcomes):
    """A barrier without mem_flags::mem_threadgroup does not order accesses to threadgroup memory."""
    assert "reduce" in outcomes["race"]
    assert "race" in outcomes["race"]


def test_bounds(outcomes):
    assert "axpy" in outcomes["bounds"]
    assert "out-of-bounds read of 4 bytes" in outcomes["bounds"]
