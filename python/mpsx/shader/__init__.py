"""Run-time compilation of Metal kernels: users' sources (library.py) and missing kernel libraries (kernel_library.py).

A module imports only modules above it in this list:

    constants, types   argument checks of the bindings (_shader.pyx)
    cache              the disk cache
    toolchain          the compiler in use, and hashes of what a build depends on
    compiler           one build: preprocess, check, translate, compile
    lazy_kernels       kernels of a large source, compiled one by one on first use
    build              finds a kernel library in the cache, or builds it
    library            `mpsx.compile_shader`
    kernel_library     the project's own kernels for a driver or an instruction set
"""
