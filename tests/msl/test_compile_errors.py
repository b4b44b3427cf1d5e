"""Errors that only the compiler finds are reported with the user's line and column and with Metal's type names.

Caret lines mark the errors, as in test_check.py. g++ reports different columns, so its test compares only lines.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_check import CARET, expectations

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from msl.check.address_spaces import clang_of  # noqa: E402
from msl.check.messages import CLANG_FLAGS, FLAGS, explain  # noqa: E402
from msl.compiler import find_compiler  # noqa: E402
from msl.passes.tensors import uses_tensors  # noqa: E402
from msl.translate import translate  # noqa: E402

FILES = sorted(p.stem for p in (HERE / "compile_errors").glob("*.metal"))
FOREIGN = re.compile(r"mpsx|vec<|metal::|swizzle|anonymous|static_assert|\baka\b")


def errors(name, command, folder):
    path = HERE / "compile_errors" / f"{name}.metal"
    out = str(folder / "out.cpp")
    translate(str(path), out, [], [], find_compiler().preprocessor())
    standard = "-std=c++23" if uses_tensors(path.read_text()) else "-std=c++17"
    run = subprocess.run([*command, "-fsyntax-only", standard, "-w", f"-I{ROOT / 'src'}", out],
                         check=False, capture_output=True, text=True)
    assert run.returncode
    return expectations(path.read_text()), explain(run.stderr, Path(out).read_text()), run.stderr


@pytest.mark.parametrize("name", FILES)
def test_clang(name, tmp_path):
    clang = clang_of(find_compiler().command)
    if clang is None:
        pytest.skip("no clang here")
    expected, found, raw = errors(name, [*clang, "-nostdinc++", *CLANG_FLAGS], tmp_path)
    assert sorted((d.line, d.column) for d in found) == [(line, column) for line, column, _ in expected], raw
    for d, (_, _, part) in zip(sorted(found), expected, strict=True):
        assert part in d.message
        assert not FOREIGN.search(d.message), d.message


@pytest.mark.parametrize("name", FILES)
def test_gcc(name, tmp_path):
    gcc = shutil.which("g++")
    if gcc is None:
        pytest.skip("no g++ here")
    expected, found, raw = errors(name, [gcc, *FLAGS], tmp_path)
    assert {d.line for d in found} == {line for line, _, _ in expected}, raw
    for d in found:
        assert not FOREIGN.search(d.message), d.message
        assert not CARET.search(d.message)
