"""Read metallib files, Apple's container for compiled Metal functions.

A metallib has a header, a list of functions, two lists of metadata per function, and one LLVM bitcode module per
function. Each function is a list of tagged records: four characters, a 16-bit length, and the value. The layout is
documented by https://github.com/YuAo/MetalLibraryArchive and https://github.com/gfx-rs/naga/wiki/Metallib-file-format.
All numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field

MAGIC = b"MTLB"
# Magic number, platform, container version, file type, target system and its version, file size, and the offset and
# size of each section: function list, public metadata, private metadata, bitcode.
HEADER = struct.Struct("<4s3H2B2H9Q")
KINDS = ("vertex", "fragment", "kernel", "unqualified", "visible", "extern", "intersection", "mesh", "object")
BITCODE_MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # plain bitcode, and bitcode in a wrapper


class MetallibError(ValueError):
    """Raised for a damaged metallib."""


@dataclass(frozen=True)
class Function:
    """A function of a metallib, with its versions of AIR (Apple's LLVM dialect) and of the Metal language."""

    name: str
    kind: str
    air_version: tuple[int, int]
    language_version: tuple[int, int]
    bitcode: bytes
    sha256: bytes = field(default=b"", compare=False)  # the bitcode's hash according to the file; b"" if it has none


def is_metallib(data: bytes) -> bool:
    """Return whether a file that begins with these bytes is a metallib."""
    return data[:4] == MAGIC


def read(data: bytes | memoryview, name: str = "metallib") -> list[Function]:
    """Return the functions of a metallib. `name` is the file name to use in errors."""
    try:
        return list(_functions(memoryview(data)))
    except KeyError as error:
        raise MetallibError(f"{name}: expected a metallib, but the file is damaged: no record {error}") from None
    except (struct.error, MetallibError, UnicodeDecodeError, IndexError, OverflowError) as error:
        raise MetallibError(f"{name}: expected a metallib, but the file is damaged: {error}") from None


def _functions(data: memoryview) -> list[Function]:
    if len(data) < HEADER.size or not is_metallib(bytes(data[:4])):
        raise MetallibError(f"expected a header of {HEADER.size} bytes that starts with 'MTLB'")
    header = HEADER.unpack_from(data)
    size, list_offset, code_offset, code_size = header[8], header[9], header[15], header[16]
    if size > len(data):
        raise MetallibError(f"expected {size} bytes, got {len(data)}")
    code = _part(data, code_offset, code_size)
    (count,) = struct.unpack_from("<I", data, list_offset)
    at, functions = list_offset + 4, []
    for _ in range(count):
        (length,) = struct.unpack_from("<I", data, at)
        records = _records(_part(data, at, length)[4:])
        functions.append(_function(records, code))
        at += length
    return functions


def _part(data: memoryview, offset: int, size: int) -> memoryview:
    if offset + size > len(data):
        raise MetallibError(f"expected {size} bytes at {offset}, got {max(len(data) - offset, 0)}")
    return data[offset : offset + size]


def _records(data: memoryview) -> dict[str, bytes]:
    """Return the values of tagged records by tag. The tag ENDT, which has no value, ends the list."""
    records, at = {}, 0
    while (tag := bytes(data[at : at + 4])) != b"ENDT":
        (size,) = struct.unpack_from("<H", data, at + 4)
        records[tag.decode("ascii")] = bytes(_part(data, at + 6, size))
        at += 6 + size
    return records


def _function(records: dict[str, bytes], code: memoryview) -> Function:
    name = records["NAME"].partition(b"\0")[0].decode()
    kind = records["TYPE"][0]
    (size,) = struct.unpack("<Q", records["MDSZ"])
    offset = struct.unpack("<3Q", records["OFFT"])[2]
    versions = struct.unpack("<4H", records["VERS"])
    bitcode = bytes(_part(code, offset, size))
    if not bitcode.startswith(BITCODE_MAGIC):
        raise MetallibError(f"function '{name}': expected LLVM bitcode at {offset}, got {bitcode[:4].hex()}")
    kind_name = KINDS[kind] if kind < len(KINDS) else f"kind {kind}"
    return Function(name, kind_name, versions[:2], versions[2:], bitcode, records.get("HASH", b""))


def _record(tag: str, value: bytes) -> bytes:
    return tag.encode() + struct.pack("<H", len(value)) + value


def write(functions: list[Function]) -> bytes:
    """Return a metallib that contains the functions without metadata. Only the tests of this reader use it."""
    entries, code = b"", b""
    for f in functions:
        records = (
            _record("NAME", f.name.encode() + b"\0") + _record("TYPE", bytes([KINDS.index(f.kind)]))
            + _record("HASH", f.sha256 or hashlib.sha256(f.bitcode).digest())
            + _record("MDSZ", struct.pack("<Q", len(f.bitcode)))
            + _record("OFFT", struct.pack("<3Q", 0, 0, len(code)))
            + _record("VERS", struct.pack("<4H", *f.air_version, *f.language_version)) + b"ENDT"
        )  # fmt: skip
        entries += struct.pack("<I", len(records) + 4) + records
        code += f.bitcode
    entries = struct.pack("<I", len(functions)) + entries
    offset = HEADER.size + len(entries)
    header = HEADER.pack(MAGIC, 0x8001, 2, 7, 0, 0x81, 14, 0, offset + len(code), HEADER.size, len(entries), offset, 0,
                         offset, 0, offset, len(code))  # fmt: skip
    return header + entries + code
