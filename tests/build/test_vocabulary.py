"""tools/lint.py vocabulary: which phrases it rejects, where it looks for them, and which exceptions it allows."""

from __future__ import annotations

import pytest
import vocabulary
from prose import passages

REJECTED = {
    "a.cpp": [
        "// A buffer, of which a thread reads half.",
        "// A buffer, of\n// which a thread reads half.",
        "int x;  // Refuses other sizes.",
        "/* One launch a row. */",
        'throw Error("the kernel refuses this");',
        "// Of a row.",
        "// Those in registers.",
        "// The same for columns.",
        "// Sums rows. The same, but for columns.",
        "// There is a kernel that sums.",
        "// Reads 16 bytes a lane.",
        "// The row is to be summed.",
        "// Waits until the work is waited for.",
        "// The sum of the row, and what is left of it.",
        "// The index of each row, beside its values.",
        "// The row lies at the end.",
        "// Swaps elements whose places differ, each place once.",
    ],
    "a.py": [
        '"""Sum a row, of which half is zero."""',
        '    """The same for columns."""',
        "x = 1  # mends the sum",
        'raise ValueError("sum: warns once a process")',
        '"""Sum.\n\n    It takes 3 ms a step.\n    """',
    ],
    "a.pyx": ['cdef f() except? 0:\n    """Refuse."""'],
    "a.cmake": ["# Of the kernels."],
    "run": ["#!/bin/bash\n# Whom the script asks."],
    "a.md": ["The neighbours of a row.", "- a matrix\n  product", "```c++\nreturn deliver(result);\n```"],
}
ACCEPTED = {
    "a.cpp": [
        "// Each of which, the record of which operators ran, the amount by which x exceeds y.",
        "// Launches a kernel. Copies a row. Determines how many bytes a kernel declares.",
        "// Once a kernel has run, it is cached.",
        "// Values lie in [0, 1). Threadgroups lay out memory. A kernel takes its place.",
        "// The connection refused.",
        "// Offsets; the same offset serves all rows.",
        'auto s = "// Of";',
        "auto n = 1'000;  // it's \"The same\"",
        'R"(The same for)";',
        "f(neighbours);",
        'f("neighbours");',
    ],
    "a.py": ['x = "# Of the kernels"', "x = '''The same for'''", "x = y.neighbours"],
    "a.md": ["`neighbours` is a name.", "```\nThe matrix product\n```"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in REJECTED.items() for text in texts])
def test_rejected(name: str, text: str) -> None:
    assert len(list(vocabulary.findings(name, text))) == 1


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in ACCEPTED.items() for text in texts])
def test_accepted(name: str, text: str) -> None:
    assert list(vocabulary.findings(name, text)) == []


def test_line_number_and_advice() -> None:
    text = "int a;\n\n// Sums a row,\n// half of it in registers and\n// refuses other sizes.\n"
    assert list(vocabulary.findings("a.cpp", text)) == ["a.cpp:5: 'refuses': fix; reject"]


def test_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry in ALLOWED applies only to its file and its text, and it is marked as used."""
    entry = ("a.cpp", "refuses to connect", "the system's message")
    monkeypatch.setattr(vocabulary, "ALLOWED", [entry])
    used: set[tuple[str, str, str]] = set()
    assert list(vocabulary.findings("a.cpp", "// The host refuses to connect.", used)) == []
    assert used == {entry}
    assert len(list(vocabulary.findings("a.cpp", "// The host refuses.", used))) == 1
    assert len(list(vocabulary.findings("b.cpp", "// The host refuses to connect."))) == 1


def test_every_entry_has_a_reason() -> None:
    assert all(reason for _, _, reason in vocabulary.ALLOWED)


def test_passages() -> None:
    text = 'x = 1  # one\n# two\n# three\ndef f():\n    """Four."""\n    return "five six", "seven", "it\'s # x"\n'
    found = [(p.line, p.text, p.is_comment) for p in passages("a.py", text)]
    assert found == [(1, "one\ntwo\nthree", True), (5, "Four.", True), (6, "five six", False), (6, "it's # x", False)]
