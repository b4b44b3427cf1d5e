"""Run metallibs on the host and simt drivers. Metallibs contain AIR, Apple's dialect of LLVM IR.

Each module imports only modules above it in this list:

    metallib    reads the container: functions with their bitcode
    bitcode     converts bitcode to LLVM IR as text
    ir          parses IR text: lines, types, metadata
    kernel      reads a kernel's arguments, positions, and function constants from its metadata
    intrinsics  defines AIR's intrinsics as calls to the runtime, src/metal_stdlib/air
    lower       lowers AIR to IR that clang compiles for this machine
    entry       generates the entry point and the kernel table that drivers use
    build       builds and caches a shared library per kernel
    library     implements `mpsx.load_metallib`
"""
