"""Processes exit normally although gloo's threads have not yet released a finished collective.

Here the main thread keeps the GIL until the interpreter shuts down, and gloo's threads, which run only when the core is
free (SCHED_IDLE), reach the point where they would need it. In PyTorch, all of these collectives abort the process if
their tensors are on the CPU (PyTorch issue 190489)."""

from __future__ import annotations

import os

import pytest
from processes import run_in_subprocess

START = """
import os, sys, time
import torch.distributed as dist
threads = set(os.listdir("/proc/self/task"))
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
group = dist.group.WORLD  # keeps gloo's threads after destroy_process_group(), as DistributedDataParallel does
core = {min(os.sched_getaffinity(0))}
for thread in os.listdir("/proc/self/task"):
    os.sched_setaffinity(int(thread), core)
    if thread not in threads:
        os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))
sys.setswitchinterval(1000)
x = torch.ones(4, device="mpsx", requires_grad=True)
"""
END = """
dist.destroy_process_group()
end = time.perf_counter() + 0.3
while time.perf_counter() < end:
    pass
"""
COLLECTIVES = {
    "all_reduce": "y = x.detach().clone(); dist.all_reduce(y); del y",
    "all_gather": "dist.all_gather([torch.empty_like(x)], x.detach())",
    "future": "y = x.detach().clone(); dist.all_reduce(y, async_op=True).get_future().wait(); del y",
    "backward": "x.register_hook(lambda gradient: dist.all_reduce(gradient)); (x * 2).sum().backward()",
    "DistributedDataParallel": """
layer = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).to("mpsx"))
layer(x).sum().backward()
""",
}


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="needs Linux's scheduling of threads")
@pytest.mark.parametrize("name", COLLECTIVES)
def test_exit(name: str) -> None:
    done = run_in_subprocess(START + COLLECTIVES[name] + END)
    assert done.returncode == 0, done.stderr
