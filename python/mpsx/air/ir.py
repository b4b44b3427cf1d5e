"""LLVM IR as text: types, comma-separated lists, and metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NAME = r'(?:[-\w.$]+|"[^"]*")'
METADATA = re.compile(r"^!(\d+) = (?:distinct )?!\{(.*)\}$", re.M)
NAMED_METADATA = re.compile(r"^!([\w.]+) = !\{(.*)\}$", re.M)
DEFINE = re.compile(rf"^define (.*?)@({NAME})\((.*)\)([^()]*|.*?) \{{$")
DECLARE = re.compile(rf"^declare (.*?)@({NAME})\((.*)\)")
OPENING, CLOSING = "([{<", ")]}>"
TYPE_WORD = re.compile(rf"%{NAME}|[\w.]+")
# Words before the type in a function header: linkage, visibility, calling convention, and attributes of the result.
HEAD_WORDS = re.compile(r"^(?:(?:weak_odr|weak|linkonce_odr|linkonce|internal|private|hidden|protected|dso_local|"
                        r"fastcc|coldcc|local_unnamed_addr|zeroext|signext|noundef|nonnull|noalias|spir_func|"
                        r"align \d+|range\([^)]*\)|dereferenceable\(\d+\)) )+")  # fmt: skip


class AirError(ValueError):
    """Raised for AIR that cannot run here. The message says what is not supported."""


@dataclass
class Function:
    """A function. `head` is the text before its name. Each parameter is a (type, text) pair."""

    name: str
    result: str
    parameters: list[tuple[str, str]]
    lines: list[str] = field(default_factory=list)


@dataclass
class Module:
    """A module: its type definitions, globals, declarations, functions, and metadata."""

    types: list[str] = field(default_factory=list)
    globals: list[str] = field(default_factory=list)
    declarations: list[Function] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    metadata: dict[str, list[str]] = field(default_factory=dict)


def split(text: str, separator: str = ",") -> list[str]:
    """Split a list at its top-level separators."""
    parts, depth, begin, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in OPENING:
            depth += 1
        elif c in CLOSING:
            depth -= 1
        elif c == separator and not depth:
            parts.append(text[begin:i].strip())
            begin = i + 1
    last = text[begin:].strip()
    return [*parts, last] if last or parts else []


def type_at(text: str) -> str:
    """Return the type at the beginning of a text, such as `<4 x float>` or `ptr addrspace(1)`."""
    if text[0] in OPENING:
        depth, quoted = 0, False
        for i, c in enumerate(text):
            quoted ^= c == '"'
            depth += (c in OPENING) - (c in CLOSING) if not quoted else 0
            if not depth:
                return text[: i + 1]
    found = TYPE_WORD.match(text)
    if not found:
        raise AirError(f"expected a type, got {text[:40]!r}")
    if space := re.match(r" addrspace\(\d+\)", text[found.end() :]):
        return found[0] + space[0]
    return found[0]


def parse(text: str) -> Module:
    """Parse a module."""
    module, function = Module(), None
    for line in text.split("\n"):
        if function is not None:
            if line == "}":
                function = None
            else:
                function.lines.append(line)
        elif line.startswith("define "):
            function = _function(DEFINE.match(line), line)
            module.functions.append(function)
        elif line.startswith("declare "):
            module.declarations.append(_function(DECLARE.match(line), line))
        elif line.startswith("%"):
            module.types.append(line)
        elif line.startswith("@"):
            module.globals.append(line)
        elif found := METADATA.match(line) or NAMED_METADATA.match(line):
            module.metadata[found[1]] = split(found[2])
    return module


def _function(found: re.Match | None, line: str) -> Function:
    if not found:
        raise AirError(f"expected a function, got {line[:80]!r}")
    result = HEAD_WORDS.sub("", found[1])
    parameters = [(type_at(p), p) for p in split(_parameters(found[3]))]
    return Function(found[2], result.strip(), parameters)


def _parameters(text: str) -> str:
    """Return the text of a parameter list. The greedy regular expression may have matched beyond its end."""
    depth = 1
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if not depth:
            return text[:i]
    return text


def string(item: str) -> str:
    """Return the value of a metadata string, or "" if the item is not a string."""
    return item[2:-1] if item.startswith('!"') else ""


def number(item: str) -> int:
    """Return the value of an integer in the metadata."""
    return int(item.rsplit(maxsplit=1)[-1])


def node(module: Module, item: str) -> list[str]:
    """Return the items of the metadata node that `item` refers to."""
    return module.metadata.get(item[1:], [])
