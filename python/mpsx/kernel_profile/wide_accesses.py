"""Which accesses of a thread a GPU's compiler makes one access of.

Scalars that lie next to each other, accessed in one basic block from one pointer, become one access of up to 16 bytes
if the compiler knows that it is aligned and nothing in between may change or need what they access: LLVM's
LoadStoreVectorizer, which the backends of NVIDIA's and AMD's GPUs run, and Apple's does alike."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

WIDEST = 16
GEP = re.compile(r"(%[\w.]+) = getelementptr (?:inbounds |nuw |nusw )*(.+?), ptr (%[\w.]+|@[\w.$]+)"
                 r"((?:, i(?:32|64) [^,]+)*)")
SCALARS = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}


def size_of(kind: str) -> int:
    """The bytes of a type; 0: not one that is known."""
    kind = kind.strip()
    if kind in SCALARS:
        return SCALARS[kind]
    if whole := re.fullmatch(r"i(\d+)", kind):
        return max(1, int(whole[1]) // 8)
    if several := re.fullmatch(r"[<\[](\d+) x (.+)[>\]]", kind):
        return int(several[1]) * size_of(several[2])
    return 0


def scalar_of(kind: str) -> int:
    """The bytes of a vector's component, or of a scalar."""
    several = re.fullmatch(r"<(\d+) x (.+)>", kind.strip())
    return size_of(several[2] if several else kind)


@dataclass
class Access:
    """An instruction: at `line` of the function's text, `bytes` at `offset` from `root`."""

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
    """All that is known of a function's pointers."""

    offsets: dict[str, tuple[str, int]] = field(default_factory=dict)  # of a pointer: root and constant distance
    objects: dict[str, str] = field(default_factory=dict)  # of a pointer: what it points into, whatever the distance
    kinds: dict[str, str] = field(default_factory=dict)  # of an object: stack, threadgroup, engine

    def note(self, line: str) -> None:
        """Learns from an instruction."""
        if found := GEP.match(line.strip()):
            name, kind, base, indices = found.groups()
            self.objects[name] = self.object(base)
            words = [word.split()[-1] for word in indices.split(", ") if word]
            unit = size_of(kind)
            if unit and len(words) == 1 and re.fullmatch(r"-?\d+", words[0]):
                root, offset = self.place(base)
                self.offsets[name] = root, offset + unit * int(words[0])
        elif found := re.match(r"\s*(%[\w.]+) = (.*)", line):
            if found[2].startswith("alloca"):
                self.kinds[found[1]] = "stack"
            elif "@mpsx_simt_threadgroup_variable(" in found[2]:
                self.kinds[found[1]] = "threadgroup"
            elif "@llvm.threadlocal.address" in found[2]:
                self.kinds[found[1]] = "engine"

    def place(self, pointer: str) -> tuple[str, int]:
        """The root and the distance from it."""
        return self.offsets.get(pointer, (pointer, 0))

    def object(self, pointer: str) -> str:
        """The object that it points into, as far as is known."""
        return self.objects.get(pointer, pointer)

    def kind(self, pointer: str) -> str:
        """The kind of memory; empty: one of the arguments', or unknown."""
        return self.kinds.get(self.object(pointer), "")

    def apart(self, a: Access, b: Access) -> bool:
        """Whether two accesses cannot touch the same bytes."""
        if a.root == b.root:
            return a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
        return self.kind(a.pointer) != self.kind(b.pointer)


def chains(accesses: list[Access | None], pointers: Pointers) -> list[list[Access]]:
    """Those of a block that may be moved to one place, out of its accesses in order; None: a call that may do anything
    to memory. Loads move up to the first of them, stores down to the last."""
    done: list[list[Access]] = []
    open_: list[tuple[list[Access], list[Access]]] = []  # a chain, and the stores since it began
    for access in accesses:
        if access is None or access.kind == "atomic":
            done += [chain for chain, _ in open_] + ([[access]] if access is not None else [])
            open_ = []
            continue
        kept, home = [], None
        for chain, stores in open_:
            first = chain[0]
            if first.kind == "store" and not all(pointers.apart(access, other) for other in chain):
                done.append(chain)
                continue
            kept.append((chain, stores))
            if (first.kind, first.root, first.unit) == (access.kind, access.root, access.unit) and (
                    all(pointers.apart(access, store) for store in stores) or access.kind == "store"):
                home = home or chain
        if access.kind == "store":
            for _, stores in kept:
                stores.append(access)
        if home:
            home.append(access)
        else:
            kept.append(([access], []))
        open_ = kept
    return done + [chain for chain, _ in open_]


def joined(chain: list[Access]) -> list[tuple[Access, int]]:
    """The accesses that a chain becomes: the one that each begins with, and its bytes."""
    found = []
    left = sorted(chain, key=lambda access: access.offset)
    while left:
        first, taken, end = left[0], 1, left[0].offset + left[0].bytes
        best = 1
        while taken < len(left) and left[taken].offset == end and end - first.offset < WIDEST:
            end += left[taken].bytes
            taken += 1
            total = end - first.offset
            if total <= WIDEST and total & (total - 1) == 0 and first.alignment >= total:
                best = taken
        found.append((first, sum(access.bytes for access in left[:best])))
        left = left[best:]
    return found
