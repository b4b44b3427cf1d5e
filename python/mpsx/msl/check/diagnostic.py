"""Errors and warnings, and their positions in the user's files."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from ..lexer import LINE_MARKER, TOKEN

MESSAGE = re.compile(r"^(?P<file>[^\n]+?):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)$", re.M)


@dataclass(frozen=True, order=True)
class Diagnostic:
    file: str
    line: int
    column: int
    message: str
    kind: str = "error"

    def __str__(self):
        return f"{self.file}:{self.line}:{self.column}: {self.kind}: {self.message}"


def from_text(text):
    """Parse messages of the form `file:line:column: error: message`, as in an MslError or from a preprocessor."""
    return [Diagnostic(m["file"], int(m["line"]), int(m["column"] or 1), m["text"]) for m in MESSAGE.finditer(text)]


def lexemes(line):
    """Return the tokens of a line with their columns, counted from 0."""
    return [(m.group(), m.start()) for m in TOKEN.finditer(line) if m.lastgroup != "skip"]


def original_column(original, changed, column):
    """Map a token in preprocessed or translated text to its column in the user's line. The token is at `column` (from
    1) of the line `changed`. The expansion of a macro maps to the macro's name."""
    ours, theirs = lexemes(changed), lexemes(original)
    at = next((i for i in reversed(range(len(ours))) if ours[i][1] < column), None)
    if at is None or not theirs:
        return len(original) - len(original.lstrip()) + 1
    blocks = SequenceMatcher(None, [t for t, _ in ours], [t for t, _ in theirs], autojunk=False).get_matching_blocks()
    nearest = 0
    for a, b, size in blocks:
        if a <= at < a + size:
            return theirs[b + at - a][1] + 1
        if a <= at:
            nearest = b + size
    return theirs[min(nearest, len(theirs) - 1)][1] + 1


class SourceMap:
    """Maps positions in preprocessed text to the user's files. `texts` contains files that are not on disk."""

    def __init__(self, text, texts=None):
        self.text = text
        self.texts = dict(texts or {})
        self.lines = {}
        self.physical = None

    def line(self, file, number):
        """Return a line of a user's file, or None if it is unknown."""
        if file not in self.lines:
            text = self.texts.get(file)
            if text is None:
                try:
                    with open(file) as f:
                        text = f.read()
                except OSError:
                    text = ""
            self.lines[file] = text.split("\n")
        lines = self.lines[file]
        return lines[number - 1] if 0 < number <= len(lines) else None

    def of_token(self, src, token):
        """Return (file, line, column) of a token. `src` is the Source of this text."""
        file, line, column = src.location(token).rsplit(":", 2)
        offset = src.starts[min(token, len(src.starts) - 1)]
        begin, end = self.text.rfind("\n", 0, offset) + 1, self.text.find("\n", offset)
        return (
            file,
            int(line),
            self.column(file, int(line), self.text[begin : end if end >= 0 else None], int(column)),
        )

    def column(self, file, line, changed, column):
        original = self.line(file, line)
        return column if original is None or original == changed else original_column(original, changed, column)

    def output_column(self, file, line, column):
        """Map a position that a compiler reported in this text to a column in the user's line."""
        if self.physical is None:
            self.physical = physical_lines(self.text)
        changed = self.physical.get((file, line))
        return column if changed is None else self.column(file, line, changed, column)


def physical_lines(text):
    """Map each (file, line), as counted by line markers, to the text of the line."""
    found, file, number = {}, "<input>", 1
    for line in text.split("\n"):
        m = LINE_MARKER.match(line)
        if m:
            file, number = m[2], int(m[1])
        else:
            if line.strip():
                found[file, number] = line
            number += 1
    return found


def render(diagnostics, positions=None, limit=5):
    """Format at most `limit` diagnostics as text, each with its line and a caret."""
    out = []
    for d in diagnostics[:limit]:
        out.append(str(d))
        line = positions.line(d.file, d.line) if positions else None
        if line is not None and line.strip():
            out += [line, re.sub(r"[^\t]", " ", line[: d.column - 1]) + "^"]
    if len(diagnostics) > limit:
        out.append(f"… and {len(diagnostics) - limit} more {diagnostics[-1].kind}s")
    return "\n".join(out)
