"""The lines of Metal source that instructions of LLVM's text form come from."""

from __future__ import annotations

import re

NODE = re.compile(r"^!(\d+) = (?:distinct )?!(\w+)\((.*)\)$")
FIELD = re.compile(r'(\w+): ("(?:[^"\\]|\\.)*"|[^,()]+)')
SCOPES = ("DISubprogram", "DILexicalBlock", "DILexicalBlockFile", "DIFile", "DILocation")


class DebugLines:
    """Out of the metadata of a module."""

    def __init__(self, lines: list[str]) -> None:
        self.nodes: dict[str, tuple[str, dict[str, str]]] = {}
        for line in lines:
            if line.startswith("!") and (node := NODE.match(line)) and node[2] in SCOPES:
                self.nodes[node[1]] = node[2], dict(FIELD.findall(node[3]))
        self.files: dict[str, str] = {}
        self.known: dict[str, tuple[tuple[str, int], ...]] = {}

    def file(self, scope: str) -> str:
        """The file of a scope, by its number."""
        if scope not in self.files:
            kind, fields = self.nodes.get(scope, ("", {}))
            if kind == "DIFile":
                found = fields["filename"].strip('"')
            else:
                found = self.file(fields["file"][1:]) if "file" in fields else ""
            self.files[scope] = found
        return self.files[scope]

    def places(self, instruction: str) -> tuple[tuple[str, int], ...]:
        """(file, line) of an instruction, then of the call that it was inlined at, and so on."""
        found = re.search(r"!dbg !(\d+)", instruction)
        if not found:
            return ()
        number = found[1]
        if number not in self.known:
            places, at = [], number
            while at in self.nodes:
                fields = self.nodes[at][1]
                file, line = self.file(fields["scope"][1:]), int(fields.get("line", 0))
                if line and not file.startswith("<"):
                    places.append((file, line))
                at = fields.get("inlinedAt", "!").removeprefix("distinct ")[1:]
            self.known[number] = tuple(places)
        return self.known[number]
