"""Run programs written for PyTorch's `mps` device with `python -m mpsx run` and `mpsx.as_mps`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from processes import run_in_subprocess

import mpsx

PROGRAM = """
import sys, torch, torch.mps
assert torch.backends.mps.is_available() and torch.backends.mps.is_built()
x = torch.ones(1, device="mps")
print(x)
print(x.device, x.is_mps, sys.argv[1:])
model = torch.nn.Linear(4, 2).to("mps")
with torch.autocast("mps", dtype=torch.bfloat16):
    y = model(torch.randn(3, 4, device=torch.device("mps")))
print(y.dtype, y.device.type)
torch.mps.synchronize()
assert torch.mps.current_allocated_memory() > 0
torch.mps.manual_seed(1)
a = torch.rand(3, device="mps")
torch.mps.manual_seed(1)
assert torch.equal(a, torch.rand(3, device="mps:0"))
g = torch.Generator(device="mps").manual_seed(2)
torch.randn(2, device="mps", generator=g)
lib = torch.mps.compile_shader("kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }")
z = torch.arange(4.0, device="mps")
lib.twice(z)
print(z.tolist())
assert torch.accelerator.current_accelerator().type == "mps"
torch.save({"z": z}, sys.argv[1])
assert torch.load(sys.argv[1], map_location="mps")["z"].device.type == "mps"
assert torch.load(sys.argv[1], map_location="cpu")["z"].device.type == "cpu"
start = torch.mps.Event(enable_timing=True)
start.record()
with torch.mps.profiler.profile():
    z.exp()
from torch.mps.event import Event
from torch.mps.profiler import profile
Event(enable_timing=True).record()
with profile(mode="interval", wait_until_completed=True):
    z.exp()
torch.mps.empty_cache()
torch.set_default_device("mps")
assert torch.zeros(2).device.type == "mps"
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mpsx", "run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env=os.environ | {"MPSX_FALLBACK": "silent"})  # fmt: skip


def test_run(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    result = run(str(script), str(tmp_path / "z.pt"), "--flag")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "tensor([1.], device='mps:0')",
        f"mps:0 True ['{tmp_path}/z.pt', '--flag']",
        "torch.bfloat16 mps",
        "[0.0, 2.0, 4.0, 6.0]",
    ]
    read = run_in_subprocess(f"print(torch.load({str(tmp_path / 'z.pt')!r}, map_location='mpsx')['z'].device)")
    assert read.stdout == "mpsx:0\n", read.stderr


def test_spawned_processes(tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text(
        "import torch, torch.multiprocessing as mp\n"
        "def work(i): print(torch.full((1,), float(i), device='mps'))\n"
        "if __name__ == '__main__':\n    torch.ones(1, device='mps'); mp.spawn(work, nprocs=1)\n"
    )
    result = run(str(tmp_path / "many.py"))
    assert result.stdout == "tensor([0.], device='mps:0')\n", result.stderr


def test_run_module_and_missing_arguments() -> None:
    assert "usage" in run().stderr
    assert run("-m", "timeit", "-n", "1", "-r", "1", "import torch; torch.ones(1, device='mps')").returncode == 0


def test_context_manager() -> None:
    before = torch.arange(3.0, device="mpsx")
    seen = []
    with mpsx.as_mps():
        assert before.device.type == "mps" and before.is_mpsx and before.is_mps
        made = torch.ones(3, device="mps")
        assert (before + made).device == torch.device("mps", 0) == torch.device("mpsx", 0)
        thread = threading.Thread(target=lambda: seen.append(str(torch.ones(1, device="mps"))))
        thread.start()
        thread.join()
        with mpsx.as_mps():
            pass
        assert torch.device("mps").type == "mps" and torch.mpsx.is_mps()
        torch.manual_seed(3)
        first = torch.rand(2, device="mps")
        state = torch.mps.get_rng_state()
        torch.manual_seed(3)
        assert torch.equal(torch.rand(2, device="mps"), first)
        torch.mps.set_rng_state(state)
    assert seen == ["tensor([1.], device='mps:0')"]
    assert str(made) == "tensor([1., 1., 1.], device='mpsx:0')"
    assert not torch.mpsx.is_mps() and not torch.Tensor.is_mps.__get__(made)
    assert not torch.backends.mps.is_available()
    if not torch.backends.mps.is_built():
        with pytest.raises(RuntimeError, match=r"(?i)mps"):
            torch.ones(1, device="mps")
