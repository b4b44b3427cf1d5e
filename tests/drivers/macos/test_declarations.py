"""The headers that declare the emulated Metal API match Apple's declarations."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from declarations import Table, mismatches
from objc_ast import compiler, declarations

ROOT = Path(__file__).resolve().parents[3]
HEADERS = ROOT / "tests" / "drivers" / "metal" / "emulation" / "include"
METAL = HEADERS / "Metal" / "Metal.h"
FOUNDATION = HEADERS / "Foundation" / "Foundation.h"

pytestmark = pytest.mark.skipif(not compiler(), reason="needs clang: the package ziglang, or the system's")

# Methods that, according to Apple's documentation, do not exist on macOS 14, the oldest version that mpsx supports.
# Calling one of them there aborts the process.
SINCE_MACOS_15 = {
    "mathMode", "setMathMode:", "mathFloatingPointFunctions", "setMathFloatingPointFunctions:", "enableLogging",
    "setEnableLogging:", "newResidencySetWithDescriptor:error:", "addResidencySet:", "useResidencySet:",
    "newLogStateWithDescriptor:error:", "setLogState:", "MTLLanguageVersion3_2", "setShaderValidation:",
    "commandQueueWithDescriptor:", "newCommandQueueWithDescriptor:",
    # Since macOS 26.
    "setRequiredThreadsPerThreadgroup:", "newMTL4CommandQueue", "newCommandAllocator", "newCommandBuffer",
    "newArgumentTableWithDescriptor:error:", "newTensorWithDescriptor:offset:error:",
}  # fmt: skip
# A device that responds to this selector supports all of Metal 4.
METAL_4 = "respondsToSelector:@selector(newMTL4CommandQueue)"


@pytest.fixture(scope="module")
def table() -> Table:
    return Table()


def test_table_is_complete(table: Table) -> None:
    assert len(table.methods) > 500
    assert len(table.constants) > 200
    assert table.method("MTLComputeCommandEncoder", "-", "endEncoding") == ("v",)  # inherited from MTLCommandEncoder
    assert table.constants["MTLGPUFamilyApple9"] == 1009


def test_emulated_headers_match_apples(table: Table) -> None:
    found = declarations("#import <Metal/Metal.h>\n", HEADERS)
    assert len([key for key in found.methods if key[0].startswith("MTL")]) > 30
    assert list(mismatches(table, found)) == []


# Changes that make a header contradict Apple's declarations: (file, old text, new text, part of the message).
MUTATIONS = {
    "selector": (METAL, "dispatchThreads:", "dispatchThread:", "no such method"),
    "argument": (METAL, "setBuffer:(nullable id<MTLBuffer>)", "setBuffer:(void*)", "setBuffer:offset:atIndex:"),
    "width": (METAL, "offset:(NSUInteger)offset atIndex", "offset:(uint32_t)offset atIndex", "got v @ I Q"),
    "sign": (METAL, "NS_ENUM(NSInteger, MTLGPUFamily)", "NS_ENUM(NSUInteger, MTLGPUFamily)", "enum MTLGPUFamily"),
    "value": (METAL, "MTLGPUFamilyApple7 = 1007", "MTLGPUFamilyApple7 = 1006", "expected 1007"),
    "result": (METAL, "(BOOL)supportsFamily:", "(int)supportsFamily:", "supportsFamily:"),
    "level": (METAL, "(NSError* _Nullable* _Nullable)error", "(NSError* _Nullable)error", "newLibraryWith"),
    "structure": (METAL, "NSUInteger width, height, depth", "NSUInteger width, height, depth, time", "{MTLSize=QQQQ}"),
    "kind": (
        METAL,
        "@protocol MTLFunction <",
        "@interface MTLCounter : NSObject\n- (NSString*)name;\n@end\n@protocol MTLFunction <",
        "expected a protocol of that name",
    ),
    "name": (METAL, "MTLCompileOptions", "MTLCompilerOptions", "no such class or protocol"),
    "function": (METAL, "MTLCopyAllDevices", "MTLCopyDevices", "no such function"),
    "block": (METAL, "(void* pointer, NSUInteger length)", "(void* pointer)", "newBufferWithBytesNoCopy"),
    "constant": (METAL, "MTLDispatchTypeSerial = 0", "MTLDispatchTypeOrdered = 0", "no such constant"),
    "metal 4": (METAL, "setResource:(MTLResourceID)", "setResource:(id<MTLTensor>)", "setResource:atBufferIndex:"),
    "tensors": (METAL, "MTLTensorDataTypeFloat16 = 16", "MTLTensorDataTypeFloat16 = 17", "expected 16"),
    "foundation": (FOUNDATION, "NSInteger code", "int code", "[NSError code]"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_planted_error_is_found(name: str, table: Table, tmp_path: Path) -> None:
    path, old, new, message = MUTATIONS[name]
    for header in (METAL, FOUNDATION):
        text = header.read_text()
        if header == path:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / header.parent.name).mkdir()
        (tmp_path / header.parent.name / header.name).write_text(text)
    found = declarations("#import <Metal/Metal.h>\n", tmp_path)
    assert any(message in mismatch for mismatch in mismatches(table, found))


def test_newer_methods_are_checked_before_use() -> None:
    for path in (ROOT / "src" / "driver" / "metal").glob("*.mm"):
        text = re.sub(r"//[^\n]*", "", path.read_text())
        for name in SINCE_MACOS_15:
            stem = name.split(":")[0]
            property_name = stem[3:4].lower() + stem[4:] if stem.startswith("set") else stem
            assigned = rf"|\.{property_name} =" if stem != property_name else ""
            used = re.search(rf"\b{stem}\b(?! =){assigned}", text)
            asked = rf"respondsToSelector:@selector\({re.escape(name)}\)|@available\(macOS 1[5-9]"
            assert not used or re.search(asked, text) or METAL_4 in text, f"{path.name}: {name} is not in macOS 14"


@pytest.mark.sweep
def test_table_matches_a_new_derivation(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "import derive_declarations as d, pathlib, sys; d.download(pathlib.Path(sys.argv[1]))",
    ]
    run = subprocess.run(
        [*command, str(tmp_path)], cwd=Path(__file__).parent, check=False, capture_output=True, text=True
    )
    if run.returncode:
        pytest.skip(f"no package index to fetch the sources from: {run.stderr.strip().splitlines()[-1]}")
    import derive_declarations

    assert derive_declarations.derive(tmp_path) == derive_declarations.TABLE.read_text()
