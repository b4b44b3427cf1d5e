"""Products of 8x8 matrices in PTX as instructions of tensor cores.

metal_stdlib/cuda/matrix.h writes a line for each product of two blocks. An instruction has 16 rows and, of 16-bit
numbers, a depth of 16: two products that add to the same sum become one, and so do two with the same right factor. The
first of such a pair is done where the second stands, and what uses its result moves behind."""

import re
from collections import Counter
from dataclasses import dataclass

PRODUCT = re.compile(r"\tmpsx\.product\.(\w+) \{(.*?)\}, \{(.*?)\}, \{(.*?)\}, \{(.*?)\};")
REGISTER = re.compile(r"%\w+")
FIRST = re.compile(r"\s*(?:@!?%\w+\s+)?[\w.:]+\s+(\{[^}]*\}|[^,;]*)")
# Ends a run of lines that are executed one after the other.
EDGE = re.compile(r"\$?\w+:|\s*[{}]|.*\b(?:bra|brx|ret|exit|trap|call|reg)\b")
# Instructions that may be done later: they neither access memory nor depend on other lanes.
MOVABLE = re.compile(r"\t(?:mpsx\.product|add|sub|mul|fma|mad|mov|neg|abs|and|or|xor|not|shl|shr|cvt|selp|setp|min|max|"
                     r"prmt|lop3|ex2)\.")


@dataclass
class Line:
    """One line or one product, and the registers that it writes and reads."""
    text: str
    writes: frozenset = frozenset()
    reads: frozenset = frozenset()
    kind: str = ""         # of a product
    left: tuple = ()       # a tuple of registers for each 8 rows and 8 of depth: rows outside
    right: tuple = ()      # for each 8 of depth
    sums: tuple = ()       # pairs of registers for each 8 rows
    results: tuple = ()

    @staticmethod
    def parse(text):
        if m := PRODUCT.match(text):
            kind, result, left, right, start = m[1], *(tuple(re.split(r",\s*", m[i])) for i in range(2, 6))
            return Line.product(kind, ((left,),), (right,), (start,), (result,))
        if text.lstrip().startswith("//"):
            return Line(text)
        registers = frozenset(REGISTER.findall(text))
        first = FIRST.match(text)
        writes = frozenset(REGISTER.findall(first[1])) if first and not first[1].startswith("[") else frozenset()
        return Line(text, writes, registers)

    @staticmethod
    def product(kind, left, right, sums, results):
        reads = [r for row in left for part in row for r in part] + [r for part in (*right, *sums) for r in part]
        return Line("\tmpsx.product.", frozenset(r for row in results for r in row),
                    frozenset(r for r in reads if r.startswith("%")), kind, left, right, sums, results)

    def must_follow(self, earlier):
        return not (self.reads.isdisjoint(earlier.writes) and self.writes.isdisjoint(earlier.reads) and
                    self.writes.isdisjoint(earlier.writes))

    def print(self):
        """As an instruction, with zeros for the rows that there are not."""
        if not self.kind:
            return self.text
        rows, parts = len(self.left), len(self.right)
        left = [self.left[row][part][i] if row < rows else "zero"
                for part in range(parts) for i in range(len(self.right[0])) for row in range(2)]
        sums = [*self.sums[0], *(self.sums[1] if rows > 1 else ("zero", "zero"))]
        results = [*self.results[0], *(self.results[1] if rows > 1 else ("none", "other"))]
        shape = f"m16n8k{8 * parts}"
        text = (f"mma.sync.aligned.{shape}.row.col.f32.{self.kind}.{self.kind}.f32 {{{', '.join(results)}}}, "
                f"{{{', '.join(left)}}}, {{{', '.join(r for part in self.right for r in part)}}}, "
                f"{{{', '.join(sums)}}};")
        return f"\t{text}" if rows > 1 else f"\t{{ .reg .b32 zero, none, other; mov.b32 zero, 0; {text} }}"


def moved_behind(lines, i, j):
    """Lines between i and j that have to stay behind i; none: j is one of them, or one cannot move."""
    found, last = [i], lines[j]
    for k in range(i + 1, j):
        line = lines[k]
        if any(line.must_follow(lines[f]) for f in found):
            if not MOVABLE.match(line.text) or line.text.startswith("\t@"):
                return None
            found.append(k)
    return found[1:] if not any(last.must_follow(lines[f]) for f in found[1:]) else None


def deepened(lines, mentions):
    """Puts two products of which one adds to the other's result in the second's place."""
    i = 0
    while i < len(lines):
        first = lines[i]
        j = next((j for j in range(i + 1, len(lines)) if lines[j].must_follow(first)), 0) if first.kind else 0
        second = lines[j]
        if j and second.kind == first.kind != "tf32" and second.sums == first.results and \
                len(first.right) == len(second.right) == 1 and \
                (second.results == first.results or all(mentions[r] == 2 for r in first.writes)):
            lines[i:j + 1] = [*lines[i + 1:j],
                              Line.product(first.kind, ((*first.left[0], *second.left[0]),),
                                           first.right + second.right, first.sums, second.results)]
        else:
            i += 1


def widened(lines):
    """Puts two products with the same right factor in the second's place."""
    i = 0
    while i < len(lines):
        first, i = lines[i], i + 1
        if not first.kind or len(first.left) > 1:
            continue
        j = next((j for j in range(i, len(lines)) if lines[j].kind == first.kind and lines[j].right == first.right and
                  len(lines[j].left) == 1), 0)
        behind = moved_behind(lines, i - 1, j) if j else None
        if behind is not None and not lines[j].must_follow(first):
            second = lines[j]
            merged = Line.product(first.kind, first.left + second.left, first.right, first.sums + second.sums,
                                  first.results + second.results)
            stay = [lines[k] for k in range(i, j) if k not in set(behind)]
            lines[i - 1:j + 1] = [*stay, merged, *(lines[k] for k in behind)]
            i -= 1


def with_tensor_cores(text):
    """A PTX text whose products are instructions."""
    return "\n}\n".join(map(function_with_tensor_cores, text.split("\n}\n")))


def function_with_tensor_cores(text):
    """The same of one function."""
    if "mpsx.product." not in text:
        return text
    mentions = Counter(REGISTER.findall(text))
    out, run = [], []

    def flush():
        if any(line.kind for line in run):
            deepened(run, mentions)
            widened(run)
        out.extend(line.print() for line in run)
        run.clear()

    for line in text.split("\n"):
        if "mpsx.product." not in line and EDGE.match(line):
            flush()
            out.append(line)
        elif not line.endswith(" inline asm"):
            run.append(Line.parse(line))
    flush()
    return "\n".join(out)
