"""Lower AIR to LLVM IR that clang compiles for this machine.

All address spaces become one. The lowering drops assumptions by Apple's compiler that a wrong launch would violate
(aliasing, nonnull pointers, signed overflow). It also drops fast-math flags, so that results do not depend on the
optimizer. The driver allocates threadgroup variables. Function constants get their values, and the variables that
depend on them are thread-local; the entry point computes them, and LLVM folds the result."""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import intrinsics
from .ir import NAME, AirError, Function, Module, split

SPACE = re.compile(r" ?addrspace\(\d+\)")
FLAGS = re.compile(r"(?<= )(?:nsw|nuw|exact|disjoint|nneg|samesign|fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|"
                   r"noundef|nonnull|nocapture|noalias|readonly|writeonly|readnone|immarg|returned|signext|zeroext|"
                   r"captures\([^)]*\)|dereferenceable\(\d+\)|align \d+(?= [%@])|range\([^)]*\)|local_unnamed_addr|"
                   r"fastcc|tail|musttail|notail) ")  # fmt: skip
ATTACHMENT = re.compile(r", ![\w.]+ !\d+| #\d+$", re.M)
DROPPED = re.compile(r"@llvm\.(?:lifetime\.|assume|experimental\.noalias|dbg\.|donothing)")
VALUE = re.compile(r"%(?=\d)")
LABEL = re.compile(r"^(\d+):.*")
MEMORY_NAME = re.compile(r"(@llvm\.mem\w+)((?:\.p\d+)+)")
CAST = re.compile(r"addrspacecast ptr (\S+) to ptr")
CAST_EXPRESSION = re.compile(rf"(?:addrspacecast|bitcast) \(ptr (@{NAME}) to ptr\)")
DIVISION = re.compile(r"^(  (%\S+) = ([su])(div|rem) (.+?) )(\S+|<.*?>|splat \(.*?\)), (.+)$")
SAFE_DIVISOR = re.compile(r"^(?:[1-9]\d*|-[2-9]\d*|-1\d+)$")
GLOBAL = re.compile(rf"^@({NAME}) = (.*?)\b(global|constant) (.*)$")
SECTION = re.compile(r", (?:section \"[^\"]*\"|comdat(?:\(\$\S+\))?|align \d+)")
EXPRESSION = re.compile(r"\b(getelementptr(?: inbounds)?|ptrtoint|bitcast|addrspacecast|inttoptr) \(")
UNDEFINED = re.compile(r" (?:undef|poison|zeroinitializer)$")
# Replacements in a function's text.
REPLACEMENTS = ((ATTACHMENT, ""), (SPACE, ""), (FLAGS, ""), (VALUE, "%v"), (CAST, r"bitcast ptr \1 to ptr"),
                (CAST_EXPRESSION, r"\1"))
# Apple's compiler represents a simdgroup_matrix by 64 elements. A lane uses the first two.
MATRIX = re.compile(r"<64 x (float|half|bfloat)>")
MATRIX_ELEMENT = re.compile(r" = (?:extract|insert)element .*, i\d+ (\d+)$")
MATRIX_CONSTANT = re.compile(r"(<64 x (\w+)> <\2 [^,>]+, \2 [^,>]+)[^>]*>")
CALLEE = re.compile(rf"\bcall .*?@({NAME})\(")
INLINE_LINES = 1000  # length of a kernel up to which all calls are inlined when threads run in a loop
FMULADD = re.compile(r"^  (%\S+) = call (.+?) @llvm\.fmuladd\.\w+\((.*)\)$")


@dataclass
class Lowered:
    """A lowered module, without an entry point."""

    text: str
    kernel: Function
    threadgroup_types: list[str]  # types of the threadgroup variables
    initializers: list[str]  # functions that compute variables from function constants
    synchronizes: bool  # whether threads wait for each other


class Lowering:
    """Lowers one module. `symbol` is the function that implements the kernel. `constants` maps the variables of
    function constants to their types and values."""

    def __init__(self, module: Module, symbol: str, constants: dict[str, str]) -> None:
        self.module, self.symbol, self.constants = module, symbol, constants
        self.threadgroup: dict[str, tuple[int, str]] = {}  # variable -> (key, type)
        self.globals: list[str] = []
        self.divisors: set[tuple[str, str]] = set()
        self.waiting: set[str] = set()  # functions that may wait for other threads
        self.callees = {f.name: [name for line in f.lines if "call " in line for name in CALLEE.findall(line)]
                        for f in module.functions}  # fmt: skip

    def run(self, kernel: str) -> Lowered:
        """Lower the module. `kernel` is the kernel's name in messages."""
        for line in self.module.globals:
            self.lower_global(line)
        declared = [self.lower_head(f) for f in self.module.declarations]
        intrinsic = [f for f in declared if f.name.startswith("air.")]
        waits = {f.name for f in intrinsic if intrinsics.synchronizes(f.name)}
        self.waiting = set(waits)
        self.find_waiting()
        self.others = "#3" if self.inlined_lines() <= INLINE_LINES else "#4"
        text = [f"@mpsx_air_library = hidden constant [{len(kernel.encode()) + 1} x i8] c\"{kernel}\\00\""]
        text += [SPACE.sub("", line) for line in self.module.types]
        text += self.globals
        text += [self.name_constant(variable) for variable in self.threadgroup]
        functions = [self.lower_function(f) for f in self.module.functions]
        calls: set[str] = set()
        for f in intrinsic:
            definition, called = intrinsics.definition(f)
            text.append(definition)
            calls |= called
        text += sorted(calls)
        text += dict.fromkeys(  # keep one of several that differ only in address spaces
            f"declare {f.result} @{f.name}({', '.join(t for t, _ in f.parameters)})"
            for f in declared if f.name.startswith("llvm.") and not DROPPED.match(f"@{f.name}")
        )  # fmt: skip
        for f in declared:
            if not f.name.startswith(("llvm.", "air.")):
                raise AirError(f"external function {f.name}")
        text += [_safe_divisor(sign, kind) for sign, kind in sorted(self.divisors)]
        text += functions
        found = next((f for f in self.module.functions if f.name == self.symbol), None)
        if not found:
            raise AirError(f"external function {self.symbol}")
        return Lowered(
            "\n".join(text), self.lower_head(found), [kind for _, kind in self.threadgroup.values()],
            [f.name for f in self.module.functions if f.name.startswith("_GLOBAL__")],
            bool(waits),
        )  # fmt: skip

    def find_waiting(self) -> None:
        """Find the functions in which threads wait for each other, directly or through calls."""
        grew = True
        while grew:
            found = {name for name, callees in self.callees.items() if not self.waiting.isdisjoint(callees)}
            grew = not found <= self.waiting
            self.waiting |= found

    def inlined_lines(self) -> int:
        """Return the kernel's length after inlining all calls, or more than INLINE_LINES if a call is recursive."""
        own = {f.name: len(f.lines) for f in self.module.functions}
        lengths = dict.fromkeys({f.name for f in self.module.declarations}, 0)

        def length(name: str) -> int:
            if name not in lengths:
                lengths[name] = INLINE_LINES + 1  # for recursive calls
                lengths[name] = own.get(name, 0) + sum(map(length, self.callees.get(name, ())))
            return lengths[name]

        return length(self.symbol)

    def name_constant(self, variable: str) -> str:
        """Return the definition of a constant string with a threadgroup variable's name, used in messages."""
        name = variable.strip('"')
        return f"@mpsx.name.{self.threadgroup[variable][0]} = private constant [{len(name) + 1} x i8] c\"{name}\\00\""

    def lower_global(self, line: str) -> None:
        """Lower a global variable."""
        found = GLOBAL.match(line)
        if not found:
            raise AirError(f"global {line[:60]}")
        name, head, kind, rest = found[1], found[2], found[3], SECTION.sub("", found[4])
        if name in ("llvm.global_ctors", "llvm.compiler.used", "llvm.used"):
            return
        rest = SPACE.sub("", rest)
        align = re.search(r", align \d+", line)
        if "addrspace(3)" in head:
            self.threadgroup[name] = len(self.threadgroup), UNDEFINED.sub("", rest)
        elif name in self.constants:
            self.globals.append(f"@{name} = internal constant {self.constants[name]}{align[0] if align else ''}")
        elif kind == "global" or "externally_initialized" in head:
            self.globals.append(f"@{name} = internal thread_local global {rest}{align[0] if align else ''}")
        elif "external" in head.split():
            raise AirError(f"external variable {name}")
        else:
            self.globals.append(f"@{name} = internal constant {rest}{align[0] if align else ''}")

    @staticmethod
    def lower_head(f: Function) -> Function:
        """Return a function's name and types without address spaces."""
        if any("byval" in text or "sret" in text for _, text in f.parameters):
            raise AirError(f"parameters of {f.name} passed by value in memory")
        parameters = [(MATRIX.sub(r"<2 x \1>", SPACE.sub("", t)), text) for t, text in f.parameters]
        name = MEMORY_NAME.sub(lambda m: m[1] + ".p0" * (m[2].count(".")), f"@{f.name}")[1:]
        return Function(name, MATRIX.sub(r"<2 x \1>", SPACE.sub("", f.result)), parameters)

    def lower_function(self, f: Function) -> str:
        """Return the definition of a lowered function."""
        head = self.lower_head(f)
        names, number = [], 0
        for _, text in f.parameters:
            last = text.split()[-1]
            names.append(VALUE.sub("%v", last) if last.startswith("%") else f"%v{number}")
            number += not last.startswith("%") or bool(VALUE.match(last))
        entry = "entry" if f.lines and re.match(rf"{NAME}:", f.lines[0]) else f"v{number}"
        body = self.lower_body("\n".join(f.lines))
        setup = self.lower_threadgroup(body)
        if entry == "entry":
            label, *body = body
        else:
            label = f"{entry}:"
        parameters = ", ".join(f"{t} {n}" for (t, _), n in zip(head.parameters, names, strict=True))
        group = "#1" if f.name == self.symbol else "#2" if f.name in self.waiting else self.others
        lines = "\n".join([label, *setup, *body])
        return f"define internal {head.result} @{f.name}({parameters}) {group} {{\n{lines}\n}}\n"

    def lower_body(self, text: str) -> list[str]:
        """Return the lowered instructions and labels of a function."""
        for pattern, replacement in REPLACEMENTS:
            text = pattern.sub(replacement, text)
        return [lowered for line in text.split("\n") if (lowered := self.lower_line(line))]

    def lower_line(self, line: str) -> str:
        """Return the lowered instruction or label, or "" to drop it."""
        if not line.startswith(" "):
            line = line.split(";", maxsplit=1)[0].rstrip()
            return LABEL.sub(r"v\1:", line)
        if "@llvm." in line:
            if DROPPED.search(line):
                return ""
            if found := FMULADD.match(line):
                a, b, c = (value.removeprefix(found[2]) for value in split(found[3]))
                name, kind = found[1], found[2]
                return f"  {name}.product = fmul {kind}{a},{b}\n  {name} = fadd {kind} {name}.product,{c}"
            return MEMORY_NAME.sub(lambda m: m[1] + ".p0" * m[2].count("."), line)
        if "<64 x " in line:
            return _narrow_matrix(line)
        if (division := DIVISION.match(line)) and not SAFE_DIVISOR.match(division[7]):
            head, name, sign, _, kind, a, b = division.groups()
            self.divisors.add((sign, kind))
            called = f"@mpsx.divisor.{_suffix(sign, kind)}({kind} {a}, {kind} {b})"
            return f"  {name}.divisor = call {kind} {called}\n{head}{a}, {name}.divisor"
        return line

    def lower_threadgroup(self, body: list[str]) -> list[str]:
        """Replace threadgroup variables in a function. Return the instructions that load their addresses.

        Constant expressions that contain such an address become instructions in the entry block as well."""
        if not self.threadgroup:
            return []
        used, expressions = set(), {}
        token = re.compile("|".join(rf"@{re.escape(name)}(?![-\w.$])" for name in self.threadgroup))

        def replace(found: re.Match) -> str:
            key = self.threadgroup[found[0][1:]][0]
            used.add(key)
            return f"%tg.{key}"

        for i, line in enumerate(body):
            if "@" in line and token.search(line):
                body[i] = _hoist(token.sub(replace, line), expressions)
        setup = []
        for key, kind in self.threadgroup.values():
            if key in used:
                setup.append(f"  %tg.{key} = call ptr @mpsx_air_threadgroup_variable(i32 {key}, i32 {size_of(kind)}, "
                             f"ptr @mpsx.name.{key})")  # fmt: skip
        return setup + [f"  {name} = {text}" for text, name in expressions.items()]


def _narrow_matrix(line: str) -> str:
    """Reduce the values of an instruction from 64 elements to 2. Their layout in memory stays the same."""
    if " = alloca " in line or " = getelementptr " in line:
        return line
    if (element := MATRIX_ELEMENT.search(line)) and element[1] not in "01":
        raise AirError(f"element {element[1]} of a lane's simdgroup_matrix")
    line = MATRIX_CONSTANT.sub(r"\1>", line)
    head, shuffle, operands = line.partition(" = shufflevector ")
    if shuffle:
        a, b, mask = split(operands)
        numbers = (re.findall(r"i32 (\w+)", mask.partition("> ")[2]) or ["0"]) * 2
        if a.startswith("<64"):  # number the elements of the second operand from 2 instead of 64
            numbers = [{"0": "0", "1": "1", "64": "2", "65": "3"}.get(number, "poison") for number in numbers]
        line = f"{head}{shuffle}{a}, {b}, <2 x i32> <i32 {numbers[0]}, i32 {numbers[1]}>"
    return MATRIX.sub(r"<2 x \1>", line)


def _hoist(line: str, expressions: dict[str, str]) -> str:
    """Replace constant expressions that contain threadgroup variables with values, innermost first."""
    while True:
        for found in EXPRESSION.finditer(line):
            end = _closing(line, found.end() - 1)
            inner = line[found.end() : end]
            if ("%tg." in inner or "%ce." in inner) and not EXPRESSION.search(inner):
                name = expressions.setdefault(f"{found[1]} {inner}", f"%ce.{len(expressions)}")
                line = line[: found.start()] + name + line[end + 1 :]
                break
        else:
            return line


def _closing(text: str, opening: int) -> int:
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if not depth:
            return i
    raise AirError(f"expected a closing parenthesis in {text[:80]!r}")


def size_of(kind: str) -> str:
    """Return a constant expression for a type's size."""
    return f"ptrtoint (ptr getelementptr ({kind}, ptr null, i32 1) to i32)"


def _suffix(sign: str, kind: str) -> str:
    return sign + "." + re.sub(r"\W+", "", kind)


def _safe_divisor(sign: str, kind: str) -> str:
    """Return a function that replaces divisors that trap on x86, as metal_stdlib/division.h does."""
    scalar, count = intrinsics.element(kind), intrinsics.length(kind)

    def constant(value: int) -> str:
        if scalar == kind:
            return str(value)
        return "<" + ", ".join(f"{scalar} {value}" for _ in range(count)) + ">"

    flag = "i1" if scalar == kind else f"<{count} x i1>"
    lines = [f"define internal {kind} @mpsx.divisor.{_suffix(sign, kind)}({kind} %a, {kind} %b) #0 {{",
             f"  %zero = icmp eq {kind} %b, {constant(0)}"]  # fmt: skip
    traps = "%zero"
    if sign == "s":
        lines += [f"  %negative = icmp eq {kind} %b, {constant(-1)}",
                  f"  %smallest = icmp eq {kind} %a, {constant(-(1 << int(scalar[1:]) - 1))}",
                  f"  %overflow = and {flag} %negative, %smallest",
                  f"  %traps = or {flag} %zero, %overflow"]  # fmt: skip
        traps = "%traps"
    lines += [f"  %r = select {flag} {traps}, {kind} {constant(1)}, {kind} %b", f"  ret {kind} %r", "}"]
    return "\n".join(lines)
