"""Worker processes for benchmarks. Each device has its own, because autograd supports one accelerator per process."""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

TOOLS = Path(__file__).resolve().parents[1]
SPIN_SECONDS = 0.005  # longer than OpenMP's workers spin, which is about a millisecond (libgomp)
MAX_CALLS = 5000  # maximum number of calls per round


def write_csv(path: str | None, rows: list[dict[str, Any]]) -> None:
    """Write rows to a CSV file if both a path and rows are given."""
    if path and rows:
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


class Worker:
    """A process that runs `module` for one device."""

    def __init__(self, module: str, device: str, *arguments: str, fallback: str = "error") -> None:
        path = os.pathsep.join(filter(None, [str(TOOLS), os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"MPSX_FALLBACK": fallback, "PYTHONPATH": path}
        if device != "mpsx":
            environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        command = [sys.executable, "-m", module, device, *arguments]
        self.start = partial(subprocess.Popen, command, env=environment, text=True, bufsize=1, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)  # fmt: skip
        self.process = self.start()

    def ask(self, **request: Any) -> Any:
        """Send a request and return the answer. Raise RuntimeError if the request fails. Restart a process that
        crashed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            self.process = self.start()
            raise RuntimeError(f"the process exited with status {status}")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


def serve(device: str, make: Callable[..., Any]) -> None:
    """Answer requests until stdin is closed. `make` converts a request to a result or to a function to time. A request
    with a `count` instead times that many calls to the latest function."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # redirect what libraries print to stderr
    module = None if device == "cpu" else torch.get_device_module(device)
    run: Any = None

    def wait() -> None:
        if module:
            module.synchronize()

    def answer(request: dict[str, Any]) -> Any:
        nonlocal run
        if "count" not in request:
            run = None
            if module:
                module.empty_cache()  # release memory, because the other worker may need it
            made = make(**request)
            if not callable(made):
                return made
            run = made
            for _ in range(3):  # compile kernels, choose algorithms, create optimizer state
                run()
        count = request.get("count", 1)
        if count > 1:
            run()  # wakes OpenMP's workers, which slept during the other process's round
        wait()
        start = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        return (time.perf_counter() - start) / count

    for line in sys.stdin:
        try:
            print(json.dumps(answer(json.loads(line))), file=answers)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}), file=answers)


def turn(worker: Worker, **request: Any) -> Any:
    """Send a request as soon as the OpenMP workers of other processes have stopped spinning."""
    time.sleep(SPIN_SECONDS)
    return worker.ask(**request)


def compare(workers: list[Worker], rounds: int, seconds: float, **request: Any) -> list[float]:
    """Return each worker's median seconds per call, measured in alternating rounds of `seconds`."""
    counts = [min(MAX_CALLS, max(1, int(seconds / turn(worker, **request)))) for worker in workers]
    times = [[turn(worker, count=n) for worker, n in zip(workers, counts, strict=True)] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]
