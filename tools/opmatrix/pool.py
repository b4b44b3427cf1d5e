"""Measure cases in worker processes. If a worker crashes or hangs, its case fails and the worker is replaced."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

TOOLS = Path(__file__).resolve().parents[1]
COMMAND = (sys.executable, "-m", "opmatrix.worker")
START_SECONDS = 300.0  # enough to import torch and its OpInfos on a busy machine

Done = Callable[[dict[str, Any]], None]


class WorkerFailed(RuntimeError):
    """Raised if a worker does not start."""


class Worker:
    """A worker process and its captured stderr."""

    def __init__(self, environment: dict[str, str], command: tuple[str, ...] = COMMAND) -> None:
        path = os.pathsep.join(filter(None, [str(TOOLS), environment.get("PYTHONPATH")]))
        self.output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 stays open as long as the process runs
        self.process = subprocess.Popen(
            command, env=dict(environment, PYTHONPATH=path), text=True, bufsize=1, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.output,
        )  # fmt: skip
        self.overdue = False
        if not self.answer(START_SECONDS):
            why = f"a worker did not start ({self.end()})\n{self.last_output()}"
            self.output.close()
            raise WorkerFailed(why)

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """Read the next answer. Return None if the process ended or exceeded the time limit."""
        assert self.process.stdout is not None
        timer = threading.Timer(seconds, self.expire)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        return json.loads(line) if line.endswith("\n") else None

    def expire(self) -> None:
        """Kill a process that exceeded the time limit."""
        self.overdue = True
        self.process.kill()

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Send a request and return the worker's record. Return None if the process ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
        except OSError:
            return None
        return self.answer(seconds) and self.answer(seconds)

    def end(self) -> str:
        """End the process and describe how it ended."""
        for pipe in (self.process.stdin, self.process.stdout):
            # Closing a pipe flushes it, which fails if the other end has been closed.
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if status < 0 and not self.overdue:
            return f"signal {signal.Signals(-status).name}"
        return "time limit" if self.overdue else f"status {status}"

    def last_output(self, most: int = 1500) -> str:
        """Return the last `most` characters of the process's stderr."""
        self.output.seek(0)
        return self.output.read().decode(errors="replace")[-most:].strip()


def serve(pending: queue.SimpleQueue[dict[str, Any]], environment: dict[str, str], seconds: float, done: Done,
          command: tuple[str, ...]) -> None:  # fmt: skip
    """Measure pending cases until none are left."""
    worker: Worker | None = None
    try:
        while True:
            try:
                request = pending.get_nowait()
            except queue.Empty:
                return
            worker = worker or Worker(environment, command)
            record = worker.ask(request, seconds)
            if record is None:
                why = f"the process ended: {worker.end()}"
                last = worker.last_output(300).splitlines()[-1:]
                worker.output.close()
                record = {key: request[key] for key in ("op", "direction", "dtype")}
                record |= {"status": "fails", "why": ": ".join([why, *last])}
                worker = None
            done(record)
    finally:
        if worker is not None:
            worker.end()
            worker.output.close()


def measure_all(requests: Iterable[dict[str, Any]], environment: dict[str, str], *, jobs: int, seconds: float,
                done: Done, command: tuple[str, ...] = COMMAND) -> None:  # fmt: skip
    """Measure all cases with `jobs` workers. Call `done` with each record, one call at a time."""
    pending: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    for request in requests:
        pending.put(request)
    lock, errors = threading.Lock(), []

    def locked_done(record: dict[str, Any]) -> None:
        with lock:
            done(record)

    def run() -> None:
        try:
            serve(pending, environment, seconds, locked_done, command)
        except BaseException as error:  # raised after the other threads have finished
            errors.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(max(1, min(jobs, pending.qsize())))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
