"""Check address spaces in expressions (Metal Shading Language Specification, section 4) with a stock clang.

Macros map Metal's address spaces to clang's address_space attributes. Errors about anything else are ignored, because
clang sees only a few declarations of the Metal library here, and the compiler of the translated kernels reports other
errors better.

Errors about constructors and assignments of class types, and about `this`, are ignored as well. Copying a class object
out of device or constant memory is valid in Metal but not in C++ with address spaces, because implicit copy
constructors take references without an address space."""

import os
import re
import shutil
import threading

from .. import processes
from ..passes.tensors import uses_tensors
from .clang_source import NUMBERS, source_text
from .diagnostic import Diagnostic, SourceMap

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = """-fsyntax-only -nostdinc -ffreestanding -x c++ -ferror-limit=0 -Wno-everything
    -Werror=vla-cxx-extension -Werror=vla-extension -fno-caret-diagnostics -fno-color-diagnostics -fno-elide-type
    -Xclang -cl-single-precision-constant -Ddevice=__attribute__((address_space(1)))
    -Dthreadgroup=__attribute__((address_space(3))) -Dthreadgroup_imageblock= -Dray_data= -Dobject_data=""".split()
FLAGS += ["-Dconstant=__attribute__((address_space(2))) const", "-include", os.path.join(HERE, "declarations.h")]
LINE = re.compile(r"^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<kind>error|note|fatal error): (?P<text>.*)$")
ELEMENTS = "bool|char|uchar|short|ushort|int|uint|long|ulong|half|bfloat|float"
TENSOR = r"(?:metal::)?tensor<"
# Matches failed calls of functions and tensor constructors. Other constructors are not checked.
FAILED_CALL = re.compile(rf"no matching (?:function for call|constructor for initialization of '{TENSOR})")
TENSOR_CONVERSION = re.compile(rf"no viable conversion from '({TENSOR}.*?>)' to '({TENSOR}.*?>)'$")
TYPE = r"'((?:[^']|'(?=\())*)'"


def clang_of(command):
    """Return the clang in the command `command`. If there is none, return a clang on PATH, or None."""
    name = os.path.basename(command[-1] if len(command) > 1 and command[-1] in ("c++", "cc") else command[0])
    if name in ("c++", "cc") and len(command) > 1 and "zig" in os.path.basename(command[0]):
        return [command[0], "clang"]
    if "clang" in name:
        return list(command)
    path = shutil.which("clang++") or shutil.which("clang")
    return [path] if path else None


def spaces_of(type_text):
    """Return the address spaces in a type as printed by clang, outermost first."""
    return re.findall(r"\b(?:device|constant|threadgroup)\b", named(type_text))


def named(text):
    """Return `text` with address spaces and types in Metal's spelling."""
    for name, n in NUMBERS.items():
        text = text.replace(f"__attribute__((address_space({n})))", name)
    text = re.sub(r"'([^']*)' \(aka '([^']*)'\)", lambda m: f"'{visible_type(m[1], m[2])}'", text)
    text = re.sub(r"pointer to address space '(\d)'", lambda m: f"pointer to {space_named(m[1])} memory", text)
    text = re.sub(r"address space '(\d)'", lambda m: f"address space '{space_named(m[1])}'", text)
    text = re.sub(r"const constant\b|constant const\b", "constant", text)
    text = text.replace("generic address space", "address space 'thread'")
    text = re.sub(
        r"unsigned (int|short|char|long)\b", r"u\1", text.replace("_Float16", "half").replace("__bf16", "bfloat")
    )
    text = re.sub(r"\b(\w+) __attribute__\(\(ext_vector_type\((\d)\)\)\)", r"\1\2", text)
    text = text.replace("18446744073709551615UL", "dynamic_extent")
    return re.sub(r"\b(?:metal::)?vec<(\w+), (\d)>", r"\1\2", text)


def visible_type(alias, meaning):
    """Return the alias unless it hides an address space."""
    return alias if all(word in alias for word in NUMBERS if word in meaning) else meaning


def space_named(number):
    return next((name for name, n in NUMBERS.items() if n == int(number)), "thread")


def is_pointer(t):
    return t.endswith(("*", "&", "]")) or "*" in t or "(&)" in t


def mixes_spaces(a, b):
    """Return whether the pointees of two types are in different address spaces."""
    return (is_pointer(a) or is_pointer(b)) and spaces_of(a) != spaces_of(b)


def resolved(text):
    """Return `text` with each `'half *' (aka '_Float16 *')` replaced by the aliased type."""
    return re.sub(r"'[^']*' \(aka '([^']*)'\)", r"'\1'", text)


def is_space_conversion(text):
    """Return whether an error is about a conversion between address spaces."""
    m = re.search(
        rf"(?:cannot initialize|assigning to|reinterpret_cast|static_cast|C-style cast|incompatible).*?{TYPE}.*?{TYPE}",
        text,
    )
    return bool(m) and is_pointer(m[1]) and is_pointer(m[2]) and mixes_spaces(m[1], m[2])


def is_space_mismatch(notes):
    """Return whether all candidates with the right number of parameters fail because of address spaces."""
    found = False
    for text in notes:
        if re.search(
            r"requires (at least |at most |single |\d+ )?.*argument|expanded from macro|in instantiation of", text
        ):
            continue
        if "'this' object is in" in text:
            return False
        if re.search(r"cannot (pass pointer|bind reference)|address space", text) and "implicit" not in text:
            found = True
            continue
        m = re.search(rf"(?:no known conversion from|deduced type|could not match) {TYPE} .*?{TYPE}", text)
        if not m or not (is_pointer(m[1]) and is_pointer(m[2]) and mixes_spaces(m[1], m[2])):
            return False
        found = True
    return found


def is_variable_length(notes):
    """Return whether an array's length is definitely not constant. clang may not know Metal's own constants."""
    return any(re.search(r"unknown value|read of non-const variable", n) for n in notes) and not any(
        "not a constant" in n or "undefined function" in n for n in notes
    )


def is_vector_conversion(text):
    """Return whether an error is about an implicit vector conversion. Ignore conversions to bool vectors: comparisons
    yield bool vectors in Metal, but integer vectors in clang."""
    m = re.search(rf"^(?:cannot initialize|assigning to).*?{TYPE}.*?{TYPE}", text)
    if not m:
        return False
    vector = rf"(?:const |device |constant |threadgroup )*({ELEMENTS})([234])(?: const)?"
    to, source = (re.fullmatch(vector, named(t).replace("metal::", "")) for t in m.groups())
    return bool(to and source) and to[1] != "bool" and to.groups() != source.groups()


def cast_message(space, notes):
    """Return the message for a cast that clang_source.py replaced by metal::mpsx_cast_*."""
    found = [
        t
        for n in notes
        for pair in re.findall(r"argument type '([^']*)'|type '([^']*\*)' of argument", n)
        for t in pair
    ]
    source = next((f" from '{named(t)}'" for t in sorted(found) if t), "")
    return f"C-style cast{source} to a pointer to {space} memory converts between mismatching address spaces"


def metal_message(text, notes):
    """Return the message to report for an error from clang, or None if the code is valid Metal."""
    kinds, reasons = resolved(text), [resolved(n) for n in notes]
    m = re.match(r"(?:no matching function for call to|call to deleted function) '(?:metal::)?mpsx_cast_(\w+)'", text)
    if m:
        return f"{cast_message(m[1], reasons)} (section 4)"
    if "vector is not assignable (contains duplicate components)" in text:
        return "a swizzle that repeats a component is not assignable (section 2.2.1)"
    if re.match(r"binding reference of type .* changes address space", text) or "changes address space of" in text:
        return f"{named(text)} (section 4)"
    if "mismatching address spaces" in text or is_space_conversion(kinds):
        return f"{named(text)} (section 4)"
    if FAILED_CALL.match(kinds) and is_space_mismatch(reasons):
        why = next((n for n in notes if "address space" in n), notes[0])
        why = re.sub(r"^candidate (function|template)[^:]*: ", "", named(why))
        return f"{named(text)}: {why} (section 4)"
    m = TENSOR_CONVERSION.match(kinds)
    if m and spaces_of(m[1]) != spaces_of(m[2]):
        return f"{named(text)} (section 4)"
    shown = named(re.sub(r" \(vector of \d '[^']*' values\)", "", text))
    if is_vector_conversion(shown):
        return f"{shown}: vectors are not converted implicitly (section 2.12)"
    m = re.match(rf"value of type '(?:metal::)?({ELEMENTS})([234])' is not contextually convertible to 'bool'", shown)
    if m:
        return f"a condition must be a scalar, and this is a vector of {m[2]}: use any() or all() (section 3.1)"
    if re.match(r"cannot assign to .*const-qualified", text) and "address_space(2)" in text:
        return f"{named(text)}: constant memory is read-only (section 4.2)"
    if text == "read-only variable is not assignable":
        return text
    if "ariable length array" in text and is_variable_length(notes):
        return "variable length arrays are not supported in Metal: the length is not a constant expression"
    return None


def parse(stderr):
    """Return a pair for each error: its match of LINE, and the texts of its notes."""
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
    """A running clang, started with the compiler `command`. `wait` returns the Diagnostics, or an empty list if there
    is no clang. `samples` limits the check to one instance of each kernel."""

    def __init__(self, unit, command, texts=None, samples=False):
        clang, self.process, self.error = clang_of(command), None, None
        if clang is None:
            return
        self.text = source_text(unit, samples)
        self.positions = SourceMap(self.text, texts)
        standard = "-std=c++23" if uses_tensors(unit.src.text) else "-std=c++17"
        self.process = processes.Process([*clang, *FLAGS, standard, "-"], processes.time_limit())
        # Read in a thread, because clang may write more than a pipe can hold before `wait` is called.
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            self.stderr = self.process.finish(self.text)[1]
        except processes.TimeLimitError as error:
            self.error = error

    def wait(self):
        if self.process is None:
            return []
        self.reader.join()
        if self.error:
            raise self.error
        found = set()
        for m, notes in parse(self.stderr):
            message = metal_message(m["text"], notes)
            if message is None or m["file"].startswith(HERE):
                continue
            where = next(
                (re.search(r"specialization '(.*)' requested", n) for n in notes if "in instantiation of" in n),
                None,
            )
            if where:
                message += f", in {named(where[1])}"
            line, column = int(m["line"]), int(m["column"])
            found.add(Diagnostic(m["file"], line, self.positions.output_column(m["file"], line, column), message))
        return first_of_each(sorted(found))


def first_of_each(diagnostics):
    """Return the first diagnostic at each position, because several instances of a template may report the same
    error."""
    seen, kept = set(), []
    for d in diagnostics:
        if (d.file, d.line, d.column) not in seen:
            seen.add((d.file, d.line, d.column))
            kept.append(d)
    return kept
