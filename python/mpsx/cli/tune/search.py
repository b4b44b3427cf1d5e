"""Search for better numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .cases import Case
from .measure import Bench, Budget, Launches, Plan

FACTORS = (1 / 8, 1 / 4, 1 / 2, 0.7, 0.85, 0.93, 1.08, 1.18, 1.4, 2, 4, 8)
NOISE = 0.02  # ignore differences between times of up to 2%, and changes that save less
SLOWER_COUNTS = 3.0  # a case that becomes slower weighs as much as this many that become faster
WRONG = 100.0  # the cost of a wrong result, more than any speed is worth
Numbers = dict[str, float]


@dataclass(frozen=True)
class Wrong:
    """A variant whose result is wrong."""

    case: str
    launches: Launches
    why: str

    def __str__(self) -> str:
        kernels = ", ".join(dict.fromkeys(launch.split()[0] for launch in self.launches))
        return f"{kernels} in {self.case}: {self.why}"


@dataclass
class Search:
    """Chooses numbers for which the cases take the least time. Times are relative to those of the defaults."""

    bench: Bench
    cases: list[Case]
    numbers: dict[str, dict[str, float]]  # of _runtime.tuning()
    budget: Budget
    step: Callable[[str], None] = lambda _: None
    measured: dict[tuple[str, Launches], float] = field(default_factory=dict)
    wrong: list[Wrong] = field(default_factory=list)
    defaults: Plan = field(default_factory=dict)

    def start(self) -> None:
        """Plan the defaults. Drop the cases that launch none of our kernels."""
        self.defaults = self.plan({})
        self.cases = [case for case in self.cases if self.defaults[case.name]]

    def plan(self, values: Numbers) -> Plan:
        """Return what each case launches. This loads kernels, which may compile them, so it does not count."""
        with self.budget.paused():
            return self.bench.launches(self.cases, values)

    def cost_of(self, case: Case, launches: Launches, values: Numbers) -> float:
        """Return the logarithm of the time relative to the defaults. Checks and measures new launches."""
        key = case.name, launches
        if key not in self.measured:
            if why := self.bench.error(case, values):
                self.wrong.append(Wrong(case.name, launches, why))
                self.measured[key] = WRONG
            elif launches == self.defaults[case.name]:
                self.measured[key] = 0.0
            else:
                base, time = self.bench.compare(case, [{}, values])
                self.measured[key] = math.log(time / base)
        cost = self.measured[key]
        return 0.0 if abs(cost) < NOISE else cost * SLOWER_COUNTS if cost > 0 else cost

    def difference(self, values: Numbers, plan: Plan, old: Numbers, old_plan: Plan) -> float:
        """Return how much the cost changes from `old` to `values`. Return 0 if the cases whose launches change do not
        get faster on average, or if there is no time to measure them."""
        total, changed = 0.0, [case for case in self.cases if plan[case.name] != old_plan[case.name]]
        for case in changed:
            for launches, numbers, sign in ((old_plan[case.name], old, -1), (plan[case.name], values, 1)):
                if self.budget.spent() and (case.name, launches) not in self.measured:
                    return 0.0
                total += sign * self.cost_of(case, launches, numbers)
        return total if total <= -NOISE * len(changed) else 0.0

    def candidates(self, name: str, value: float) -> Iterator[float]:
        """Return other values for a number."""
        low, high = self.numbers[name]["low"], self.numbers[name]["high"]
        scaled = (float(f"{value * factor:.3g}") for factor in FACTORS)
        found = {low, high, *(min(max(each, low), high) for each in scaled)} - {value}
        yield from sorted(found, key=lambda each: abs(each - value))

    def improve(self, values: Numbers) -> Numbers:
        """Change one number at a time until nothing gets faster or the time is over."""
        plan, changed = self.plan(values), True
        for case in self.cases:  # check the kernels that no number changes, too
            if not self.budget.spent():
                self.step(case.name)
                self.cost_of(case, plan[case.name], values)
        while changed and not self.budget.spent():
            changed = False
            for name, number in self.numbers.items():
                if self.budget.spent():
                    break
                self.step(name)
                current = values.get(name, number["table"])
                best, best_plan, least = values, plan, 0.0
                for value in self.candidates(name, current):
                    fresh = {**values, name: value}
                    fresh_plan = self.plan(fresh)
                    if fresh_plan == plan:
                        continue
                    cost = self.difference(fresh, fresh_plan, values, plan)
                    if cost < least:
                        best, best_plan, least = fresh, fresh_plan, cost
                if best is not values:
                    values, plan, changed = best, best_plan, True
        return values

    def speeds(self, tiles: list[str]) -> Numbers:
        """Measure the relative speeds of an operator's tiles: use one at a time for the case that takes longest. Tiles
        without a kernel for it keep the table's speed."""
        alone = {tile: {other: self.numbers[other]["low"] for other in tiles if other != tile} for tile in tiles}
        plans = {tile: self.plan(values) for tile, values in alone.items()}

        def distinct(case: Case) -> list[str]:
            found = [plans[tile][case.name] for tile in tiles]
            return [tile for tile, plan in zip(tiles, found, strict=True) if found.count(plan) == 1]

        affected = [case for case in self.cases if len(distinct(case)) > 1]
        if not affected:
            return {}
        case = max(affected, key=lambda case: self.bench.compare(case, [{}])[0])
        correct = [tile for tile in distinct(case) if not self.bench.error(case, alone[tile])]
        times = dict(zip(correct, self.bench.compare(case, [alone[tile] for tile in correct]), strict=True))
        top = max(self.numbers[tile]["table"] for tile in tiles)
        return {tile: max(float(f"{top * min(times.values()) / time:.3g}"), 0.001) for tile, time in times.items()}

    def needed(self, values: Numbers) -> Numbers:
        """Drop the numbers that change no case, and those that are the table's."""
        plan = self.plan(values)
        for name in list(values):
            without = {other: value for other, value in values.items() if other != name}
            if values[name] == self.numbers[name]["table"] or self.plan(without) == plan:
                values = without
        return values
