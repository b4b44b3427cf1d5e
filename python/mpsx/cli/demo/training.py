"""Train a model on the device and on the CPU, and compare the two runs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ... import profiler
from .data import Batch
from .tasks import Task


class Run:
    """One model trained on one device. Runs with the same seed differ only in the device."""

    def __init__(self, task: Task, device: str, dtype: torch.dtype, steps: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.task, self.device = task, torch.device(device)
        self.model = task.model().to(self.device)  # initialized on the CPU, so every device gets the same weights
        self.optimizer = task.optimizer(self.model)
        warmup = max(1, steps // 10)

        def rate(step: int) -> float:
            return min((step + 1) / warmup, 0.05 + 0.95 * (1 + math.cos(math.pi * step / steps)) / 2)

        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, rate)
        self.autocast = torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32)
        self.losses: list[float] = []
        self.seconds: list[float] = []

    def step(self, batch: Batch) -> None:
        """Train on one batch, and record the loss and time."""
        start = time.perf_counter()
        inputs, targets = (part.to(self.device) for part in batch)
        with self.autocast:
            loss = self.task.loss(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step()
        self.losses.append(loss.item())  # waits for the device
        self.seconds.append(time.perf_counter() - start)

    def finish(self) -> None:
        """Evaluate the trained model."""
        self.model.eval()
        self.score = self.task.score(self.model)
        self.sample = self.task.sample(self.model) if self.task.sample else None

    @property
    def step_time(self) -> float:
        """The median step time in seconds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Race:
    """The result of `race`: the run on the device, an optional run on the CPU, and the device's profile."""

    run: Run
    other: Run | None
    profile: list[profiler.Row]  # during training only
    fallbacks: list[profiler.Row]  # during training and evaluation
    seconds: float

    @property
    def difference(self) -> float:
        """The largest difference between the two runs' losses at any step."""
        assert self.other is not None
        return max(abs(a - b) for a, b in zip(self.run.losses, self.other.losses, strict=True))

    def calls(self, route: str) -> int:
        """Return the number of kernel launches or operator calls on a route."""
        return sum(row.calls for row in self.profile if row.route == route)

    def operators(self, route: str) -> int:
        """Return the number of distinct kernels or operators on a route."""
        return sum(row.route == route for row in self.profile)


def race(task: Task, runs: list[Run], steps: int, progress: Callable[[float], None]) -> Race:
    """Alternate the training steps of the runs, so that other load on the machine slows them down equally.

    Calls `progress(loss)` after each step.
    """
    batches = task.batches()
    start = time.perf_counter()
    with profiler.profile() as profile:
        for step in range(steps):
            batch = next(batches)
            for run in runs if step % 2 == 0 else reversed(runs):
                run.step(batch)
            progress(runs[0].losses[-1])
    for run in runs:
        run.finish()
    seconds = time.perf_counter() - start
    fallbacks = [row for row in profiler.rows() if row.route == "fallback"]
    return Race(runs[0], runs[1] if len(runs) > 1 else None, profile.rows, fallbacks, seconds)
