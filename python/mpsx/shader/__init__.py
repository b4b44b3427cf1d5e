"""Compile Metal kernels at run time: users' sources (library.py) and missing kernel libraries (kernel_library.py).

Each module imports only modules above it in this list:

    constants, types   check arguments for the bindings (_shader.pyx)
    cache              the disk cache
    toolchain          identifies the compiler in use, and hashes what a build depends on
    compiler           runs one build: preprocess, check, translate, compile
    lazy_kernels       compiles the kernels of a large source one by one, on first use
    build              finds a kernel library in the cache, or builds it
    library            implements `mpsx.compile_shader`
    kernel_library     finds or builds the project's own kernels for a driver or an instruction set
"""
