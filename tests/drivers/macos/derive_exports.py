#!/usr/bin/env python3
"""Generate exports.txt, which lists the symbols in Apple's libraries that mpsx may link against.

    python tests/drivers/macos/derive_exports.py FOLDER     with the macOS wheels of torch and mlx-metal

Every Mac that can run these wheels has the symbols that the wheels' libraries import. The list also contains the
classes in metal-cpp, and the functions of the Objective-C runtime that clang calls.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

import macho
from metal_cpp import MetalCpp

TABLE = Path(__file__).with_name("exports.txt")
FRAMEWORKS = "/System/Library/Frameworks/{0}.framework/Versions/{1}/{0}"
METAL, FOUNDATION = FRAMEWORKS.format("Metal", "A"), FRAMEWORKS.format("Foundation", "C")
CORE_FOUNDATION, OBJC = FRAMEWORKS.format("CoreFoundation", "A"), "/usr/lib/libobjc.A.dylib"
# Classes that Foundation's headers declare but CoreFoundation exports.
IN_CORE_FOUNDATION = {"NSArray", "NSData", "NSDate", "NSDictionary", "NSSet", "NSURL"}
# Runtime functions that clang calls (lib/CodeGen/CGObjCMac.cpp and CGObjC.cpp).
RUNTIME = """objc_alloc objc_alloc_init objc_autorelease objc_autoreleasePoolPop objc_autoreleasePoolPush
    objc_begin_catch objc_end_catch objc_enumerationMutation objc_exception_rethrow objc_exception_throw
    objc_getClass objc_getProtocol objc_lookUpClass objc_msgSend objc_msgSendSuper2 objc_opt_class
    objc_opt_isKindOfClass objc_opt_new objc_opt_respondsToSelector objc_opt_self objc_release objc_retain
    objc_retainAutorelease objc_sync_enter objc_sync_exit objc_terminate sel_registerName _objc_empty_cache
    __objc_personality_v0 OBJC_CLASS_$_NSObject OBJC_METACLASS_$_NSObject OBJC_EHTYPE_id""".split()


def derive(folder: Path) -> str:
    found: dict[str, set[str]] = {METAL: set(), FOUNDATION: set(), CORE_FOUNDATION: set(), OBJC: set()}
    found[OBJC] |= {f"_{name}" for name in RUNTIME}
    wheels = [next(folder.glob(pattern)) for pattern in ("torch-*.whl", "mlx_metal-*.whl")]
    with tempfile.TemporaryDirectory() as scratch:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                names = [n for n in archive.namelist() if n.endswith((".dylib", ".so")) or "/metal_cpp/" in n]
                archive.extractall(scratch, names)
        for path in [*Path(scratch).rglob("*.dylib"), *Path(scratch).rglob("*.so")]:
            for symbol, library in macho.read(path).imports.items():
                if library in found:
                    found[library].add(symbol)
        headers = MetalCpp(next(Path(scratch).rglob("metal_cpp")))
    for name in headers.classes - {"NSObject"}:
        owner = METAL if name.startswith("MTL") else CORE_FOUNDATION if name in IN_CORE_FOUNDATION else FOUNDATION
        found[owner].add(f"_OBJC_CLASS_$_{name}")
    found[METAL] = {symbol for symbol in found[METAL] if "MTL4" not in symbol}
    names = " and ".join(wheel.name for wheel in wheels)
    lines = [
        "# Written by derive_exports.py; do not edit. Symbols that macOS libraries export and that ours may import:",
        f"# the imports of the libraries in {names},",
        "# classes in mlx-metal's metal-cpp headers (Apple, Apache License 2.0), and runtime functions clang calls.",
    ]
    for library, symbols in found.items():
        lines += [library, *(f"  {symbol}" for symbol in sorted(symbols))]
    return "\n".join(lines) + "\n"


def read(path: Path = TABLE) -> dict[str, list[str]]:
    """Return a dict from each library's install name to its symbols."""
    table: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("/"):
            symbols = table.setdefault(line, [])
        elif line.startswith("  "):
            symbols.append(line.strip())
    return table


def tbd_document(library: str, symbols: list[str], reexports: list[str]) -> str:
    """Return the text of a .tbd file. A linker accepts such a file in place of a library."""
    quoted = ", ".join(f"'{symbol}'" for symbol in symbols)
    others = ", ".join(f"'{name}'" for name in reexports)
    return (
        f"--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: '{library}'\n"
        + (f"reexported-libraries:\n  - targets: [ arm64-macos ]\n    libraries: [ {others} ]\n" if others else "")
        + f"exports:\n  - targets: [ arm64-macos ]\n    symbols: [ {quoted} ]\n"
    )


def write_stubs(folder: Path) -> None:
    """Write .tbd files for the frameworks. As on macOS, Foundation re-exports CoreFoundation and libobjc."""
    table = read()
    texts = {
        "Metal": tbd_document(METAL, table[METAL], []),
        "Foundation": tbd_document(FOUNDATION, table[FOUNDATION], [CORE_FOUNDATION, OBJC])
        + tbd_document(CORE_FOUNDATION, table[CORE_FOUNDATION], [])
        + tbd_document(OBJC, table[OBJC], []),
    }
    for name, text in texts.items():
        path = folder / f"{name}.framework" / f"{name}.tbd"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "...\n")


if __name__ == "__main__":
    TABLE.write_text(derive(Path(sys.argv[1])))
