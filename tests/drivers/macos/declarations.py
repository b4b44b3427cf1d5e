"""Read declarations.txt, and find declarations in Objective-C headers that contradict it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from objc_ast import Declarations

TABLE = Path(__file__).with_name("declarations.txt")


class Table:
    """Apple's declarations, parsed from declarations.txt."""

    def __init__(self, path: Path = TABLE) -> None:
        self.kinds: dict[str, str] = {}  # name -> "class" or "protocol"
        self.parents: dict[str, str] = {}
        self.methods: dict[tuple[str, str, str], tuple[str, ...]] = {}
        self.enum_types: dict[str, str] = {}
        self.constants: dict[str, int] = {}
        self.functions: dict[str, tuple[str, ...]] = {}
        owner = ""
        for line in path.read_text().splitlines():
            fields = line.removesuffix("documented").removesuffix("=").split()
            if not fields or fields[0] == "#":
                continue
            if fields[0] in ("class", "protocol"):
                owner = fields[1]
                self.kinds[owner] = fields[0]
                if len(fields) > 3:
                    self.parents[owner] = fields[3]
            elif fields[0] in "+-":
                self.methods[(owner, fields[0], fields[1])] = tuple(fields[2:])
            elif fields[0] == "enum":
                self.enum_types[fields[1]] = fields[2]
            elif fields[0] == "function":
                self.functions[fields[1]] = tuple(fields[2:])
            else:
                self.constants[fields[0]] = int(fields[1])

    def method(self, owner: str, kind: str, selector: str) -> tuple[str, ...] | None:
        """Return the signature of a method that a class or protocol declares or inherits."""
        while owner:
            found = self.methods.get((owner, kind, selector))
            if found:
                return found
            owner = self.parents.get(owner, "")
        return self.methods.get(("NSObject", kind, selector))


def normalize(encoding: str) -> str:
    """Remove struct names, which differ between the SDK and metal-cpp."""
    return re.sub(r"\{\w+=", "{=", encoding)


def mismatches(table: Table, found: Declarations) -> Iterator[str]:
    """Describe declarations in `found` that differ from Apple's or that are missing from Apple's headers."""
    for (owner, kind, selector), signature in found.methods.items():
        if not owner.startswith(("MTL", "NS")) or owner == "NSObject" or owner not in table.kinds:
            if owner.startswith(("MTL", "NS")) and owner not in ("NSObject", "NSConstantString"):
                yield f"{owner}: Apple's headers have no such class or protocol"
            continue
        if (owner in found.protocols) != (table.kinds[owner] == "protocol"):
            yield f"{owner}: expected a {table.kinds[owner]} of that name"
        expected = table.method(owner, kind, selector)
        if expected is None:
            yield f"{kind}[{owner} {selector}]: Apple's headers have no such method"
        elif [*map(normalize, expected)] != [*map(normalize, signature)]:
            yield f"{kind}[{owner} {selector}]: expected {' '.join(expected)}, got {' '.join(signature)}"
    for name, encoding in found.enum_types.items():
        if name.startswith("MTL") and table.enum_types.get(name) != encoding:
            yield f"enum {name}: expected {table.enum_types.get(name, 'no such enumeration')}, got {encoding}"
    for name, value in found.constants.items():
        if name.startswith("MTL") and table.constants.get(name) != value:
            yield f"{name}: expected {table.constants.get(name, 'no such constant')}, got {value}"
    for name, signature in found.functions.items():
        if table.functions.get(name) != signature:
            yield f"{name}(): expected {table.functions.get(name, 'no such function')}, got {signature}"
