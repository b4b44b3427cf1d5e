"""Bound compile times by limiting how much code inlining and unrolling can produce.

Every function of a shader is inlined, because a call would prevent the loop over threads from being vectorized. Sizes
multiply: adding two points on an elliptic curve takes a hundred big-integer multiplications, and each of them has a
thousand instructions after unrolling. Therefore clang first writes unoptimized LLVM IR as text, and this module
estimates the sizes from it, callees first. If a kernel or a library exceeds its limit, large functions that would be
inlined several times become calls. For functions of that size, the cost of a call is negligible. Smaller shaders
compile unchanged.

Functions that may wait for other threads stay inline, because the SIMT engine distinguishes such calls by address."""

import re
from dataclasses import dataclass, field

# Limits on the estimated number of instructions: of one kernel, of all kernels above a third of that limit together,
# and of a function whose loops may be unrolled. 10,000 instructions compile in one to three seconds. The limits of mode
# auto are higher, because only in that mode can a call prevent the vectorization of the loop over threads.
LIMITS = {"auto": (8000, 16000, 20000)}
OTHER_LIMITS = (6000, 12000, 8000)
MIN_CALL_SIZE = 200  # smaller functions are always inlined
# The estimated size up to which LLVM unrolls a loop, with and without `#pragma unroll`. LLVM's own limits are lower
# (16384, and 600 with a factor of up to 4), but they apply after simplification.
PRAGMA_UNROLL_LIMIT = 65536
UNROLL_LIMIT = 2400

DEFINE = re.compile(r"^define [^\n]*?@(\"[^\"]+\"|[\w.$]+)\([^\n]*?\) [^\n{]*?#(\d+)[^\n{]*\{\n(.*?)^\}", re.M | re.S)
ATTRIBUTES = re.compile(r"^attributes #(\d+) = \{ (.*) \}$", re.M)
METADATA = re.compile(r"^(!\d+) = (?:distinct )?!\{(.*)\}$", re.M)
LABEL = re.compile(r"^(\"[^\"]+\"|[\w.$-]+):")
CALL = re.compile(r"\b(?:call|invoke) .*?@(\"[^\"]+\"|[\w.$]+)\(")
BACK_EDGE = re.compile(r"^  br .*!llvm\.loop (!\d+)")
TARGETS = re.compile(r"label %(\"[^\"]+\"|[\w.$-]+)")
COMPARE = re.compile(r"icmp \w+ i\d+ %[\w.\"-]+, (-?\d+)(?:,|$)")
LOAD = re.compile(r"%\S+ = load i\d+, ptr (%\S+?),")
STEP = re.compile(r" = (?:add|sub)(?: nsw| nuw)* i\d+ %[\w.\"-]+, (-?\d+)(?:,|$)")
# Instructions that later passes remove or fold into other instructions.
FREE = re.compile(r"^(?:%\S+ = (?:alloca|load|getelementptr|bitcast|addrspacecast)|store|br|ret|unreachable|switch"
                  r"|#dbg_\w+|call void @llvm\.(?:lifetime|dbg))\b")  # fmt: skip
COPY = re.compile(r"@llvm\.mem\w+\..*, i64 (\d+),")
SYNCHRONIZING = re.compile(r"mpsx_simt_|llvm\.nvvm\.(?:barrier|shfl|vote|bar|match|redux)|asm (?:sideeffect|volatile)")


@dataclass
class Loop:
    begin: int  # line of the loop's header
    end: int  # line after the loop's back edge
    metadata: str
    trips: int  # the trip count, or 0 if unknown


@dataclass
class Function:
    name: str
    group: str  # number of the attribute group
    inlined: bool  # whether it has the attribute alwaysinline
    lines: list
    loops: list = field(default_factory=list)
    calls: list = field(default_factory=list)  # (line, name)
    weights: list = field(default_factory=list)  # instructions per line, not counting callees
    copies: list = field(default_factory=list)  # copies per line after unrolling
    synchronizes: bool = False  # whether its own code may wait for other threads
    size: int = 0


def functions_of(text):
    """Return the functions defined in the module, by name."""
    groups = dict(ATTRIBUTES.findall(text))
    found = {}
    for name, group, body in DEFINE.findall(text):
        words = groups.get(group, "").split()
        f = Function(name, group, "alwaysinline" in words, [line.rstrip() for line in body.split("\n")])
        labels = {}
        for i, line in enumerate(f.lines):
            if label := LABEL.match(line):
                labels[label[1]] = i
            elif call := CALL.search(line):
                f.calls.append((i, call[1]))
                f.synchronizes = f.synchronizes or bool(SYNCHRONIZING.search(line))
            elif "asm " in line:
                f.synchronizes = f.synchronizes or bool(SYNCHRONIZING.search(line))
            if edge := BACK_EDGE.match(line):
                heads = [labels[t] for t in TARGETS.findall(line) if t in labels]
                if heads:
                    f.loops.append(Loop(min(heads), i + 1, edge[1], trip_count(f.lines, min(heads), i)))
            f.weights.append(weight(line))
        found[name] = f
    return found


def weight(line):
    """Return the number of instructions that a line of LLVM IR lowers to, not counting its callee."""
    if not line or LABEL.match(line) or FREE.match(line.lstrip()):
        return 0
    if copied := COPY.search(line):
        return 1 + int(copied[1]) // 8
    return 1 + 8 * len(re.findall(r"\b(?:byval|sret)\(", line))


def trip_count(lines, head, back):
    """Return the trip count of a loop with constant bounds, as in `for (i = 0; i < 8; ++i)`, or 0 if it is unknown."""
    for i in range(head, back + 1):
        compare = COMPARE.search(lines[i])
        if not compare or i + 1 >= len(lines) or not lines[i + 1].lstrip().startswith("br i1"):
            continue
        variable = next((m[1] for k in range(i - 1, max(head, i - 5), -1) if (m := LOAD.search(lines[k]))), None)
        if variable is None:
            return 0
        start = re.compile(rf"store i\d+ (-?\d+), ptr {re.escape(variable)},")
        first = next((int(m[1]) for k in range(head - 1, -1, -1) if (m := start.search(lines[k]))), None)
        stored = re.compile(rf"store i\d+ %\S+, ptr {re.escape(variable)},")
        step = next((m for k in range(back, head, -1) if stored.search(lines[k])
                     for j in range(k - 1, max(head, k - 4), -1) if (m := STEP.search(lines[j]))), None)
        if first is None or step is None or not step[1] or int(step[1]) == 0:
            return 0
        return max(1, -(-abs(int(compare[1]) - first) // abs(int(step[1]))))
    return 0


class Estimate:
    """Estimated sizes of a module's functions, and decisions on which functions become calls and which loops stay
    rolled."""

    def __init__(self, text, mode):
        self.kernel_limit, self.library_limit, self.unroll_limit = LIMITS.get(mode, OTHER_LIMITS)
        self.functions = functions_of(text)
        self.metadata = dict(METADATA.findall(text))
        self.calls, self.rolled = set(), set()  # functions that become calls, metadata of rolled loops
        self.order = self.callees_first()
        self.synchronizing = set()
        for f in self.order:
            if f.synchronizes or any(name in self.synchronizing for _, name in f.calls):
                self.synchronizing.add(f.name)
        self.measure()

    def callees_first(self):
        order, seen = [], set()
        for root in self.functions:
            todo = [(root, False)]
            while todo:
                name, done = todo.pop()
                if done:
                    order.append(self.functions[name])
                elif name in self.functions and name not in seen:
                    seen.add(name)
                    todo.append((name, True))
                    todo += [(callee, False) for _, callee in self.functions[name].calls]
        return order

    def roots(self):
        """Return the functions that are not inlined or that no function calls, such as entry points."""
        called = {name for f in self.order for _, name in f.calls}
        return [f for f in self.order if f.name not in called or not f.inlined]

    def is_unrolled(self, loop, size):
        hints = " ".join(self.metadata.get(m, "") for m in re.findall(r"!\d+", self.metadata.get(loop.metadata, "")))
        if not loop.trips or "unroll.disable" in hints or loop.metadata in self.rolled:
            return False
        requested = "unroll.full" in hints or "unroll.enable" in hints or "unroll.count" in hints
        return loop.trips * size <= (PRAGMA_UNROLL_LIMIT if requested else UNROLL_LIMIT)

    def measure(self):
        for f in self.order:
            f.size = self.size_of(f)

    def size_of(self, f):
        """Return the number of instructions in a function after inlining and unrolling, inner loops first."""
        weights, f.copies = [*f.weights], [1] * len(f.lines)
        for i, name in f.calls:
            callee = self.functions.get(name)
            if callee and callee.inlined and name not in self.calls and callee is not f:
                weights[i] = callee.size
        for loop in sorted(f.loops, key=lambda loop: loop.end - loop.begin):
            size = sum(weights[loop.begin : loop.end])
            if self.is_unrolled(loop, size):
                for k in range(loop.begin, loop.end):
                    weights[k] *= loop.trips
                    f.copies[k] *= loop.trips
        return sum(weights)

    def is_large(self):
        sizes = [f.size for f in self.roots()]
        counted = sum(s for s in sizes if 3 * s > self.kernel_limit)
        return max(sizes, default=0) > self.kernel_limit or counted > self.library_limit

    def reduce(self):
        """Turn functions into calls until the kernels are small enough, then keep loops rolled in functions that are
        still too large. Start with the smallest functions, because they are expanded most often."""
        if not self.is_large():
            return
        candidates = sorted((f for f in self.order if f.inlined and f.size >= MIN_CALL_SIZE
                             and f.name not in self.synchronizing), key=lambda f: f.size)  # fmt: skip
        for f in candidates:
            if not self.is_large():
                break
            self.measure()
            if f.size >= MIN_CALL_SIZE and self.expansions(f) > 1:
                self.calls.add(f.name)
                self.measure()
        for f in self.order:
            for loop in sorted(f.loops, key=lambda loop: loop.begin - loop.end):
                if f.size > self.unroll_limit:
                    self.rolled.add(loop.metadata)
                    self.measure()

    def expansions(self, f):
        """Return how many copies of a function its callers contain after unrolling."""
        return sum(g.copies[i] for g in self.order for i, name in g.calls if name == f.name)


def apply_decisions(text, estimate):
    """Apply the decisions of an Estimate to the module's text, and return the result."""
    groups = dict(ATTRIBUTES.findall(text))
    names, added = {}, []
    for name in estimate.calls:
        group = estimate.functions[name].group
        if group not in names:
            names[group] = str(len(groups) + len(names) + 1000)
            words = " ".join("noinline" if w == "alwaysinline" else w for w in groups[group].split(" "))
            added.append(f"attributes #{names[group]} = {{ {words} }}")
        head = re.compile(rf"^(define [^\n]*?@{re.escape(name)}\([^\n]*?\) [^\n{{]*?)#{group}\b", re.M)
        text = head.sub(lambda m, group=group: f"{m[1]}#{names[group]}", text)
    number = max(map(int, re.findall(r"^!(\d+) = ", text, re.M)), default=0) + 1
    for loop in estimate.rolled:
        kept = [m for m in re.findall(r"!\d+", estimate.metadata[loop])
                if m != loop and "llvm.loop.unroll" not in estimate.metadata.get(m, "")]  # fmt: skip
        text = re.sub(rf"^{loop} = .*$", f"{loop} = distinct !{{{', '.join([loop, *kept, f'!{number}'])}}}", text,
                      flags=re.M)  # fmt: skip
    if estimate.rolled:
        added.append(f'!{number} = !{{!"llvm.loop.unroll.disable"}}')
    return text + "\n".join(["", *added, ""]) if added else text


def limit_code_size(text, mode):
    """Edit the LLVM IR `text` to compile its kernels in bounded time. `mode` is the translator's mode."""
    estimate = Estimate(text, mode)
    estimate.reduce()
    return apply_decisions(text, estimate)
