"""Run metallibs on the host and simt drivers. Metallibs contain AIR, Apple's dialect of LLVM IR.

Modules import only modules above them in this list:

    metallib    the container: functions with their bitcode
    bitcode     bitcode to LLVM IR as text
    ir          IR as text: lines, types, metadata
    kernel      a kernel's arguments, positions, and function constants, from its metadata
    intrinsics  AIR's intrinsics as calls to the runtime, src/metal_stdlib/air
    lower       AIR to IR that clang compiles for this machine
    entry       the entry point and the kernel table that drivers call
    build       a shared library per kernel, cached
    library     `mpsx.load_metallib`
"""
