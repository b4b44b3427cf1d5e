"""Adds to a kernel, in LLVM's text form, the calls by which the driver counts what it does (profile_abi.h).

The text is what a GPU's compiler would get: optimised in full, for no vector unit."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .debug_lines import DebugLines
from .wide_accesses import WIDEST, Access, Pointers, chains, joined, scalar_of, size_of

LABEL = re.compile(r'^(?:[\w.$-]+|"[^"]*"):')
LOAD = re.compile(r"= load (atomic )?(?:volatile )?(.+?), ptr (%[\w.]+|@[\w.$]+).*?, align (\d+)")
STORE = re.compile(r"^\s+store (atomic )?(?:volatile )?(.+), ptr (%[\w.]+|@[\w.$]+)[^,]*, align (\d+)")
UPDATE = re.compile(r"= (?:atomicrmw (?:volatile )?\w+|cmpxchg (?:weak |volatile )*) ?ptr (%[\w.]+|@[\w.$]+), (\w+) ")
COPY = re.compile(r"call void @llvm\.mem(?:cpy|move)[\w.]*\((.*)\)")
SET = re.compile(r"call void @llvm\.memset[\w.]*\((.*)\)")
NO_WORK = re.compile(r"^#dbg|call void @llvm\.(?:lifetime|assume|dbg|experimental\.noalias)")
ONE = re.compile(r"= (?:fadd|fsub|fmul|fdiv|frem) (?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc) )*(.+?) ")
FUSED = re.compile(r"call .*?@llvm\.(?:fma|fmuladd)\.(\w+)\(")
ROOT = re.compile(r"call .*?@llvm\.sqrt\.(\w+)\(")
ANYTHING = re.compile(r"\bcall (?!.*@llvm\.)|\bfence\b")  # that may change memory
ENGINE = "mpsx_matrix_cells"  # a function that does for lanes what a GPU's matrix unit does


@dataclass
class Facts:
    """Of the instrumented module: what the numbers in the driver's counts stand for."""

    # kind, bytes, places
    sites: list[tuple[str, int, tuple]] = field(default_factory=list)
    # instructions, and [places, instructions, floating-point operations] of each line
    blocks: list[tuple[int, list]] = field(default_factory=list)


def flops_of(line: str) -> int:
    """The floating-point operations of an instruction; a fused product and sum is two."""
    if found := ONE.search(line):
        return int(found[1][1:]) if found[1].startswith("<") else 1
    for pattern, each in ((FUSED, 2), (ROOT, 1)):
        if found := pattern.search(line):
            lanes = re.match(r"v(\d+)", found[1])
            return each * (int(lanes[1]) if lanes else 1)
    return 0


class Function:
    """One function's text, being instrumented."""

    def __init__(self, lines: list[str], facts: Facts, debug: DebugLines) -> None:
        self.lines, self.facts, self.debug = lines, facts, debug
        self.pointers = Pointers()
        self.before: dict[int, list[str]] = {}
        for line in lines:
            self.pointers.note(line)

    def run(self) -> list[str]:
        """The text with calls."""
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
        """Puts a call before a line."""
        self.before.setdefault(line, []).append(f"  call void @mpsx_profile_{text}")

    def site(self, kind: str, size: int, line: int) -> int:
        """The number of a new site."""
        self.facts.sites.append((kind, size, self.debug.places(self.lines[line])))
        return len(self.facts.sites) - 1

    def block(self, begin: int, end: int) -> None:
        """The lines [begin, end)."""
        accesses: list[Access | None] = []
        work: dict[tuple, list[int]] = {}
        first, instructions = 0, 0
        for i in range(begin, end):
            text = self.lines[i].strip()
            if not re.match(r"  [^ \]]", self.lines[i]) or NO_WORK.search(text) or " = phi " in text:
                continue
            first = first or i
            instructions += 1
            counts = work.setdefault(self.debug.places(text), [0, 0])
            counts[0] += 1
            counts[1] += flops_of(text)
            self.instruction(i, accesses)
        if not first:
            return
        number = len(self.facts.blocks)
        self.facts.blocks.append((instructions, [[places, *counts] for places, counts in work.items()]))
        self.before.setdefault(first, []).insert(0, f"  call void @mpsx_profile_block(i32 {number})")
        for chain in chains(accesses, self.pointers):
            for access, size in joined(chain):
                if self.pointers.kind(access.pointer) in ("stack", "engine"):
                    continue
                site = self.site(access.kind, size, access.line)
                self.call(access.line, f"access(ptr {access.pointer}, i32 {site})")

    def instruction(self, i: int, accesses: list[Access | None]) -> None:
        """Notes what an instruction does with memory."""
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
        elif ANYTHING.search(line):
            accesses.append(None)

    def note(self, i: int, kind: str, atomic: str | None, of: str, pointer: str, alignment: int,
             accesses: list[Access | None]) -> None:  # fmt: skip
        """Notes one access."""
        size = size_of(of)
        if not size:
            return
        root, offset = self.pointers.place(pointer)
        if atomic:  # moved to no other, and so in a chain of its own
            root = f"{root} {i}"
        accesses.append(Access(i, kind, pointer, root, offset, size, scalar_of(of), alignment))

    def range(self, i: int, kind: str, argument: str, size: str) -> None:
        """Notes a copy, which becomes accesses as wide as its alignment allows."""
        if "addrspace" in argument:
            return
        pointer = argument.rsplit(maxsplit=1)[-1]
        if self.pointers.kind(pointer) in ("stack", "engine"):
            return
        aligned = re.search(r"align (\d+)", argument)
        site = self.site(kind, min(WIDEST, int(aligned[1]) if aligned else 1), i)
        self.call(i, f"range(ptr {pointer}, {size}, i32 {site})")


DECLARATIONS = """
declare void @mpsx_profile_access(ptr, i32)
declare void @mpsx_profile_range(ptr, i64, i32)
declare void @mpsx_profile_block(i32)
"""


def instrument(text: str) -> tuple[str, Facts]:
    """A module that tells the driver what it does, and what its numbers mean."""
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
