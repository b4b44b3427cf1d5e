"""Convert addresses to source lines (src/driver/host/simt/line_table.h), using symbol addresses from nm."""

import os
import shutil
import subprocess

import pytest

SOURCE = """#line 10 "user.metal"
int first(int* p) {
  return p[0];
}
#line 100 "lib/other.h"
int second(int* p) {

  return p[1] / p[2];
}
#line 5 "<entries>"
int third(int* p) { return *p; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not shutil.which("nm"):
        pytest.skip("needs nm to find the functions")
    folder = tmp_path_factory.mktemp("lines")
    (folder / "a.cpp").write_text(SOURCE)
    command = os.environ.get("CXX", "c++").split()
    subprocess.run([*command, "-O0", "-g1", "-gdwarf-4", "-shared", "-fPIC", "-o", str(folder / "a.so"),
                    str(folder / "a.cpp")], check=True)
    return folder / "a.so"


def symbols(library):
    """Return the first and last address of each symbol."""
    out = subprocess.run(["nm", "-S", str(library)], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in out.splitlines()]
    return {r[3]: (int(r[0], 16), int(r[0], 16) + int(r[1], 16) - 1) for r in rows if len(r) == 4}


def test_lines_of_functions(native, library):
    found = symbols(library)

    def line(address):
        return native.line_of(str(library).encode(), address).decode()
    begin, end = found["_Z5firstPi"]
    assert line(begin) == "user.metal:10"
    assert line(end) == "user.metal:12"
    assert {line(a) for a in range(begin, end + 1)} == {"user.metal:10", "user.metal:11", "user.metal:12"}
    begin, end = found["_Z6secondPi"]
    assert {line(a) for a in range(begin, end + 1)} == {f"lib/other.h:{i}" for i in (100, 102, 103)}


def test_generated_code_has_no_line(native, library):
    begin, end = symbols(library)["_Z5thirdPi"]
    path = str(library).encode()
    assert native.line_of(path, begin) == b""  # generated entry points have no line
    assert native.line_of(path, 0) == b""
    assert native.line_of(path, end + (1 << 40)) == b""


def test_invalid_libraries(native, library, tmp_path):
    contents = library.read_bytes()
    for name, data in {"empty": b"", "text": b"not a library" * 100, "half": contents[:len(contents) // 2],
                       "header": contents[:64], "noise": bytes(b ^ 0x55 if i > 64 else b
                                                               for i, b in enumerate(contents))}.items():
        (tmp_path / name).write_bytes(data)
        for address in (0, symbols(library)["_Z5firstPi"][0]):
            assert native.line_of(str(tmp_path / name).encode(), address) == b""
    assert native.line_of(str(tmp_path / "missing").encode(), 0) == b""
