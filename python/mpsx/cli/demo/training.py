"""One training run, and two of them side by side."""

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
    """A model in training on one device. Two runs with one seed differ in nothing but the device."""

    def __init__(self, task: Task, device: str, dtype: torch.dtype, steps: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.task, self.device = task, torch.device(device)
        self.model = task.model().to(self.device)  # weights are drawn on the CPU, whatever the device
        self.optimizer = task.optimizer(self.model)
        warmup = max(1, steps // 10)

        def rate(step: int) -> float:
            return min((step + 1) / warmup, 0.05 + 0.95 * (1 + math.cos(math.pi * step / steps)) / 2)

        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, rate)
        self.autocast = torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32)
        self.losses: list[float] = []
        self.seconds: list[float] = []

    def step(self, batch: Batch) -> None:
        """Trains on one batch, and notes its loss and how long it took."""
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
        """Takes the model out of training and finds out what it learned."""
        self.model.eval()
        self.score = self.task.score(self.model)
        self.sample = self.task.sample(self.model) if self.task.sample else None

    @property
    def step_time(self) -> float:
        """The median, in seconds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Race:
    """The result of `race`: the run on the device, the run on the CPU if there was one, and what ran on the device."""

    run: Run
    other: Run | None
    profile: list[profiler.Row]  # of the training alone
    fallbacks: list[profiler.Row]  # of the training and what came after
    seconds: float

    @property
    def difference(self) -> float:
        """The largest difference between the losses of a step."""
        assert self.other is not None
        return max(abs(a - b) for a, b in zip(self.run.losses, self.other.losses, strict=True))

    def calls(self, route: str) -> int:
        """How many launches or calls took a route."""
        return sum(row.calls for row in self.profile if row.route == route)

    def operators(self, route: str) -> int:
        """How many different kernels or operators took a route."""
        return sum(row.route == route for row in self.profile)


def race(task: Task, runs: list[Run], steps: int, progress: Callable[[float], None]) -> Race:
    """Trains the runs by turns, so that whatever else the machine does slows each of them equally.

    `progress` is called after each step, with the loss.
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
