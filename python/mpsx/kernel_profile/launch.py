"""Attribute the counts of a profiled launch to the lines of the Metal source."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, fields

from .instrument import Facts

SECTOR = 32
WIDTH = 32
MATMUL_FLOPS = 2 * 8 * 8 * 8
SPACES = ("device", "threadgroup", "constant")
Position = tuple[str, int]


@dataclass
class Accesses:
    """The accesses that SIMD groups make to one kind of memory."""

    requests: int = 0  # accesses, each by a whole SIMD group
    lanes: int = 0  # active lanes, summed over all requests
    bytes: int = 0  # bytes requested by the lanes
    transactions: int = 0  # device: 32-byte sectors; threadgroup: passes over the 32 banks
    least: int = 0  # minimum number of transactions for the distinct bytes of each request
    again: int = 0  # device: transactions for sectors that the same threadgroup has moved before

    def add(self, other: Accesses) -> None:
        """Add the counts of `other` to this object."""
        for name in (f.name for f in fields(self)):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def ratio(self) -> float:
        """Transactions divided by the minimum number of transactions."""
        return self.transactions / self.least if self.least else 1.0

    @property
    def conflicts(self) -> int:
        """The number of additional passes due to bank conflicts."""
        return self.transactions - self.least

    @property
    def bytes_per_lane(self) -> float:
        """The number of bytes requested per lane and access."""
        return self.bytes / self.lanes if self.lanes else 0.0


@dataclass
class Traffic:
    """Device-memory traffic in one direction, in bytes."""

    asked: int = 0  # bytes requested by lanes
    moved: int = 0  # bytes moved in transactions
    shared: int = 0  # bytes moved, counting each sector only for the threadgroup that moved it most often
    distinct: int = 0  # bytes moved, counting each byte once


@dataclass
class Line:
    """The counts for one source line. `inside` is the line of the .metal file into which it was inlined."""

    position: Position
    inside: Position
    accesses: dict[tuple[str, str], Accesses] = field(default_factory=lambda: defaultdict(Accesses))
    instructions: int = 0  # instructions executed by lanes
    steps: int = 0  # instructions executed by SIMD groups
    flops: int = 0
    calls: dict[str, int] = field(default_factory=dict)  # number of barriers and SIMD functions, by name


@dataclass
class Launch:
    """One launch of a kernel."""

    kernel: str
    threads: list[int]
    groups: list[int]
    group: list[int]
    simdgroups: int
    threadgroup_bytes: int
    read: Traffic
    written: Traffic
    accesses: dict[tuple[str, str], Accesses]  # by memory and kind, such as ("device", "load")
    lines: list[Line]
    calls: dict[str, int]  # number of executed barriers (per threadgroup) and SIMD functions (per SIMD group), by name
    instructions: int
    steps: int
    flops: int

    @property
    def device(self) -> Accesses:
        """All accesses to device memory."""
        return self.total("device")

    @property
    def threadgroup(self) -> Accesses:
        """All accesses to threadgroup memory."""
        return self.total("threadgroup")

    def total(self, space: str) -> Accesses:
        """Return all accesses to a kind of memory."""
        result = Accesses()
        for (where, _), accesses in self.accesses.items():
            if where == space:
                result.add(accesses)
        return result

    @property
    def traffic(self) -> float:
        """The number of bytes moved (`Traffic.shared`) divided by the number of distinct bytes."""
        distinct = self.read.distinct + self.written.distinct
        return (self.read.shared + self.written.shared) / distinct if distinct else 1.0

    @property
    def transactions(self) -> float:
        """The number of device-memory transactions divided by the minimum."""
        return self.device.ratio

    @property
    def products(self) -> int:
        """The number of 8x8 simdgroup_matrix multiplications."""
        return sum(n for name, n in self.calls.items() if name.startswith("simdgroup_multiply"))

    @property
    def barriers(self) -> int:
        """The number of threadgroup_barrier calls, counted once per threadgroup."""
        return self.calls.get("threadgroup_barrier", 0)

    @property
    def active(self) -> float:
        """The fraction of lanes that are active."""
        return self.instructions / (self.steps * WIDTH) if self.steps else 1.0

    @property
    def all_flops(self) -> int:
        """The number of floating-point operations, including simdgroup_matrix multiplications."""
        return self.flops + self.products * MATMUL_FLOPS

    @property
    def intensity(self) -> float:
        """The number of floating-point operations per distinct byte of device memory."""
        distinct = self.read.distinct + self.written.distinct
        return self.all_flops / distinct if distinct else 0.0


def main_position(positions: tuple[Position, ...]) -> Position:
    """Return the line of the .metal file into which an instruction was inlined."""
    return next((p for p in positions if p[0].endswith(".metal")), positions[-1] if positions else ("", 0))


class _Lines:
    def __init__(self) -> None:
        self.found: dict[tuple[Position, Position], Line] = {}

    def of(self, positions: tuple[Position, ...]) -> Line:
        """Return the line to which an instruction's counts are attributed."""
        key = (positions[0] if positions else ("", 0)), main_position(positions)
        return self.found.setdefault(key, Line(*key))


def launch_of(kernel: str, text: str, facts: Facts) -> Launch:
    """Parse the driver's JSON text into a Launch."""
    counts = json.loads(text)
    lines, total, calls = _Lines(), defaultdict(Accesses), defaultdict(int)
    for site, space, *numbers in counts["sites"]:
        kind, _, positions = facts.sites[site]
        accesses, key = Accesses(*numbers), (SPACES[space], kind)
        lines.of(positions).accesses[key].add(accesses)
        total[key].add(accesses)
    instructions = steps = flops = 0
    for block, executed, lanes in counts["blocks"]:
        size, parts = facts.blocks[block]
        instructions += size * lanes
        steps += size * executed
        for positions, each, each_flops in parts:
            line = lines.of(tuple(map(tuple, positions)))
            line.instructions += each * lanes
            line.steps += each * executed
            line.flops += each_flops * lanes
            flops += each_flops * lanes
    for function, file, number, times, _ in counts["calls"]:
        calls[function] += times
        here = (file, number)
        line = next((found for (at, _), found in lines.found.items() if at == here), None) or lines.of((here,))
        line.calls[function] = line.calls.get(function, 0) + times

    def direction(name: str, kinds: tuple[str, ...]) -> Traffic:
        asked = sum(total["device", kind].bytes for kind in kinds)
        memory = counts[name]
        return Traffic(asked, memory["moved"] * SECTOR, memory["shared"] * SECTOR, memory["distinct"])

    return Launch(kernel, counts["threads"], counts["groups"], counts["group"], counts["simdgroups"],
                  counts["threadgroup_bytes"], direction("read", ("load",)), direction("written", ("store", "atomic")),
                  {key: value for key, value in total.items() if value.requests},
                  [line for line in lines.found.values() if line.position[0]], dict(calls), instructions, steps,
                  flops)  # fmt: skip
