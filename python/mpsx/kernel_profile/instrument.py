"""Instrument a kernel's LLVM IR with calls that let the driver count what it executes (profile_abi.h).

The IR is fully optimized but not vectorized, like the input of a GPU backend."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..msl.code_size import LABEL
from .debug_lines import DebugLines
from .wide_accesses import MAX_BYTES, Access, Pointers, chains, merged, scalar_of, size_of

LOAD = re.compile(r"= load (atomic )?(?:volatile )?(.+?), ptr (%[\w.]+|@[\w.$]+).*?, align (\d+)")
STORE = re.compile(r"^\s+store (atomic )?(?:volatile )?(.+), ptr (%[\w.]+|@[\w.$]+)[^,]*, align (\d+)")
UPDATE = re.compile(r"= (?:atomicrmw (?:volatile )?\w+|cmpxchg (?:weak |volatile )*) ?ptr (%[\w.]+|@[\w.$]+), (\w+) ")
COPY = re.compile(r"call void @llvm\.mem(?:cpy|move)[\w.]*\((.*)\)")
SET = re.compile(r"call void @llvm\.memset[\w.]*\((.*)\)")
NO_WORK = re.compile(r"^#dbg|call void @llvm\.(?:lifetime|assume|dbg|experimental\.noalias)")
ARITHMETIC = re.compile(r"= (?:fadd|fsub|fmul|fdiv|frem) (?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc) )*(.+?) ")
FMA = re.compile(r"call .*?@llvm\.(?:fma|fmuladd)\.(\w+)\(")
SQRT = re.compile(r"call .*?@llvm\.sqrt\.(\w+)\(")
BARRIER = re.compile(r"\bcall (?!.*@llvm\.)|\bfence\b")  # may change any memory
ENGINE = "mpsx_matrix_elements"  # emulates a GPU's matrix unit, so it is not instrumented


@dataclass
class Facts:
    """The kernel's memory-access sites and basic blocks. The driver's counts refer to them by number."""

    # (kind, bytes, positions)
    sites: list[tuple[str, int, tuple]] = field(default_factory=list)
    # (instructions in the block, [positions, instructions, floating-point operations] for each line)
    blocks: list[tuple[int, list]] = field(default_factory=list)


def flops_of(line: str) -> int:
    """Return the number of floating-point operations in an instruction. An fma counts as two."""
    if found := ARITHMETIC.search(line):
        return int(found[1][1:]) if found[1].startswith("<") else 1
    for pattern, each in ((FMA, 2), (SQRT, 1)):
        if found := pattern.search(line):
            lanes = re.match(r"v(\d+)", found[1])
            return each * (int(lanes[1]) if lanes else 1)
    return 0


class Function:
    """Instruments one function."""

    def __init__(self, lines: list[str], facts: Facts, debug: DebugLines) -> None:
        self.lines, self.facts, self.debug = lines, facts, debug
        self.pointers = Pointers()
        self.before: dict[int, list[str]] = {}
        for line in lines:
            self.pointers.note(line)

    def run(self) -> list[str]:
        """Instrument the function. Return its lines, including the inserted calls."""
        start = 1
        for i in range(1, len(self.lines) + 1):
            if i == len(self.lines) or LABEL.match(self.lines[i]) or self.lines[i].startswith("}"):
                if i > start:
                    self.block(start, i)
                start = i
        out = []
        for i, line in enumerate(self.lines):
            out += self.before.get(i, ())
            out.append(line)
        return out

    def call(self, line: int, text: str) -> None:
        """Insert a call before a line."""
        self.before.setdefault(line, []).append(f"  call void @mpsx_profile_{text}")

    def site(self, kind: str, size: int, line: int) -> int:
        """Add a memory-access site and return its number."""
        self.facts.sites.append((kind, size, self.debug.positions(self.lines[line])))
        return len(self.facts.sites) - 1

    def block(self, begin: int, end: int) -> None:
        """Instrument the basic block of lines [begin, end)."""
        accesses: list[Access | None] = []
        work: dict[tuple, list[int]] = {}
        first, instructions = 0, 0
        for i in range(begin, end):
            text = self.lines[i].strip()
            if not re.match(r"  [^ \]]", self.lines[i]) or NO_WORK.search(text) or " = phi " in text:
                continue
            first = first or i
            instructions += 1
            counts = work.setdefault(self.debug.positions(text), [0, 0])
            counts[0] += 1
            counts[1] += flops_of(text)
            self.instruction(i, accesses)
        if not first:
            return
        number = len(self.facts.blocks)
        self.facts.blocks.append((instructions, [[positions, *counts] for positions, counts in work.items()]))
        self.before.setdefault(first, []).insert(0, f"  call void @mpsx_profile_block(i32 {number})")
        for chain in chains(accesses, self.pointers):
            for access, size in merged(chain):
                if self.pointers.kind(access.pointer) in ("stack", "engine"):
                    continue
                site = self.site(access.kind, size, access.line)
                self.call(access.line, f"access(ptr {access.pointer}, i32 {site})")

    def instruction(self, i: int, accesses: list[Access | None]) -> None:
        """Record the memory accesses of an instruction."""
        line = self.lines[i]
        if found := LOAD.search(line):
            self.note(i, "load", found[1], found[2], found[3], int(found[4]), accesses)
        elif found := STORE.match(line):
            kind = re.match(r"<.*?>|\S+", found[2])[0]
            self.note(i, "store", found[1], kind, found[3], int(found[4]), accesses)
        elif found := UPDATE.search(line):
            self.note(i, "atomic", None, found[2], found[1], 0, accesses)
        elif found := COPY.search(line):
            accesses.append(None)
            to, source, size = (word.strip() for word in found[1].split(", ")[:3])
            self.range(i, "load", source, size)
            self.range(i, "store", to, size)
        elif found := SET.search(line):
            accesses.append(None)
            words = found[1].split(", ")
            self.range(i, "store", words[0].strip(), words[2].strip())
        elif BARRIER.search(line):
            accesses.append(None)

    def note(self, i: int, kind: str, atomic: str | None, of: str, pointer: str, alignment: int,
             accesses: list[Access | None]) -> None:  # fmt: skip
        """Record one memory access."""
        size = size_of(of)
        if not size:
            return
        root, offset = self.pointers.address(pointer)
        if atomic:  # atomics are never merged, so each gets a unique root
            root = f"{root} {i}"
        accesses.append(Access(i, kind, pointer, root, offset, size, scalar_of(of), alignment))

    def range(self, i: int, kind: str, argument: str, size: str) -> None:
        """Record a memcpy or memset as accesses of the widest size that its alignment allows."""
        if "addrspace" in argument:
            return
        pointer = argument.rsplit(maxsplit=1)[-1]
        if self.pointers.kind(pointer) in ("stack", "engine"):
            return
        aligned = re.search(r"align (\d+)", argument)
        site = self.site(kind, min(MAX_BYTES, int(aligned[1]) if aligned else 1), i)
        self.call(i, f"range(ptr {pointer}, {size}, i32 {site})")


DECLARATIONS = """
declare void @mpsx_profile_access(ptr, i32)
declare void @mpsx_profile_range(ptr, i64, i32)
declare void @mpsx_profile_block(i32)
"""


def instrument(text: str) -> tuple[str, Facts]:
    """Return the instrumented module with its sites and blocks."""
    lines = text.split("\n")
    debug, facts, out = DebugLines(lines), Facts(), []
    i = 0
    while i < len(lines):
        if not lines[i].startswith("define "):
            out.append(lines[i])
            i += 1
            continue
        end = lines.index("}", i) + 1
        function = lines[i:end]
        out += function if ENGINE in lines[i] else Function(function, facts, debug).run()
        i = end
    return "\n".join(out) + DECLARATIONS, facts
