"""Address spaces in expressions (Metal Shading Language Specification, section 4), seen by a stock clang that takes
them for its own address_space attributes. Only what it says of address spaces counts: it knows but little of the
Metal library, and what it says of the rest, the compiler of the translated kernels says better.

Copying a class object out of device or constant memory is legal Metal and not legal C++ with address spaces, since
implicit copy constructors take plain references: complaints about constructors and assignments of class types, and
about `this`, are dropped."""

import copy
import os
import re
import shutil
import subprocess

from ..rewrite import literal
from .diagnostic import Diagnostic, Places
from .structure import SPACES

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBERS = {"device": 1, "constant": 2, "threadgroup": 3}
FLAGS = [
    "-fsyntax-only",
    "-nostdinc",
    "-ffreestanding",
    "-x",
    "c++",
    "-std=c++17",
    "-ferror-limit=0",
    "-Wno-everything",
    "-Werror=vla-cxx-extension",
    "-Werror=vla-extension",
    "-fno-caret-diagnostics",
    "-fno-color-diagnostics",
    "-Xclang",
    "-cl-single-precision-constant",
    "-include",
    os.path.join(HERE, "declarations.h"),
    *(f"-D{name}=__attribute__((address_space({n})))" for name, n in NUMBERS.items() if name != "constant"),
    "-Dconstant=__attribute__((address_space(2))) const",
    "-Dthreadgroup_imageblock=",
    "-Dray_data=",
    "-Dobject_data=",
    "-Dcoherent=",
]
LINE = re.compile(r"^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<kind>error|note|fatal error): (?P<text>.*)$")
SUFFIX = re.compile(r"[hH]$|bf$|BF$")
TYPE = r"'((?:[^']|'(?=\())*)'"


def clang_of(command):
    """A clang for the check that belongs to the compiler `command`, or None if that is another compiler."""
    name = os.path.basename(command[-1] if len(command) > 1 and command[-1] in ("c++", "cc") else command[0])
    if name in ("c++", "cc") and len(command) > 1 and "zig" in os.path.basename(command[0]):
        return [command[0], "clang"]
    if "clang" in name:
        return list(command)
    path = shutil.which("clang++") or shutil.which("clang")
    return [path] if path else None


# The source that clang sees


def source_text(unit):
    """The unit with Metal's own syntax spelt as stock clang takes it; lines stay where they are."""
    src, structure, index = unit.src, unit.structure, unit.index
    edit = copy.copy(src)
    edit._replacements = []
    for i in index.get("[", ()):
        stop = src.attribute_end(i)
        if stop is not None:
            edit.replace(i, stop + 1)
    for i, _ in unit.find("kernel"):
        edit.replace(i, i + 1)
    for t, tokens in index.items():
        if t[0] == '"':
            for i in tokens:
                if is_constant_string(src, i):
                    edit.replace(i, i + 1, f"((constant char*){t})")
        elif t[0] in ".0123456789" and SUFFIX.search(t) and literal(t) != t:
            for i in tokens:
                edit.replace(i, i + 1, literal(t))
    for i, space in unit.find(*NUMBERS):
        k = i - 1
        while src.texts[k] in ("const", "volatile"):
            k -= 1
        if src.texts[k] == "(" and is_cast(src, k):
            wrap_operand(src, edit, k, space)
    static_variables(unit, edit)
    member_spaces(src, edit, structure)
    return edit.result()


def is_constant_string(src, i):
    """Whether a string literal may become a pointer to constant memory: not where it initialises an array."""
    if (src.texts[i - 1] == "=" and src.texts[i - 2] == "]") or src.texts[i - 1] == "extern":
        return False
    if src.kinds[i - 1] == "string" or (i + 1 < len(src) and src.kinds[i + 1] == "string"):
        return False
    k = i - 1
    while k > 0 and src.texts[k] not in (";", "{", "}"):  # static_assert takes a literal
        if src.texts[k] in (")", "]"):
            k = src.match[k]
        elif src.texts[k] == "static_assert":
            return False
        k -= 1
    return True


def is_cast(src, i):
    """Whether the '(' i begins a C-style cast to a pointer, as in `(device float*)p`."""
    end = src.match[i]
    inside = src.texts[i + 1 : end]
    if len(inside) < 3 or inside[-1] != "*" or inside.count("*") != 1 or end + 1 >= len(src):
        return False
    if any(t in ("(", ",", "=", "[", ";") for t in inside):
        return False
    before, after = src.texts[i - 1], src.texts[end + 1]
    if (src.kinds[i - 1] == "word" and before not in ("return", "else", "case")) or before in (")", "]", ">"):
        return False  # a call, a declaration or a function type
    return src.kinds[end + 1] != "op" or after in ("(", "&", "*", "+", "-")


def wrap_operand(src, edit, i, space):
    begin = end = src.match[i] + 1
    while end < len(src) and src.texts[end] in ("&", "*", "+", "-", "~", "!", "++", "--"):
        end += 1
    if end >= len(src) or (src.texts[end] == "(" and is_cast(src, end)):
        return
    end = src.match[end] + 1 if src.texts[end] == "(" else end + 1
    while end < len(src):
        t = src.texts[end]
        if t in ("(", "["):
            end = src.match[end] + 1
        elif t in (".", "->", "::"):
            end += 2
        elif t in ("++", "--"):
            end += 1
        else:
            break
    before, after = f"metal::mpsx_cast_{space}({src.texts[begin]}", f"{src.texts[end - 1]})"
    if end - begin == 1:
        edit.replace(begin, end, before + ")")
    else:
        edit.replace(begin, begin + 1, before)
        edit.replace(end - 1, end, after)


def static_variables(unit, edit):
    """An automatic variable cannot have an address space in C++; a static one can."""
    src = unit.src
    for f in unit.bodies():
        for i, t in unit.find("threadgroup", "constant", within=f.body):
            if src.texts[i - 1] in (";", "{", "}"):
                end = i
                while src.texts[end] not in ("*", "&", ";", "=", "(", "{", "["):
                    end += 1
                if src.texts[end] not in ("*", "&", "("):
                    edit.replace(i, i + 1, f"static {t}")


def member_spaces(src, edit, structure):
    """`T get() const device { … }`: clang takes no address space of `this` in C++, so all are thread's here."""
    for f in structure.functions:
        if f.where != "class":
            continue
        k = src.match.get(f.name + 1)
        while k is not None and k + 1 < len(src) and src.texts[k + 1] in (*SPACES, "const", "volatile"):
            k += 1
            if src.texts[k] in SPACES:
                edit.replace(k, k + 1)


# What clang says


def spaces_of(type_text):
    """The address spaces in a type as clang prints it, outermost first."""
    return re.findall(r"\b(?:device|constant|threadgroup)\b", named(type_text))


def named(text):
    """Address spaces by their names, types as Metal spells them."""
    for name, n in NUMBERS.items():
        text = text.replace(f"__attribute__((address_space({n})))", name)
    text = re.sub(r"pointer to address space '(\d)'", lambda m: f"pointer to {space_named(m[1])} memory", text)
    text = re.sub(r"address space '(\d)'", lambda m: f"address space '{space_named(m[1])}'", text)
    text = re.sub(r"const constant\b|constant const\b", "constant", text)
    return (
        text.replace("generic address space", "address space 'thread'")
        .replace("_Float16", "half")
        .replace("__bf16", "bfloat")
    )


def space_named(number):
    return next((name for name, n in NUMBERS.items() if n == int(number)), "thread")


def is_pointer(t):
    return t.endswith(("*", "&", "]")) or "*" in t or "(&)" in t


def mixes_spaces(a, b):
    """Whether two types differ in the address space of what they point at."""
    return (is_pointer(a) or is_pointer(b)) and spaces_of(a) != spaces_of(b)


def about_conversion(text):
    """`cannot initialize a variable of type 'A' with an lvalue of type 'B'` and its like."""
    m = re.search(
        rf"(?:cannot initialize|assigning to|reinterpret_cast|static_cast|C-style cast|incompatible).*?{TYPE}.*?{TYPE}",
        text,
    )
    return bool(m) and is_pointer(m[1]) and is_pointer(m[2]) and mixes_spaces(m[1], m[2])


def about_call(notes):
    """Whether address spaces alone keep every function of the right arity from being called."""
    found = False
    for text in notes:
        if re.search(
            r"requires (at least |at most |single |\d+ )?.*argument|expanded from macro|in instantiation of", text
        ):
            continue
        if re.search(r"cannot (pass pointer|bind reference)|address space", text) and "implicit" not in text:
            found = True
            continue
        m = re.search(rf"(?:no known conversion from|deduced type|could not match) {TYPE} .*?{TYPE}", text)
        if not m or not (is_pointer(m[1]) and is_pointer(m[2]) and mixes_spaces(m[1], m[2])):
            return False
        found = True
    return found


def about_length(notes):
    """Whether an array's length is certainly not a constant, rather than one that clang does not know."""
    return any(re.search(r"unknown value|read of non-const variable", n) for n in notes) and not any(
        "not a constant" in n or "undefined function" in n for n in notes
    )


def verdict(text, notes):
    """What to say about an error of clang's, or None where it is none of Metal's."""
    if "vector is not assignable (contains duplicate components)" in text:
        return "a swizzle with a component twice is not assignable (section 2.2.1)"
    if re.match(r"binding reference of type .* changes address space", text) or "changes address space of" in text:
        return f"{named(text)} (section 4)"
    if "mismatching address spaces" in text or about_conversion(text):
        return f"{named(text)} (section 4)"
    m = re.match(r"no matching function for call to 'mpsx_cast_(\w+)'", text)
    if m:
        kinds = {
            s
            for n in notes
            for s in re.findall(r"argument type '([^']*)'|type '([^']*\*)' of argument", n)
            for s in s
            if s
        }
        source = f" from '{named(sorted(kinds)[0])}'" if kinds else ""
        return (
            f"C-style cast{source} to a pointer to {m[1]} memory converts between mismatching address spaces "
            "(section 4)"
        )
    if text.startswith("no matching function for call") and about_call(notes):
        why = next((n for n in notes if "address space" in n), notes[0])
        why = re.sub(r"^candidate (function|template)[^:]*: ", "", named(why))
        return f"{named(text)}: {why} (section 4)"
    if re.match(r"cannot assign to .*const-qualified", text) and "address_space(2)" in text:
        return f"{named(text)}: constant memory is read-only (section 4.2)"
    if text == "read-only variable is not assignable":
        return text
    if "ariable length array" in text and about_length(notes):
        return "variable length arrays are not supported in Metal: the length is not a constant expression"
    return None


def parse(stderr):
    """[(match of the error's line, [texts of its notes])]"""
    found = []
    for line in stderr.split("\n"):
        m = LINE.match(line)
        if not m:
            continue
        if m["kind"] == "note":
            if found:
                found[-1][1].append(m["text"])
        else:
            found.append((m, []))
    return found


class AddressSpaceCheck:
    """Starts clang at once, for the compiler `command`; `wait` gives its verdict. Without a clang there is nothing to
    start and nothing to say."""

    def __init__(self, unit, command, texts=None):
        clang, self.process = clang_of(command), None
        if clang is None:
            return
        self.text = source_text(unit)
        self.places = Places(self.text, texts)
        self.process = subprocess.Popen(
            [*clang, *FLAGS, "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            self.process.stdin.write(self.text)
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def wait(self):
        if self.process is None:
            return []
        stderr = self.process.stderr.read()
        self.process.stderr.close()
        self.process.wait()
        found = set()
        for m, notes in parse(stderr):
            message = verdict(m["text"], notes)
            if message is None or m["file"].startswith(HERE):
                continue
            where = next(
                (re.search(r"specialization '(.*)' requested", n) for n in notes if "in instantiation of" in n),
                None,
            )
            if where:
                message += f", in {named(where[1])}"
            line, column = int(m["line"]), int(m["column"])
            found.add(Diagnostic(m["file"], line, self.places.of_output(m["file"], line, column), message))
        return first_of_each(sorted(found))


def first_of_each(diagnostics):
    """One diagnostic a place: further instances of a template say the same again."""
    seen, kept = set(), []
    for d in diagnostics:
        if (d.file, d.line, d.column) not in seen:
            seen.add((d.file, d.line, d.column))
            kept.append(d)
    return kept
