"""Check and time the launches of a case."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Iterator

import torch

from ... import _runtime
from .cases import Case, Tensors, normal, tensors

Launches = tuple[str, ...]
Plan = dict[str, Launches]  # by case
MOST_CALLS = 50  # per timing
BUSY_ELEMENTS = 1 << 24  # an addition of this size keeps a GPU busy
LAUNCH_SECONDS = 80e-6  # more than a call takes on the CPU: a convolution takes 40 to 70 µs


class Timer:
    """Times calls on the device."""

    def __init__(self, seconds: float) -> None:
        """Time calls for about `seconds` at a time."""
        self.seconds = seconds
        self.start, self.end = (torch.Event("mpsx", enable_timing=True) for _ in range(2))
        self.busy = torch.zeros(BUSY_ELEMENTS, device="mpsx") if _runtime.driver()["asynchronous"] else None
        self.busy_seconds = 0.0
        if self.busy is not None:
            self.busy_seconds = min(self._elapsed(lambda: self.busy.add_(1), 8) for _ in range(3))

    def _elapsed(self, call: Callable[[], object], count: int) -> float:
        self.start.record()
        for _ in range(count):
            call()
        self.end.record()
        self.end.synchronize()
        return max(self.start.elapsed_time(self.end) * 1e-3 / count, 1e-9)

    def calls(self, call: Callable[[], object]) -> int:
        """Return how many calls take about `seconds`."""
        call()  # loads kernels
        return max(1, min(MOST_CALLS, math.ceil(self.seconds / self._elapsed(call, 1))))

    def time(self, call: Callable[[], object], count: int) -> float:
        """Return the seconds that one of `count` calls takes. First keeps the device busy until all have been launched,
        so that the time does not include the CPU's."""
        if self.busy is not None:
            for _ in range(math.ceil(count * LAUNCH_SECONDS / self.busy_seconds)):
                self.busy.add_(1)
        return self._elapsed(call, count)


class Bench:
    """Runs cases. Keeps their inputs, results on the CPU, and measurements."""

    def __init__(self, seconds: float, rounds: int) -> None:
        """Interleave `rounds` measurements of about `seconds`."""
        self.timer, self.rounds = Timer(seconds), rounds
        self.inputs: dict[tuple, torch.Tensor] = {}  # shared by the cases
        self.expected: dict[str, Tensors] = {}

    def call(self, case: Case) -> Callable[[], object]:
        """Return a function that launches a case."""
        keys = [(case.dtype, shape, index) for index, shape in enumerate(case.shapes)]
        for key in keys:
            if key not in self.inputs:
                self.inputs[key] = normal(*key).to("mpsx")
        inputs = [self.inputs[key] for key in keys]

        def call() -> object:
            with torch.no_grad():
                return case.run(*inputs)

        return call

    def launches(self, cases: list[Case], values: dict[str, float]) -> Plan:
        """Return what the cases launch with these numbers, without running them. Return () for a case that also calls
        CPU libraries, which a plan rejects, because tuning does not affect them."""
        _runtime.set_tuning(values)
        return {case.name: self._plan(self.call(case)) for case in cases}

    @staticmethod
    def _plan(call: Callable[[], object]) -> Launches:
        _runtime.open_launch_log()
        try:
            planned = tuple(_runtime.plan(call))
        except RuntimeError as error:  # error() reports it
            planned = (f"no-launch: {error}",)
        finally:
            others = _runtime.close_launch_log()
        return () if others else planned

    def error(self, case: Case, values: dict[str, float]) -> str:
        """Run a case with these numbers. Return how its result is wrong, or "" if it is right."""
        _runtime.set_tuning(values)
        try:
            found = [t.cpu().float() for t in tensors(self.call(case)())]
        except RuntimeError as error:
            return str(error).splitlines()[0]
        if case.name not in self.expected:
            with torch.no_grad():
                inputs = [normal(case.dtype, shape, index).float() for index, shape in enumerate(case.shapes)]
                self.expected[case.name] = tensors((case.expected or case.run)(*inputs))
        for ours, theirs in zip(found, self.expected[case.name], strict=True):
            allowed = case.tolerance * max(float(theirs.abs().max()), 1e-6)
            worst = float((ours - theirs).abs().max())
            if not worst <= allowed:  # also if it is NaN
                return f"differs from the CPU's result by {worst:.3g}, and {allowed:.3g} is allowed"
        return ""

    def compare(self, case: Case, candidates: list[dict[str, float]]) -> list[float]:
        """Return the median seconds per call with each set of numbers. Interleaves the measurements, so that all sets
        see the same clock rates and temperatures."""
        call, counts, times = self.call(case), [], [[] for _ in candidates]
        for values in candidates:
            _runtime.set_tuning(values)
            counts.append(self.timer.calls(call))
        for round_ in range(self.rounds):
            order = range(len(candidates)) if round_ % 2 == 0 else range(len(candidates) - 1, -1, -1)
            for i in order:
                _runtime.set_tuning(candidates[i])
                times[i].append(self.timer.time(call, counts[i]))
        return [statistics.median(each) for each in times]


class Budget:
    """A time limit."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of a block."""
        start = time.monotonic()
        yield
        self.end += time.monotonic() - start

    def spent(self) -> bool:
        """Return whether the time is over."""
        return time.monotonic() >= self.end
