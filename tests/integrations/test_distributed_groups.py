"""However a process group is created, it accepts mpsx tensors and has the same names as without mpsx."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import group_checks
import pytest
import torch
import torch.distributed as dist

SCRIPT = Path(group_checks.__file__)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def start(*extra: str, **environment: str) -> list[subprocess.Popen[str]]:
    ports = ",".join(map(str, free_ports(len(group_checks.INITIALIZERS))))
    clean = {name: value for name, value in os.environ.items() if name != "LOCAL_WORLD_SIZE"}
    return [subprocess.Popen([sys.executable, SCRIPT, str(rank), ports, *extra], text=True, env=clean | environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(2)]  # fmt: skip


def finish(workers: list[subprocess.Popen[str]]) -> list[dict[str, list[object]]]:
    """Return the results printed by each process."""
    texts = [worker.communicate(timeout=600)[0] for worker in workers]
    lines = [[line for line in text.splitlines() if line.startswith("{")] for text in texts]
    assert all(lines), "\n".join(texts)
    return [json.loads(found[-1]) for found in lines]


@pytest.fixture(scope="module")
def outcomes() -> tuple[list[dict[str, list[object]]], list[dict[str, list[object]]]]:
    """Return the results of both processes, once with mpsx and once without."""
    return finish(start()), finish(start("cpu", TORCH_DEVICE_BACKEND_AUTOLOAD="0"))


@pytest.mark.parametrize("name", group_checks.INITIALIZERS)
def test_group_names(name: str, outcomes: tuple) -> None:
    with_mpsx, without = outcomes
    for rank in range(2):
        found = with_mpsx[rank].get(name, "an earlier initializer failed")
        assert isinstance(found, list), found
        if name in group_checks.CPU_ONLY:  # names, description, backend, and the group names of the CPU mesh
            assert found[:4] == without[rank][name]
        else:
            assert found[0][0] == "0" and found[2] == group_checks.BACKENDS.get(name, "gloo")


def test_single_process() -> None:
    """A CPU-only program can create a single-process group while mpsx is installed."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    for backend, name in ((None, "0"), ("gloo", "0"), ("fake", "0")):
        options = {"store": FakeStore()} if backend == "fake" else {"store": dist.HashStore()}
        dist.init_process_group(backend, rank=0, world_size=1, **options)
        try:
            assert dist.group.WORLD.group_name == name
            for device in ("cpu", "mpsx"):
                x = torch.ones(2, device=device)
                dist.all_reduce(x)
                assert x.tolist() == [1, 1]
        finally:
            dist.destroy_process_group()
    assert dist.is_backend_available("mpsx") and dist.is_backend_available("cpu:gloo,mpsx:mpsx")
    assert dist.get_default_backend_for_device("mpsx") == "gloo"
    assert "MPSX" not in dist.Backend._plugins  # a plugin would change the meaning of "cpu:gloo,cuda:gloo"


INDICES = """
import torch
assert torch.accelerator.device_count() == torch.mpsx.device_count() == {count}
for index in range({count}):
    torch.accelerator.set_device_index(index)
    torch.mpsx.set_device(index)
    x = torch.ones(2, device=f"mpsx:{{index}}")
    with torch.mpsx.device(index):
        torch.accelerator.synchronize(index)
    assert torch.accelerator.memory_allocated(index) > 0 and torch.mpsx.get_rng_state(index).numel() == 16
    torch.mpsx.get_device_properties(index), torch.Generator(f"mpsx:{{index}}"), torch.Stream(f"mpsx:{{index}}")
for use in (torch.accelerator.set_device_index, torch.mpsx.set_device, torch.mpsx.get_rng_state):
    try:
        use({count})
    except (RuntimeError, ValueError) as error:
        assert "index" in str(error), error
    else:
        raise AssertionError(use)
"""


@pytest.mark.parametrize(("value", "count"), [("2", 2), ("many", 1)])
def test_device_indices_before_a_group_exists(value: str, count: int) -> None:
    """torchrun sets LOCAL_WORLD_SIZE. Every device index below it refers to the single device."""
    done = subprocess.run([sys.executable, "-c", INDICES.format(count=count)], check=False, text=True,
                          capture_output=True, env=os.environ | {"LOCAL_WORLD_SIZE": value})  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.sweep
def test_torchrun() -> None:
    """Run a program that needs two devices and sets its device before creating a group."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*command, SCRIPT.with_name("torchrun_program.py")], check=False, text=True,
                          capture_output=True, env=os.environ | {"MPSX_FALLBACK": "silent"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ddp", "ok", "fsdp2", "ok", "tensor_parallel", "ok"]
