"""Maps LLVM IR instructions to source positions: files and lines in the Metal source."""

from __future__ import annotations

import re

NODE = re.compile(r"^!(\d+) = (?:distinct )?!(\w+)\((.*)\)$")
FIELD = re.compile(r'(\w+): ("(?:[^"\\]|\\.)*"|[^,()]+)')
SCOPES = ("DISubprogram", "DILexicalBlock", "DILexicalBlockFile", "DIFile", "DILocation")


class DebugLines:
    """Reads a module's debug metadata."""

    def __init__(self, lines: list[str]) -> None:
        self.nodes: dict[str, tuple[str, dict[str, str]]] = {}
        for line in lines:
            if line.startswith("!") and (node := NODE.match(line)) and node[2] in SCOPES:
                self.nodes[node[1]] = node[2], dict(FIELD.findall(node[3]))
        self.files: dict[str, str] = {}
        self.known: dict[str, tuple[tuple[str, int], ...]] = {}

    def file(self, scope: str) -> str:
        """Return the file of a scope. `scope` is its metadata number."""
        if scope not in self.files:
            kind, fields = self.nodes.get(scope, ("", {}))
            if kind == "DIFile":
                found = fields["filename"].strip('"')
            else:
                found = self.file(fields["file"][1:]) if "file" in fields else ""
            self.files[scope] = found
        return self.files[scope]

    def positions(self, instruction: str) -> tuple[tuple[str, int], ...]:
        """Return an instruction's (file, line), followed by the positions of the calls through which it was inlined."""
        found = re.search(r"!dbg !(\d+)", instruction)
        if not found:
            return ()
        number = found[1]
        if number not in self.known:
            positions, at = [], number
            while at in self.nodes:
                fields = self.nodes[at][1]
                file, line = self.file(fields["scope"][1:]), int(fields.get("line", 0))
                if line and not file.startswith("<"):
                    positions.append((file, line))
                at = fields.get("inlinedAt", "!").removeprefix("distinct ")[1:]
            self.known[number] = tuple(positions)
        return self.known[number]
