"""torch.distributed with two processes on one machine: collectives, DDP, FSDP, tensor parallelism and checkpoints."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import ddp_hook_checks  # noqa: F401
import distributed_checks
import dtensor_checks  # noqa: F401
import example_checks  # noqa: F401
import pytest

HERE = Path(__file__).parent


def run(backend: str, *hosts: list[str]) -> list[dict[str, str]]:
    """Return the outcome of each check in each process. `hosts` has one command prefix per process, which selects the
    machine to run on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, str(HERE / "distributed_checks.py")]
    workers = [subprocess.Popen([*host, *command, str(rank), port, *([backend] if backend else [])],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
               for rank, host in enumerate(hosts)]  # fmt: skip
    found = []
    for worker in workers:
        text = worker.communicate(timeout=900)[0]
        lines = [line.split(" ", 1) for line in text.splitlines() if " " in line]
        found.append({name: rest for name, rest in lines if name in distributed_checks.CHECKS} | {"output": text})
    return found


@functools.cache
def outcome(backend: str) -> list[dict[str, str]]:
    return run(backend, [], [])


@pytest.mark.parametrize("name", sorted(distributed_checks.CHECKS))
def test_check(name: str) -> None:
    for process in outcome(""):
        assert process.get(name) == "ok", process.get(name, process["output"]).replace("\\n", "\n")


@pytest.mark.sweep
@pytest.mark.parametrize("backend", ["gloo", "mpsx", "cpu:gloo,mpsx:mpsx", "cpu:gloo,mpsx:gloo"])
@pytest.mark.parametrize("name", sorted(distributed_checks.CHECKS))
def test_backend(backend: str, name: str) -> None:
    for process in outcome(backend):
        assert process.get(name) == "ok", process.get(name, process["output"]).replace("\\n", "\n")


@pytest.mark.sweep
def test_two_hosts() -> None:
    """Two network namespaces with separate addresses act as two machines."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need iproute2 and root")

    def ip(text: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["ip", *text.split()], check=check, capture_output=True, text=True)

    names = [f"mpsx-{os.getpid()}-{rank}" for rank in range(2)]
    if ip(f"netns add {names[0]}", check=False).returncode:
        pytest.skip("this system does not permit network namespaces")
    try:
        ip(f"netns add {names[1]}")
        ip(f"link add veth0 netns {names[0]} type veth peer name veth0 netns {names[1]}")
        for rank, name in enumerate(names):
            ip(f"-n {name} addr add 10.77.0.{rank + 1}/24 dev veth0")
            ip(f"-n {name} link set veth0 up")
            ip(f"-n {name} link set lo up")
        start = ["env", "MASTER_ADDR=10.77.0.1", "GLOO_SOCKET_IFNAME=veth0"]
        found = run("", *(["ip", "netns", "exec", name, *start] for name in names))
    finally:
        for name in names:
            ip(f"netns del {name}", check=False)
    for process in found:
        for name in distributed_checks.CHECKS:
            assert process.get(name) == "ok", process.get(name, process["output"]).replace("\\n", "\n")
