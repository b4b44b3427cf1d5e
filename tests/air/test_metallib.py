"""mpsx.air.metallib, which reads the container format."""

import struct

import pytest

from mpsx.air.metallib import HEADER, Function, MetallibError, read, write

BITCODE = b"BC\xc0\xde1234"
FUNCTIONS = [
    Function("add", "kernel", (2, 6), (3, 1), BITCODE),
    Function("ünder", "visible", (2, 8), (4, 0), BITCODE + b"5"),
]


def test_round_trip():
    assert read(write(FUNCTIONS)) == FUNCTIONS
    assert read(write([])) == []


def test_unknown_records_are_ignored():
    """Metallibs from other versions of Apple's compiler have additional records for each function."""
    data = write(FUNCTIONS[:1])
    at = data.index(b"VERS")
    data = data[:at] + b"XYZW" + struct.pack("<H", 3) + b"abc" + data[at:]
    header = list(HEADER.unpack_from(data))
    size = struct.unpack_from("<I", data, HEADER.size + 4)[0]
    header[8] += 9
    header[15] += 9
    entries = data[HEADER.size : HEADER.size + 4] + struct.pack("<I", size + 9) + data[HEADER.size + 8 :]
    assert read(HEADER.pack(*header) + entries) == FUNCTIONS[:1]


@pytest.mark.parametrize("damage", ["short", "magic", "list", "code", "tag", "bitcode"])
def test_damage(damage):
    data = bytearray(write(FUNCTIONS))
    if damage == "short":
        data = data[:-1]
    elif damage == "magic":
        data[0] = 0
    elif damage == "list":
        data[HEADER.size : HEADER.size + 4] = struct.pack("<I", 1000)
    elif damage == "code":
        at = data.index(b"MDSZ") + 6
        data[at : at + 8] = struct.pack("<Q", 1 << 40)
    elif damage == "tag":
        at = data.index(b"TYPE")
        data[at : at + 4] = b"EPYT"
    else:
        at = data.index(b"BC\xc0\xde")
        data[at] = 0
    with pytest.raises(MetallibError, match=r"lib\.metallib: expected a metallib, but the file is damaged"):
        read(bytes(data), "lib.metallib")


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_truncation_never_crashes(length):
    data = write(FUNCTIONS)
    with pytest.raises(MetallibError):
        read(data[: min(length, len(data) - 1)])
