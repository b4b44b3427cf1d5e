"""The host driver runs kernels on PyTorch's CPU threads and respects torch.set_num_threads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mpsx

# Count the threads that spent at least 50 ms (5 kernel clock ticks) of CPU time in `torch.sin`.
MEASURE = """
import os, sys, torch
def ticks():
    found = {}
    for task in os.listdir("/proc/self/task"):
        fields = open(f"/proc/self/task/{task}/stat").read().rpartition(")")[2].split()
        found[task] = int(fields[11])
    return found
torch.set_num_threads(int(sys.argv[1]))
x = torch.randn(1 << int(sys.argv[2]), device="mpsx")
torch.sin(x)
torch.accelerator.synchronize()
before = ticks()
spent = {}
while sum(spent.values()) < 60:
    y = torch.sin(x)
    torch.accelerator.synchronize()
    after = ticks()
    spent = {task: after[task] - before.get(task, 0) for task in after}
torch.testing.assert_close(y.cpu(), torch.sin(x.cpu()))
print(sum(n >= 5 for n in spent.values()))
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads per-thread CPU times from Linux's /proc")
def test_number_of_busy_threads(threads):
    driver = mpsx.driver()["name"]
    if driver not in ("host", "simt"):
        pytest.skip("this driver does not run kernels on CPU threads")
    elements = 16 if driver == "simt" else 22
    done = subprocess.run([sys.executable, "-c", MEASURE, str(threads), str(elements)], capture_output=True, text=True,
                          check=False, timeout=120, env={**os.environ, "OMP_DYNAMIC": "false"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    # To detect races, the simt driver runs each dispatch on one CPU thread.
    assert int(done.stdout) == (1 if driver == "simt" else threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_element_is_processed_once(threads):
    """Cover sizes that are not a multiple of the thread count, and inputs with fewer rows than threads."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for size in (1, 32768, 32769, 100_003, 262_147):
            x = torch.arange(size, device="mpsx", dtype=torch.float32)
            x.add_(1)
            assert torch.equal(x.cpu(), torch.arange(1, size + 1, dtype=torch.float32))
        for rows in (1, 2, 3, 5):
            x = torch.randn(rows, 50_000)
            torch.testing.assert_close(x.to("mpsx").softmax(1).cpu(), x.softmax(1))
    finally:
        torch.set_num_threads(before)
