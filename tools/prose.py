"""Extract the prose from a source file: comments, docstrings, messages, and Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

# The scanners also match strings, so that comment markers inside strings are ignored.
C_SCANNER = re.compile(
    r'R"(?P<delimiter>\w*)\((?P<raw>.*?)\)(?P=delimiter)"|"(?P<string>(?:\\.|[^"\\\n])*)"'
    r"|(?<![\da-fA-F])'(?:\\.|[^'\\\n])*'|(?P<comment>//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/)", re.DOTALL)
HASH_SCANNER = re.compile(
    r'(?P<quotes>"""|\'\'\')(?P<block>.*?)(?P=quotes)|"(?P<string>(?:\\.|[^"\\\n])*)"|\'(?P<raw>(?:\\.|[^\'\\\n])*)\''
    r"|(?:^|(?<=\s))(?P<comment>#[^\n]*(?:\n[ \t]*#[^\n]*)*)", re.DOTALL | re.MULTILINE)
SCANNERS = {
    **dict.fromkeys((".cpp", ".h", ".mm", ".m", ".metal", ".def", ".js", ".css"), C_SCANNER),
    **dict.fromkeys((".py", ".pyx", ".cmake", ".txt", ".toml", ".yml", ".sh"), HASH_SCANNER),
}
MARKER = re.compile(r"^[ \t]*(?://+|#+!?|/\*+|\*(?!/))?[ \t]*", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Passage:
    """A comment, string, or document. Adjacent comment lines form a single passage."""

    line: int
    text: str  # the text without comment markers and indentation
    is_comment: bool  # True for comments and docstrings


def passages(name: str, text: str) -> Iterator[Passage]:
    """Yield the prose in the file `name`. Quoted single words are skipped, because they are names."""
    suffix = PurePosixPath(name).suffix
    if suffix == ".md":
        without_code = CODE.sub(lambda m: "\n" * m[0].count("\n"), text)
        yield Passage(1, re.sub(r"(?m)^[ \t]+", "", without_code), False)
        return
    scanner = SCANNERS.get(suffix, HASH_SCANNER if text.startswith("#!") else None)
    for m in scanner.finditer(text) if scanner else ():
        found = m.groupdict()
        body = next((found[key] for key in ("comment", "block", "raw", "string") if found.get(key)), "")
        before = text[text.rfind("\n", 0, m.start()) + 1 : m.start()]
        is_docstring = found.get("block") is not None and before.strip() in ("", "r")
        is_comment = found["comment"] is not None or is_docstring
        if is_comment or " " in body:
            yield Passage(text.count("\n", 0, m.start()) + 1, MARKER.sub("", body), is_comment)
