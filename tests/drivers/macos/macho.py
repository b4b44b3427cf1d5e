"""Read Mach-O libraries: names, run paths, minimum macOS version, imports and exports."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

ARM64 = 0x0100000C
ID_DYLIB, LOAD_DYLIBS, RPATH = 0x0D, {0x0C, 0x80000018, 0x8000001F, 0x23}, 0x8000001C
SYMTAB, BUILD_VERSION, VERSION_MIN_MACOSX = 0x02, 0x32, 0x24
DYLIB, BUNDLE = 6, 8
N_STAB, N_TYPE, N_EXT, N_UNDF, N_WEAK_REF = 0xE0, 0x0E, 0x01, 0x00, 0x40


@dataclass
class Library:
    """An arm64 Mach-O file."""

    path: Path
    file_type: int = 0
    install_name: str = ""
    minimum_macos: tuple[int, int] = (0, 0)
    dependencies: list[str] = field(default_factory=list)  # install names, by ordinal
    rpaths: list[str] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)  # symbol -> install name, or "" for any library
    weak: set[str] = field(default_factory=set)  # weak imports, which may be missing at run time
    exports: set[str] = field(default_factory=set)


def arm64_slice(data: bytes) -> bytes:
    """Return the arm64 part of a universal file, or the whole file if it has a single architecture."""
    if data[:4] != b"\xca\xfe\xba\xbe":
        return data
    (count,) = struct.unpack_from(">I", data, 4)
    for i in range(count):
        cpu, _, offset, size, _ = struct.unpack_from(">5I", data, 8 + 20 * i)
        if cpu == ARM64:
            return data[offset : offset + size]
    raise ValueError("a universal file without an arm64 part")


def c_string(data: bytes, offset: int) -> str:
    """Return the null-terminated string at an offset."""
    return data[offset : data.index(b"\0", offset)].decode()


def read(path: Path) -> Library:
    data = arm64_slice(path.read_bytes())
    magic, cpu, _, file_type, commands = struct.unpack_from("<5I", data)
    if magic != 0xFEEDFACF or cpu != ARM64:
        raise ValueError(f"{path}: expected a Mach-O file for arm64")
    library, symbols, position = Library(path, file_type), None, 32
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, position)
        if command in (ID_DYLIB, RPATH) or command in LOAD_DYLIBS:
            name = c_string(data, position + struct.unpack_from("<I", data, position + 8)[0])
            if command == ID_DYLIB:
                library.install_name = name
            elif command == RPATH:
                library.rpaths.append(name)
            else:
                library.dependencies.append(name)
        elif command == SYMTAB:
            symbols = struct.unpack_from("<4I", data, position + 8)
        elif command in (BUILD_VERSION, VERSION_MIN_MACOSX):
            (version,) = struct.unpack_from("<I", data, position + (12 if command == BUILD_VERSION else 8))
            library.minimum_macos = (version >> 16, version >> 8 & 0xFF)
        position += size
    if symbols:
        read_symbols(library, data, *symbols)
    return library


def read_symbols(library: Library, data: bytes, offset: int, count: int, strings: int, _: int) -> None:
    """Read imports and exports from the symbol table."""
    for index, kind, _, description, value in struct.iter_unpack("<IBBHQ", data[offset : offset + 16 * count]):
        if kind & N_STAB or not kind & N_EXT:
            continue
        name = c_string(data, strings + index)
        if kind & N_TYPE != N_UNDF:
            library.exports.add(name)
        elif value == 0:
            ordinal = description >> 8
            known = 0 < ordinal <= len(library.dependencies)
            library.imports[name] = library.dependencies[ordinal - 1] if known else ""
            if description & N_WEAK_REF:
                library.weak.add(name)
