#!/usr/bin/env python3
"""Generate declarations.txt: Apple's declarations of the parts of Metal and Foundation that a driver may use.

    python tests/drivers/macos/derive_declarations.py            downloads the two wheels named below
    python tests/drivers/macos/derive_declarations.py FOLDER     reads them from FOLDER

The declarations come from two sources that do not require a Mac: Apple's metal-cpp headers (Apache-2.0) in the macOS
wheel of mlx-metal, and the metadata in pyobjc-framework-Metal (MIT), which was generated from Apple's SDK. Selectors
and values that occur in both sources must agree.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import types
import zipfile
from pathlib import Path

from metal_cpp import MetalCpp

WHEELS = {"mlx-metal": "0.32.4", "pyobjc-framework-Metal": "12.2.2"}
TABLE = Path(__file__).with_name("declarations.txt")

# Classes and protocols for devices, memory, libraries, compute, events, capture and profiling.
METAL = """MTLAllocation MTLArchitecture MTLBinaryArchive MTLBinaryArchiveDescriptor MTLBlitCommandEncoder MTLBuffer
    MTLCaptureDescriptor MTLCaptureManager MTLCaptureScope MTLCommandBuffer MTLCommandBufferDescriptor
    MTLCommandBufferEncoderInfo MTLCommandEncoder MTLCommandQueue MTLCommandQueueDescriptor MTLCompileOptions
    MTLComputeCommandEncoder MTLComputePassDescriptor MTLComputePipelineDescriptor MTLComputePipelineState
    MTLCounter MTLCounterSampleBuffer MTLCounterSampleBufferDescriptor MTLCounterSet MTLDevice MTLDynamicLibrary
    MTLBinding MTLBufferBinding MTLComputePipelineReflection MTLEvent MTLFence MTLFunction MTLFunctionConstant
    MTLFunctionConstantValues MTLFunctionDescriptor MTLFunctionLog
    MTLHeap MTLHeapDescriptor MTLLibrary MTLLinkedFunctions MTLLogState MTLLogStateDescriptor MTLResidencySet
    MTLResidencySetDescriptor MTLResource MTLSharedEvent MTLSharedEventHandle MTLSharedEventListener
    MTLTensor MTLTensorBinding MTLTensorDescriptor MTLTensorExtents MTLThreadgroupBinding
    MTL4ArgumentTable MTL4ArgumentTableDescriptor MTL4CommandAllocator MTL4CommandBuffer MTL4CommandEncoder
    MTL4CommandQueue MTL4CommitFeedback MTL4CommitOptions MTL4ComputeCommandEncoder""".split()
FOUNDATION = """NSArray NSAutoreleasePool NSBundle NSData NSDictionary NSError NSNumber NSObject NSProcessInfo
    NSSet NSString NSURL NSValue""".split()
ENUMS = """MTLArgumentBuffersTier MTLBarrierScope MTLBindingAccess MTLBindingType MTLBinaryArchiveError MTLBlitOption
    MTLCPUCacheMode
    MTLCaptureDestination MTLCaptureError MTLCommandBufferError MTLCommandBufferErrorOption
    MTLCommandBufferStatus MTLCommandEncoderErrorState MTLCompileSymbolVisibility MTLCounterSampleBufferError
    MTLCounterSamplingPoint MTLDataType MTLDeviceLocation MTLDispatchType MTLFunctionLogType MTLFunctionOptions
    MTLFunctionType MTLGPUFamily MTLHazardTrackingMode MTLHeapType MTLLanguageVersion MTLLibraryError
    MTLLibraryOptimizationLevel MTLLibraryType MTLLogLevel MTLMathFloatingPointFunctions MTLMathMode
    MTLMutability MTLPipelineOption MTLPurgeableState MTLResourceOptions MTLResourceUsage MTLShaderValidation
    MTLStorageMode MTLTensorDataType MTLTensorUsage MTL4CommandQueueError NSStringEncoding
    NSProcessInfoThermalState""".split()
# Selectors and constants for graphics, which a compute driver does not need.
GRAPHICS = re.compile(
    r"(?i)render|texture|sampler|depth|imageblock|acceleration|samplepositions|(?<!vola)tile|indirectcommand|"
    r"rasteri|visiblefunction|intersection|iosurface|argumentencoder|stage(?!d)|sparse|mesh|"
    r"raytracing|vertex|barycentric|pixelformat|primitivemotion|multisample|"
    r"buffermappings"
)
# Methods that are missing from both sources, from Apple's documentation.
DOCUMENTED = {
    ("NSString", "+", "stringWithUTF8String:"): ("@", "*"),
    ("NSDictionary", "-", "allValues"): ("@",),
    ("NSURL", "-", "path"): ("@",),
}
# Differences between the two sources that are not contradictions, with reasons.
KNOWN_DIFFERENCES = {
    "MTLCommandBuffer status": "pyobjc has one entry for all protocols, here MTLIOCommandBuffer's (NSInteger)",
    "MTLFunctionLog type": "pyobjc has one entry for all protocols, here one with NSInteger",
    "MTLResourceStorageModeMemoryless": "metal-cpp says 2 << 4, which is Private; the SDK says 3 << 4; for tiles only",
}
# NSObject methods that metal-cpp calls from templates: kind and type encodings.
NSOBJECT_METHODS = {
    "alloc": ("+", "@"), "init": ("-", "@"), "new": ("+", "@"), "retain": ("-", "@"), "release": ("-", "v"),
    "autorelease": ("-", "@"), "retainCount": ("-", "Q"), "copy": ("-", "@"), "dealloc": ("-", "v"),
    "description": ("-", "@"), "respondsToSelector:": ("-", "B", ":"), "class": ("-", "#"),
}  # fmt: skip


class Recorder(types.ModuleType):
    """Stands in for pyobjc's module `objc` while the metadata is executed, and records the registered selectors."""

    def __init__(self) -> None:
        super().__init__("objc")
        self.arch, self.methods = "arm64", {}

    def registerMetaDataForSelector(self, owner: bytes, selector: bytes, metadata: dict) -> None:
        known = self.methods.setdefault(selector.decode(), [])
        known.append((owner.decode(), metadata))

    def __getattr__(self, name: str) -> Recorder:
        return self

    def __call__(self, *_: object, **__: object) -> Recorder:
        return self


def read_pyobjc(wheel: Path) -> tuple[dict, dict[str, int]]:
    """Return each selector's metadata and the values of the enumerations."""
    with zipfile.ZipFile(wheel) as archive:
        source = archive.read("Metal/_metadata.py")
    recorder = Recorder()
    before = sys.modules.get("objc")
    sys.modules["objc"] = recorder
    try:
        scope: dict = {}
        exec(compile(source, "_metadata.py", "exec"), scope)
    finally:
        sys.modules.pop("objc")
        if before is not None:
            sys.modules["objc"] = before
    values = {name: int(value) for name, value in re.findall(r"\$(\w+)@(-?\d+)", scope["enums"])}
    return recorder.methods, values


def normalize(encoding: bytes | str) -> str:
    """Convert pyobjc's type encoding to the one used here: without qualifiers, and with B for BOOL."""
    text = encoding.decode() if isinstance(encoding, bytes) else encoding
    return re.sub(r"^[rnNoORV]+", "", text).replace("Z", "B").replace("z", "C").replace("r^v", "^v")


def pyobjc_signatures(entries: list, owner: str, is_protocol: bool, arguments: int) -> list[tuple[str, ...]]:
    """Return pyobjc's types for a selector, or "?" if unknown. pyobjc does not distinguish between protocols."""
    found = []
    for name, metadata in entries:
        if name == (owner if not is_protocol else "NSObject"):
            types_ = [metadata.get("retval", {}).get("type", b"?")]
            types_ += [metadata.get("arguments", {}).get(i + 2, {}).get("type", b"?") for i in range(arguments)]
            found.append(tuple(normalize(t) for t in types_))
    return found


def signatures_agree(ours: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    """Return whether two signatures agree, ignoring the argument types of blocks and the names of structs."""

    def plain(t: str) -> str:
        return re.sub(r"<.*>$", "", re.sub(r"\{\w+=", "{=", t))

    return all(b == "?" or plain(a) == plain(b) for a, b in zip(ours, theirs, strict=True))


def derive(folder: Path) -> str:
    mlx = next(folder.glob("mlx_metal-*.whl"))
    pyobjc = next(folder.glob("pyobjc_framework_*etal-*.whl"))
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(mlx) as archive:
        archive.extractall(scratch, [n for n in archive.namelist() if "/metal_cpp/" in n])
        headers = MetalCpp(next(Path(scratch).rglob("metal_cpp")))
    selectors, values = read_pyobjc(pyobjc)
    lines, disagreements = [], []
    for owner in METAL + FOUNDATION:
        is_protocol = owner in headers.protocols and owner not in headers.classes
        methods = {k[1:]: v for k, v in headers.methods.items() if k[0] == owner}
        if owner == "NSObject":
            methods = {(kind, selector): tuple(rest) for selector, (kind, *rest) in NSOBJECT_METHODS.items()}
        methods |= {k[1:]: v for k, v in DOCUMENTED.items() if k[0] == owner}
        if not methods and owner not in headers.parents:
            disagreements.append(f"{owner}: metal-cpp has no such class")
        parent = headers.parents.get(owner)
        lines.append(f"{'protocol' if is_protocol else 'class'} {owner}" + (f" : {parent}" if parent else ""))
        for (kind, selector), signature in sorted(methods.items()):
            if GRAPHICS.search(selector):
                continue
            theirs = pyobjc_signatures(selectors.get(selector, []), owner, is_protocol, selector.count(":"))
            agreed = [t for t in theirs if signatures_agree(signature, t)]
            if theirs and not agreed and f"{owner} {selector}" not in KNOWN_DIFFERENCES:
                disagreements.append(f"{owner} {selector}: metal-cpp {signature}, pyobjc {theirs}")
            mark = "  =" if agreed else "  documented" if (owner, kind, selector) in DOCUMENTED else ""
            lines.append(f"{kind} {selector} {' '.join(signature)}{mark}")
    lines += [f"function {name} {' '.join(signature)}" for name, signature in sorted(headers.functions.items())]
    for name in ENUMS:
        enum = headers.enums[name]
        lines.append(f"enum {name} {enum.encoding}")
        for constant, value in enum.values.items():
            if constant in KNOWN_DIFFERENCES or GRAPHICS.search(constant):
                continue
            if values.get(constant, value) != value:
                disagreements.append(f"{constant}: metal-cpp {value}, pyobjc {values[constant]}")
            lines.append(f"{constant} {value}" + ("  =" if constant in values else ""))
    if disagreements:
        raise SystemExit("\n".join(disagreements))
    header = f"""# Written by derive_declarations.py; do not edit. Facts of Apple's Metal and Foundation, from
#   metal-cpp, Copyright Apple Inc., Apache License 2.0, in the wheel {mlx.name}
#   pyobjc-framework-Metal, Copyright Ronald Oussoren, MIT License, in the wheel {pyobjc.name}
# Lines of a class or protocol: + or -, selector, and the type encodings of result and arguments without qualifiers
# (a block is @?<result arguments>). Lines of an enumeration: name and value. = means that pyobjc agrees, `documented`
# that only Apple's documentation has the method."""
    return "\n".join([header, *lines]) + "\n"


def download(folder: Path) -> None:
    """Download the wheels that pip would choose on a Mac."""
    requirements = [f"{name}=={version}" for name, version in WHEELS.items()]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.11",
         "--platform", "macosx_14_0_arm64", "-d", str(folder), *requirements],
        check=True,
    )  # fmt: skip


def main() -> None:
    if len(sys.argv) > 1:
        TABLE.write_text(derive(Path(sys.argv[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        download(Path(folder))
        TABLE.write_text(derive(Path(folder)))


if __name__ == "__main__":
    main()
