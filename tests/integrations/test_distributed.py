"""torch.distributed: collectives, DDP, FSDP, tensor parallelism, checkpoints. Two processes share this machine."""

from __future__ import annotations

import functools
import socket
import subprocess
import sys
from pathlib import Path

import distributed_checks
import pytest

HERE = Path(__file__).parent


@functools.cache
def outcome(backend: str) -> list[dict[str, str]]:
    """For each process, the outcome of each check."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, str(HERE / "distributed_checks.py")]
    workers = [subprocess.Popen([*command, str(rank), port, *([backend] if backend else [])], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True) for rank in range(2)]  # fmt: skip
    found = []
    for worker in workers:
        text = worker.communicate(timeout=900)[0]
        lines = [line.split(" ", 1) for line in text.splitlines() if " " in line]
        found.append({name: rest for name, rest in lines if name in distributed_checks.CHECKS} | {"output": text})
    return found


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
