"""The strict check (mpsx.msl.check) reports the marked errors in rejected/ and the marked warnings in warned/.

It must report nothing else. A caret line `//    ^ text` marks a column of the line above it, and `text` is part of the
message. Files in accepted/ have no errors.
"""

import re
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from msl.check import SourceMap, check, render  # noqa: E402
from msl.compiler import find_compiler  # noqa: E402

TORCH = str(Path(torch.__file__).parent / "include")
CARET = re.compile(r"//( *)\^ (.*)")


@pytest.fixture(scope="session")
def compiler():
    return find_compiler()


def expectations(text):
    """Return (line, column, part of the message) for each caret line."""
    found, above = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        m = CARET.fullmatch(line)
        if m:
            found.append((above, len(m[1]) + 3, m[2]))
        else:
            above = number
    return found


def names(folder):
    return sorted(p.stem for p in (HERE / folder).glob("*.metal"))


@pytest.mark.parametrize("name", names("rejected"))
def test_rejected(name, compiler):
    path = HERE / "rejected" / f"{name}.metal"
    expected = expectations(path.read_text())
    found = check(str(path), [TORCH], compiler=compiler)
    shown = render(found, SourceMap(""), limit=20)
    assert expected, "no caret line"
    assert [(d.line, d.column) for d in found] == [(line, column) for line, column, _ in expected], shown
    for d, (_, _, part) in zip(found, expected, strict=True):
        assert part in d.message
        assert Path(d.file) == path


@pytest.mark.parametrize("name", names("accepted"))
def test_accepted(name, compiler):
    path = HERE / "accepted" / f"{name}.metal"
    found = check(str(path), [TORCH], compiler=compiler)
    assert not found, render(found, SourceMap(""), limit=20)


@pytest.mark.parametrize("name", names("warned"))
def test_warned(name, compiler):
    path = HERE / "warned" / f"{name}.metal"
    found = check(str(path), [TORCH], compiler=compiler)
    shown = render(found, SourceMap(""), limit=20)
    assert {d.kind for d in found} == {"warning"}, shown
    assert [(d.line, d.column, d.message) for d in found] == expectations(path.read_text()), shown
