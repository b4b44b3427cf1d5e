"""Predict how a GPU compiler merges a thread's memory accesses.

Within a basic block, accesses to adjacent scalars through one pointer become a single access of up to 16 bytes. The
compiler must be able to prove that the access is aligned and that nothing in between accesses the same memory. LLVM's
LoadStoreVectorizer does this in the backends for NVIDIA and AMD GPUs, and Apple's compiler behaves similarly."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_BYTES = 16
GEP = re.compile(r"(%[\w.]+) = getelementptr (?:inbounds |nuw |nusw )*(.+?), ptr (%[\w.]+|@[\w.$]+)"
                 r"((?:, i(?:32|64) [^,]+)*)")
SCALARS = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}


def size_of(kind: str) -> int:
    """Return the size of a type in bytes, or 0 if it is unknown."""
    kind = kind.strip()
    if kind in SCALARS:
        return SCALARS[kind]
    if whole := re.fullmatch(r"i(\d+)", kind):
        return max(1, int(whole[1]) // 8)
    if several := re.fullmatch(r"[<\[](\d+) x (.+)[>\]]", kind):
        return int(several[1]) * size_of(several[2])
    return 0


def scalar_of(kind: str) -> int:
    """Return the size in bytes of a scalar or of a vector's component."""
    several = re.fullmatch(r"<(\d+) x (.+)>", kind.strip())
    return size_of(several[2] if several else kind)


@dataclass
class Access:
    """A memory access by the instruction at `line`: `bytes` bytes at `offset` from the pointer `root`."""

    line: int
    kind: str  # load, store, atomic
    pointer: str
    root: str
    offset: int
    bytes: int
    unit: int
    alignment: int


@dataclass
class Pointers:
    """The roots, offsets and memory kinds of a function's pointers."""

    offsets: dict[str, tuple[str, int]] = field(default_factory=dict)  # pointer -> (root, constant offset)
    objects: dict[str, str] = field(default_factory=dict)  # pointer -> object that it points into
    kinds: dict[str, str] = field(default_factory=dict)  # object -> "stack", "threadgroup" or "engine"

    def note(self, line: str) -> None:
        """Record the pointer that an instruction defines."""
        if found := GEP.match(line.strip()):
            name, kind, base, indices = found.groups()
            self.objects[name] = self.object(base)
            words = [word.split()[-1] for word in indices.split(", ") if word]
            unit = size_of(kind)
            if unit and len(words) == 1 and re.fullmatch(r"-?\d+", words[0]):
                root, offset = self.address(base)
                self.offsets[name] = root, offset + unit * int(words[0])
        elif found := re.match(r"\s*(%[\w.]+) = (.*)", line):
            if found[2].startswith("alloca"):
                self.kinds[found[1]] = "stack"
            elif "@mpsx_simt_threadgroup_variable(" in found[2]:
                self.kinds[found[1]] = "threadgroup"
            elif "@llvm.threadlocal.address" in found[2]:
                self.kinds[found[1]] = "engine"

    def address(self, pointer: str) -> tuple[str, int]:
        """Return the base pointer from which a pointer is computed, and the constant offset."""
        return self.offsets.get(pointer, (pointer, 0))

    def object(self, pointer: str) -> str:
        """Return the object that a pointer points into, or the pointer itself if that is unknown."""
        return self.objects.get(pointer, pointer)

    def kind(self, pointer: str) -> str:
        """Return the kind of memory, or "" for arguments and unknown memory."""
        return self.kinds.get(self.object(pointer), "")

    def disjoint(self, a: Access, b: Access) -> bool:
        """Return whether two accesses are known to touch different bytes."""
        if a.root == b.root:
            return a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
        return self.kind(a.pointer) != self.kind(b.pointer)


def chains(accesses: list[Access | None], pointers: Pointers) -> list[list[Access]]:
    """Group those accesses of a basic block that may be merged. A None in `accesses` is a call that may access any
    memory. Loads move up to the first load of their chain, and stores move down to the last store."""
    done: list[list[Access]] = []
    open_: list[tuple[list[Access], list[Access]]] = []  # (chain, stores since its first access)
    for access in accesses:
        if access is None or access.kind == "atomic":
            done += [chain for chain, _ in open_] + ([[access]] if access is not None else [])
            open_ = []
            continue
        kept, target = [], None
        for chain, stores in open_:
            first = chain[0]
            if first.kind == "store" and not all(pointers.disjoint(access, other) for other in chain):
                done.append(chain)
                continue
            kept.append((chain, stores))
            if (first.kind, first.root, first.unit) == (access.kind, access.root, access.unit) and (
                    all(pointers.disjoint(access, store) for store in stores) or access.kind == "store"):
                target = target or chain
        if access.kind == "store":
            for _, stores in kept:
                stores.append(access)
        if target:
            target.append(access)
        else:
            kept.append(([access], []))
        open_ = kept
    return done + [chain for chain, _ in open_]


def merged(chain: list[Access]) -> list[tuple[Access, int]]:
    """Merge the accesses of a chain. Return the first access and the size in bytes of each merged group."""
    found = []
    left = sorted(chain, key=lambda access: access.offset)
    while left:
        first, taken, end = left[0], 1, left[0].offset + left[0].bytes
        best = 1
        while taken < len(left) and left[taken].offset == end and end - first.offset < MAX_BYTES:
            end += left[taken].bytes
            taken += 1
            total = end - first.offset
            if total <= MAX_BYTES and total & (total - 1) == 0 and first.alignment >= total:
                best = taken
        found.append((first, sum(access.bytes for access in left[:best])))
        left = left[best:]
    return found
