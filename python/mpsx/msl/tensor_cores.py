"""Lower 8x8 matrix multiplications in PTX to tensor core instructions.

metal_stdlib/cuda/matrix.h emits one `mpsx.mma` pseudo-instruction per multiplication. A tensor core instruction has M =
16, and K = 16 for 16-bit operands. Two multiplications that accumulate into the same fragment are fused along K, and
two with the same operand B are fused along M. Fusion moves the first multiplication of a pair down to the second,
together with the instructions that use its result."""

import re
from collections import Counter
from dataclasses import dataclass

MATMUL = re.compile(r"\tmpsx\.mma\.(\w+) \{(.*?)\}, \{(.*?)\}, \{(.*?)\}, \{(.*?)\};")
REGISTER = re.compile(r"%\w+")
DESTINATION = re.compile(r"\s*(?:@!?%\w+\s+)?[\w.:]+\s+(\{[^}]*\}|[^,;]*)")
# Lines that end a straight-line sequence.
BLOCK_END = re.compile(r"\$?\w+:|\s*[{}]|.*\b(?:bra|brx|ret|exit|trap|call|reg)\b")
# Instructions that can move down, because they neither access memory nor depend on other lanes.
MOVABLE = re.compile(r"\t(?:mpsx\.mma|add|sub|mul|fma|mad|mov|neg|abs|and|or|xor|not|shl|shr|cvt|selp|setp|min|max|"
                     r"prmt|lop3|ex2)\.")


@dataclass
class Line:
    """A PTX instruction with the registers that it writes and reads. For a matmul, `a`, `b`, `c` and `d` name the
    registers of its 8x8 fragments: a[row][k], b[k], c[row] and d[row], where row and k count blocks of 8."""

    text: str
    writes: frozenset = frozenset()
    reads: frozenset = frozenset()
    kind: str = ""         # the element type of a matmul's operands
    a: tuple = ()
    b: tuple = ()
    c: tuple = ()
    d: tuple = ()

    @staticmethod
    def parse(text):
        if m := MATMUL.match(text):
            kind, d, a, b, c = m[1], *(tuple(re.split(r",\s*", m[i])) for i in range(2, 6))
            return Line.matmul(kind, ((a,),), (b,), (c,), (d,))
        if text.lstrip().startswith("//"):
            return Line(text)
        registers = frozenset(REGISTER.findall(text))
        first = DESTINATION.match(text)
        writes = frozenset(REGISTER.findall(first[1])) if first and not first[1].startswith("[") else frozenset()
        return Line(text, writes, registers)

    @staticmethod
    def matmul(kind, a, b, c, d):
        reads = [r for row in a for part in row for r in part] + [r for part in (*b, *c) for r in part]
        return Line("\tmpsx.mma.", frozenset(r for row in d for r in row),
                    frozenset(r for r in reads if r.startswith("%")), kind, a, b, c, d)

    def must_follow(self, earlier):
        return not (self.reads.isdisjoint(earlier.writes) and self.writes.isdisjoint(earlier.reads) and
                    self.writes.isdisjoint(earlier.writes))

    def print(self):
        """Return the PTX text. Missing rows of a matmul are zero."""
        if not self.kind:
            return self.text
        rows, parts = len(self.a), len(self.b)
        a = [self.a[row][part][i] if row < rows else "zero"
             for part in range(parts) for i in range(len(self.b[0])) for row in range(2)]
        c = [*self.c[0], *(self.c[1] if rows > 1 else ("zero", "zero"))]
        d = [*self.d[0], *(self.d[1] if rows > 1 else ("none", "other"))]
        shape = f"m16n8k{8 * parts}"
        text = (f"mma.sync.aligned.{shape}.row.col.f32.{self.kind}.{self.kind}.f32 {{{', '.join(d)}}}, "
                f"{{{', '.join(a)}}}, {{{', '.join(r for part in self.b for r in part)}}}, "
                f"{{{', '.join(c)}}};")
        return f"\t{text}" if rows > 1 else f"\t{{ .reg .b32 zero, none, other; mov.b32 zero, 0; {text} }}"


def lines_to_sink(lines, i, j):
    """Return the instructions between i and j that depend on i and must move below j with it. Return None if j depends
    on one of them or if one of them cannot move."""
    found, last = [i], lines[j]
    for k in range(i + 1, j):
        line = lines[k]
        if any(line.must_follow(lines[f]) for f in found):
            if not MOVABLE.match(line.text) or line.text.startswith("\t@"):
                return None
            found.append(k)
    return found[1:] if not any(last.must_follow(lines[f]) for f in found[1:]) else None


def fuse_k(lines, uses):
    """Fuse pairs of matmuls in which the second accumulates into the result of the first."""
    i = 0
    while i < len(lines):
        first = lines[i]
        j = next((j for j in range(i + 1, len(lines)) if lines[j].must_follow(first)), 0) if first.kind else 0
        second = lines[j]
        if j and second.kind == first.kind != "tf32" and second.c == first.d and \
                len(first.b) == len(second.b) == 1 and \
                (second.d == first.d or all(uses[r] == 2 for r in first.writes)):
            lines[i:j + 1] = [*lines[i + 1:j],
                              Line.matmul(first.kind, ((*first.a[0], *second.a[0]),), first.b + second.b, first.c,
                                          second.d)]
        else:
            i += 1


def fuse_m(lines):
    """Fuse pairs of matmuls that share operand B."""
    i = 0
    while i < len(lines):
        first, i = lines[i], i + 1
        if not first.kind or len(first.a) > 1:
            continue
        j = next((j for j in range(i, len(lines)) if lines[j].kind == first.kind and lines[j].b == first.b and
                  len(lines[j].a) == 1), 0)
        sink = lines_to_sink(lines, i - 1, j) if j else None
        if sink is not None and not lines[j].must_follow(first):
            second = lines[j]
            fused = Line.matmul(first.kind, first.a + second.a, first.b, first.c + second.c, first.d + second.d)
            stay = [lines[k] for k in range(i, j) if k not in set(sink)]
            lines[i - 1:j + 1] = [*stay, fused, *(lines[k] for k in sink)]
            i -= 1


def lower_matmuls(text):
    """Lower the matmuls of a PTX text to instructions."""
    return "\n}\n".join(map(lower_function, text.split("\n}\n")))


def lower_function(text):
    """Lower the matmuls of one PTX function to instructions."""
    if "mpsx.mma." not in text:
        return text
    uses = Counter(REGISTER.findall(text))
    out, block = [], []

    def flush():
        if any(line.kind for line in block):
            fuse_k(block, uses)
            fuse_m(block)
        out.extend(line.print() for line in block)
        block.clear()

    for line in text.split("\n"):
        if "mpsx.mma." not in line and BLOCK_END.match(line):
            flush()
            out.append(line)
        elif not line.endswith(" inline asm"):
            block.append(Line.parse(line))
    flush()
    return "\n".join(out)
