"""Exchange tensors with a stand-in for PyTorch's mps device. The stand-in uses the memory of emulated Metal."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from harness import HERE, emulated_metal

import mpsx

pytestmark = pytest.mark.sweep  # compiles C++ code that includes torch's headers

PRELUDE = """
import ctypes, gc, sys, torch, mpsx
torch.ops.load_library(sys.argv[1])
emulation = ctypes.CDLL(None)
emulation.mpsx_emulation_live.restype = ctypes.c_long
mps = torch.ops.mps_stand_in
x = torch.arange(12.).reshape(3, 4)
"""


@pytest.fixture(scope="module")
def run(toolchain: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], None]:
    """Return a function that runs code in a separate process with emulated Metal and the stand-in for mps."""
    try:
        environment = emulated_metal.environment(Path(mpsx.__file__).parent)
    except emulated_metal.Unavailable as e:
        pytest.skip(str(e))
    library = tmp_path_factory.mktemp("mps") / "libmps_stand_in.so"
    root = Path(torch.__file__).parent
    include = [f"-I{root / 'include'}", f"-I{root / 'include/torch/csrc/api/include'}"]
    emulated_metal.run("c++", "-std=c++20", "-O0", "-fPIC", "-shared", *include, str(HERE / "mps" / "stand_in.cpp"),
                       "-o", str(library), f"-L{root / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10")  # fmt: skip

    def run(code: str) -> None:
        command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), str(library)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def test_from_mps(run: Callable[[str], None]) -> None:
    """from_mps() shares memory without copying it, and waits for PyTorch's work."""
    run("""
        theirs = mps.from_cpu(x)
        mps.fill_later(theirs, 7.0)
        ours = mpsx.from_mps(theirs)
        assert ours.device.type == "mpsx" and ours.shape == (3, 4) and ours.tolist()[2][3] == 7
        ours.add_(1)
        torch.mpsx.synchronize()
        assert mps.to_cpu(theirs).eq(8).all()
        column = mpsx.from_mps(theirs[1:, ::2].t())
        assert column.shape == (2, 2) and column.stride() == (2, 4) and column.storage_offset() == 4
        column.zero_()
        torch.mpsx.synchronize()
        assert mps.to_cpu(theirs).eq(0).sum() == 4
        assert mpsx.from_mps(mps.from_cpu(torch.empty(0))).shape == (0,)
        for wrong in (x, ours):
            try:
                mpsx.from_mps(wrong)
            except RuntimeError as e:
                assert "from_mps: expected a strided tensor on mps, got one on" in str(e), e
            else:
                raise AssertionError("no error")
    """)


def test_to_mps(run: Callable[[str], None]) -> None:
    """to_mps() shares memory and waits for mpsx's work. A round trip returns the same memory."""
    run("""
        ours = x.to("mpsx")
        emulation.mpsx_emulation_delay(20000)
        ours = (ours * 2)[1:]
        theirs = mpsx.to_mps(ours)
        assert theirs.device == torch.device("mps", 0) and theirs.shape == (2, 4)
        assert mps.to_cpu(theirs).equal(x[1:] * 2)
        again = mpsx.from_mps(theirs)
        again.fill_(3)
        torch.mpsx.synchronize()
        assert ours.cpu().eq(3).all() and mps.to_cpu(theirs).eq(3).all()
        mps.fill_later(theirs, 4.0)
        del theirs, ours                     # `again` keeps the memory alive
        gc.collect()
        mps.synchronize()
        assert again.tolist()[1] == [4.0] * 4
    """)


def test_memory_is_released(run: Callable[[str], None]) -> None:
    """Deleting a tensor releases its memory, but memory from PyTorch stays alive until mpsx's work is complete."""
    run("""
        mpsx.driver()  # creates a buffer
        emulation.mpsx_emulation_delay(20000)
        before = emulation.mpsx_emulation_live(b"EmulatedBuffer"), torch.mpsx.memory_allocated()
        for _ in range(5):
            theirs = mps.from_cpu(torch.ones(1000))
            ours = mpsx.from_mps(theirs)
            view = mpsx.cpu_view(ours)
            ours.mul_(2)
            del theirs, ours
            torch.mpsx.synchronize()
            assert view[999].item() == 2
            del view
            theirs = mps.from_cpu(torch.ones(1000))
            mpsx.from_mps(theirs).mul_(2)        # deleted while the GPU uses it
            assert mps.to_cpu(theirs)[999].item() == 2
            del theirs
        back = mpsx.to_mps(torch.ones(10, device="mpsx"))
        del back
        gc.collect()
        torch.mpsx.synchronize()
        torch.mpsx.empty_cache()
        after = emulation.mpsx_emulation_live(b"EmulatedBuffer"), torch.mpsx.memory_allocated()
        assert after == before, (before, after)
    """)


def test_explicit_operators(run: Callable[[str], None]) -> None:
    """For mps tensors, torch.ops.mpsx.* runs mpsx's kernels, returns mps tensors, and updates arguments in place."""
    run("""
        theirs = mps.from_cpu(x)
        mps.fill_later(theirs, 2.0)
        with mpsx.profiler.launch_log() as log:
            result = torch.ops.mpsx.softmax(theirs, -1)
        assert any("softmax" in name for name in log), log
        assert result.device.type == "mps" and mps.to_cpu(result).eq(0.25).all()
        both = torch.ops.mpsx.mul(theirs, result)
        torch.testing.assert_close(mps.to_cpu(both), torch.full((3, 4), 0.5))
        weights = [mps.from_cpu(torch.ones(5)), mps.from_cpu(torch.ones(3))]
        zeros = lambda: [mps.from_cpu(torch.zeros(5)), mps.from_cpu(torch.zeros(3))]
        grads, steps = [mps.from_cpu(torch.ones(5)), mps.from_cpu(torch.ones(3))], [mps.from_cpu(torch.ones(()))] * 2
        torch.ops.mpsx.fused_adamw_(weights, grads, zeros(), zeros(), [], steps, lr=0.1, beta1=0.9, beta2=0.99,
                                    weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
        assert all((mps.to_cpu(w) < 1).all() for w in weights)
        try:
            torch.ops.mpsx.mul(theirs, x)
        except RuntimeError as e:
            assert "expected all tensors on mpsx" in str(e), e
        else:
            raise AssertionError("no error")
    """)
