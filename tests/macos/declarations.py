"""declarations.txt, read; and what of an Objective-C header contradicts it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from objc_ast import Declarations

TABLE = Path(__file__).with_name("declarations.txt")


class Table:
    """Apple's declarations."""

    def __init__(self, path: Path = TABLE) -> None:
        self.kinds: dict[str, str] = {}  # class or protocol
        self.parents: dict[str, str] = {}
        self.methods: dict[tuple[str, str, str], tuple[str, ...]] = {}
        self.enum_types: dict[str, str] = {}
        self.constants: dict[str, int] = {}
        self.functions: dict[str, tuple[str, ...]] = {}
        owner = ""
        for line in path.read_text().splitlines():
            words = line.removesuffix("documented").removesuffix("=").split()
            if not words or words[0] == "#":
                continue
            if words[0] in ("class", "protocol"):
                owner = words[1]
                self.kinds[owner] = words[0]
                if len(words) > 3:
                    self.parents[owner] = words[3]
            elif words[0] in "+-":
                self.methods[(owner, words[0], words[1])] = tuple(words[2:])
            elif words[0] == "enum":
                self.enum_types[words[1]] = words[2]
            elif words[0] == "function":
                self.functions[words[1]] = tuple(words[2:])
            else:
                self.constants[words[0]] = int(words[1])

    def method(self, owner: str, kind: str, selector: str) -> tuple[str, ...] | None:
        """The signature, of the class itself or of what it inherits from."""
        while owner:
            found = self.methods.get((owner, kind, selector))
            if found:
                return found
            owner = self.parents.get(owner, "")
        return self.methods.get(("NSObject", kind, selector))


def plain(encoding: str) -> str:
    """Structures by layout: their names differ between the SDK and metal-cpp."""
    return re.sub(r"\{\w+=", "{=", encoding)


def findings(table: Table, found: Declarations) -> Iterator[str]:
    """The declarations in `found` that differ from Apple's, or that Apple does not have."""
    for (owner, kind, selector), signature in found.methods.items():
        if not owner.startswith(("MTL", "NS")) or owner == "NSObject" or owner not in table.kinds:
            if owner.startswith(("MTL", "NS")) and owner not in ("NSObject", "NSConstantString"):
                yield f"{owner}: Apple's headers have no such class or protocol"
            continue
        if (owner in found.protocols) != (table.kinds[owner] == "protocol"):
            yield f"{owner}: expected a {table.kinds[owner]} of that name"
        apples = table.method(owner, kind, selector)
        if apples is None:
            yield f"{kind}[{owner} {selector}]: Apple's headers have no such method"
        elif [*map(plain, apples)] != [*map(plain, signature)]:
            yield f"{kind}[{owner} {selector}]: expected {' '.join(apples)}, got {' '.join(signature)}"
    for name, encoding in found.enum_types.items():
        if name.startswith("MTL") and table.enum_types.get(name) != encoding:
            yield f"enum {name}: expected {table.enum_types.get(name, 'no such enumeration')}, got {encoding}"
    for name, value in found.constants.items():
        if name.startswith("MTL") and table.constants.get(name) != value:
            yield f"{name}: expected {table.constants.get(name, 'no such constant')}, got {value}"
    for name, signature in found.functions.items():
        if table.functions.get(name) != signature:
            yield f"{name}(): expected {table.functions.get(name, 'no such function')}, got {signature}"
