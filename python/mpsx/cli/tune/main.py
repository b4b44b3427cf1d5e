"""The command line of `python -m mpsx tune`."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from ... import _runtime, tuning
from ..progress import Progress
from .cases import cases
from .measure import Bench, Budget
from .search import NOISE, Numbers, Search, Wrong

# Per size: seconds to search, seconds per timing, and interleaved timings.
EFFORT = {"full": (110.0, 1e-3, 5), "quick": (18.0, 5e-4, 3), "tiny": (20.0, 1e-5, 1)}
ENOUGH = 0.9  # the share of cases with other kernels that may not become slower


@dataclass
class Gain:
    """The time of a case with the defaults and with other numbers, in seconds per call."""

    case: str
    default: float
    tuned: float

    @property
    def factor(self) -> float:
        """How many times as fast the case has become."""
        return self.default / self.tuned

    @property
    def slower(self) -> bool:
        """Whether the case has become slower by more than noise."""
        return self.factor < 1 - NOISE


@dataclass
class Result:
    """The outcome of a search."""

    numbers: Numbers
    cases: int
    gains: list[Gain] = field(default_factory=list)
    wrong: list[Wrong] = field(default_factory=list)

    def table(self) -> str:
        """Format the cases whose kernels changed."""
        lines = [f"WRONG RESULT, not used: {wrong}" for wrong in self.wrong]
        if not self.gains:
            return "\n".join([*lines, f"The kernels of all {self.cases} cases are the default's."])
        width = max(len(gain.case) for gain in self.gains)
        lines.append(f"{'':<{width}}{'default µs':>12}{'tuned µs':>12}{'speedup':>9}")
        for gain in sorted(self.gains, key=lambda gain: -gain.factor):
            lines.append(f"{gain.case:<{width}}{gain.default * 1e6:>12.1f}{gain.tuned * 1e6:>12.1f}{gain.factor:>9.2f}")
        lines.append(f"{self.cases - len(self.gains)} other cases keep the default's kernels.")
        return "\n".join(lines)

    def rows(self) -> str:
        """Format the numbers as rows of src/runtime/tuning.def."""
        family = _runtime.driver()["gpu_family"] or "no_family"
        return "\n".join(f"MPSX_TUNED({family}, {name}, {value:g})" for name, value in self.numbers.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser."""
    parser.add_argument("--quick", action="store_true", help="take 20 seconds instead of two minutes")
    parser.add_argument("--fresh", action="store_true",
                        help="measure the speeds of tiles first, instead of starting with the table's")  # fmt: skip
    parser.add_argument("--rows", action="store_true", help="print the numbers as rows of src/runtime/tuning.def")
    parser.add_argument("--verify", action="store_true",
                        help="compare the tuning in use with the defaults on shapes that tuning does not measure")
    parser.add_argument("--seconds", type=float, help="time to search (default: 110; with --quick 18)")
    parser.add_argument("--size", choices=EFFORT, help=argparse.SUPPRESS)  # "tiny" is for tests


def search(size: str, seconds: float | None = None, fresh: bool = False) -> Result:
    """Search for the best numbers for this device. Leaves the tuning in use as it is."""
    limit, duration, rounds = EFFORT[size]
    limit = seconds or limit
    numbers, before = _runtime.tuning(), in_use()
    progress, began = Progress(max(int(limit), 1)), time.monotonic()

    def step(name: str) -> None:
        progress.done = min(int(time.monotonic() - began), progress.total - 1)
        progress.show(name)

    try:
        found = Search(Bench(duration, rounds), cases(size), numbers, Budget(limit), step)
        found.start()
        start: Numbers = {}
        for tiles in tile_groups(numbers) if fresh else ():
            start |= found.speeds(tiles)
        values = found.needed(found.improve(start))
        result = Result(values, len(found.cases), compare(found.bench, found.cases, values), found.wrong)
    finally:
        _runtime.set_tuning(before)
        progress.close()
    return result


def tile_groups(numbers: Iterable[str]) -> list[list[str]]:
    """Return the numbers that are speeds of tiles, by operator and type."""
    groups: dict[str, list[str]] = {}
    for name in numbers:
        if re.search(r"_\d+x\d+_", name):
            groups.setdefault(re.sub(r"\d+x\d+", "", name), []).append(name)
    return list(groups.values())


def in_use() -> Numbers:
    """Return the numbers in use that differ from the table's."""
    return {name: row["value"] for name, row in _runtime.tuning().items() if row["value"] != row["table"]}


def compare(bench: Bench, among: list, values: Numbers) -> list[Gain]:
    """Measure again the cases whose launches differ from the defaults'."""
    tuned, default = bench.launches(among, values), bench.launches(among, {})
    changed = [case for case in among if tuned[case.name] != default[case.name]]
    return [Gain(case.name, *bench.compare(case, [{}, values])) for case in changed]


def verify(size: str) -> int:
    """Compare the tuning in use with the defaults on other shapes, and print the result. Return 1 if too many of the
    cases whose kernels change are slower, or if one is wrong."""
    values = in_use()
    _, duration, rounds = EFFORT[size]
    bench, others = Bench(3 * duration, 2 * rounds + 1), cases("verify-tiny" if size == "tiny" else "verify")
    result = Result(values, len(others))
    try:
        plan = bench.launches(others, values)
        for case in others:
            if plan[case.name] and (why := bench.error(case, values)):
                result.wrong.append(Wrong(case.name, plan[case.name], why))
        result.gains = compare(bench, others, values)
    finally:
        _runtime.set_tuning(values)
    print(result.table())
    changed, slower = len(result.gains), sum(gain.slower for gain in result.gains)
    fast = changed - slower >= ENOUGH * changed
    print(f"{len(values)} numbers differ from the table's. They change the kernels of {changed} of {len(others)} shapes"
          f" that were not tuned. Of these, {changed - slower} are at least as fast as with the defaults (within"
          f" {NOISE:.0%}), and {slower} are slower: {'at least' if fast else 'less than'} {ENOUGH:.0%} are as fast."
          f" With the {len(others) - changed} shapes that keep their kernels, it is"
          f" {1 - slower / max(len(others), 1):.0%}.")  # fmt: skip
    return int(not fast or bool(result.wrong))


def main(arguments: argparse.Namespace) -> int:
    """Run the command. Return 1 if a kernel computes wrong results."""
    if _runtime.driver()["name"] == "simt":
        print("tune: the simt driver checks kernels, and its times say nothing about a GPU", file=sys.stderr)
        return 2
    size = arguments.size or ("quick" if arguments.quick else "full")
    if arguments.verify:
        return verify(size)
    result = search(size, arguments.seconds, arguments.fresh)
    print(result.table())
    if arguments.rows:
        print(result.rows())
    gains = {gain.case: {"default": gain.default, "tuned": gain.tuned} for gain in result.gains}
    date, wrong = datetime.date.today().isoformat(), [str(each) for each in result.wrong]
    file = tuning.write(result.numbers, date=date, seconds=gains, wrong=wrong)
    print(f"Wrote {len(result.numbers)} numbers to {file}. New processes use them; MPSX_TUNING=0 ignores them.")
    return int(bool(result.wrong))
