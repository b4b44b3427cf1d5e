"""Build the Metal driver's test program and its kernels, and run the program."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tools" / "build"))

import emulated_metal  # noqa: E402

# The command that the emulation runs as Metal's compiler.
COMPILER = f"{sys.executable} {ROOT / 'tools' / 'build' / 'emulated_metal_compiler.py'}"
KERNELS = "add advance fill positions row_sum scale"
SECOND = """#include <metal_stdlib>
using namespace metal;
kernel void twice(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] *= 2; }
"""
BROKEN = "#include <metal_stdlib>\nkernel void broken(device float* out [[buffer(0)]]) { out[0] = undeclared_name; }\n"


def make_kernels() -> Path:
    """Create a folder that contains the test kernels as mpsx.metallib and as sources/mpsx.metal."""
    folder = emulated_metal.OUTPUT / "test-kernels"
    emulated_metal.kernel_library(HERE / "kernels.metal", folder / "mpsx.metallib")
    sources = folder / "sources"
    sources.mkdir(exist_ok=True)
    (sources / "mpsx.metal").write_text(
        f"//mpsx:unit kernels.metal\n//mpsx:kernels {KERNELS}\n{(HERE / 'kernels.metal').read_text()}"
        f"//mpsx:unit second.metal\n//mpsx:kernels twice\n{SECOND}"
        f"//mpsx:unit broken.metal\n//mpsx:kernels broken\n{BROKEN}"
    )
    return folder


def build_program(driver: Path = emulated_metal.DRIVER, flags: tuple[str, ...] = ()) -> Path:
    """Build the test program with the driver or a modified copy of it."""
    return emulated_metal.build_program([HERE / "driver_test.cpp", *sorted(HERE.glob("cases_*.cpp"))], driver, flags)


def run_cases(program: Path, kernels: Path, *cases: str, timeout: float = 240,
              environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run the given cases of the test program, or all cases."""
    with tempfile.TemporaryDirectory() as cache:
        return subprocess.run(
            [program, kernels, *cases],
            env=dict(os.environ, MPSX_EMULATION_COMPILER=COMPILER, MPSX_CACHE_DIR=cache, **(environment or {})),
            capture_output=True, text=True, timeout=timeout, check=False)  # fmt: skip


# Prepended to code that runs in a separate process and uses the package.
PRELUDE = """
import ctypes, gc, pickle, torch, mpsx
emulation = ctypes.CDLL(None)
emulation.mpsx_emulation_waits.restype = emulation.mpsx_emulation_command_buffers.restype = ctypes.c_ulong
emulation.mpsx_emulation_live.restype = ctypes.c_long
mpsx.fallback.set_mode("silent")

def waits(function):
    "How often the CPU waited for the GPU, which is busy for a while."
    emulation.mpsx_emulation_delay(0)
    torch.mpsx.synchronize()
    emulation.mpsx_emulation_delay(20000)
    a = torch.ones(64, device="mpsx")
    before = emulation.mpsx_emulation_waits()
    result = function(a + a)
    count = emulation.mpsx_emulation_waits() - before
    emulation.mpsx_emulation_delay(0)
    torch.mpsx.synchronize()
    return count, result


def train(device):
    "The losses of five steps of a small model."
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16),
                                torch.nn.Linear(16, 4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randn(32, 8).to(device), torch.randint(0, 4, (32,)).to(device)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
"""
