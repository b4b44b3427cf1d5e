"""Compile Metal snippets as mpsx's own kernels are compiled, and call them through the kernel ABI (fixture `msl`)."""

import ctypes
import fcntl
import functools
import hashlib
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from msl.compiler import find_compiler
from msl.source import MslError
from msl.translate import translate, write_index

ROOT = Path(__file__).resolve().parents[2]

THREADS, GROUPS = 0, 1
MAX_ARGUMENTS = 63


class Launch(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_uint * 3), ("groups", ctypes.c_uint * 3), ("group", ctypes.c_uint * 3),
                ("constants", ctypes.POINTER(ctypes.c_void_p))]


class Constant(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("index", ctypes.c_uint), ("scalar", ctypes.c_char_p),
                ("components", ctypes.c_uint)]


class Record(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("unit", ctypes.c_uint), ("entry", ctypes.c_void_p),
                ("thread_entry", ctypes.c_void_p), ("fibers", ctypes.c_uint), ("buffers", ctypes.c_uint),
                ("static_threadgroup_bytes", ctypes.c_uint),
                ("max_threads", ctypes.c_uint), ("constants", ctypes.POINTER(Constant)),
                ("constant_count", ctypes.c_uint)]


class Table(ctypes.Structure):
    _fields_ = [("abi_version", ctypes.c_uint), ("count", ctypes.c_uint),
                ("records", ctypes.POINTER(ctypes.POINTER(Record))), ("simt", ctypes.c_void_p),
                ("compiler", ctypes.c_char_p),
                ("isa", ctypes.c_char_p)]


ENTRY = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(Launch), ctypes.c_ulonglong,
                         ctypes.c_ulonglong)


class Library:
    """A loaded kernel library."""

    def __init__(self, path):
        self._handle = ctypes.CDLL(str(path))
        self.table = Table.in_dll(self._handle, "mpsx_kernel_table")
        records = (self.table.records[i].contents for i in range(self.table.count))
        self.records = {r.name.decode(): r for r in records}

    def __call__(self, name, *buffers, grid, threadgroup=(), part=None, constants=None):
        """Run a kernel over `grid` units, or only over the range `part` = (begin, end) of them. `constants` maps
        function constant names to one-element arrays."""
        grid = (*grid, 1, 1)[:3]
        args = (ctypes.c_void_p * MAX_ARGUMENTS)()
        for i, array in enumerate(buffers):
            args[i] = array.ctypes.data
        for i, array in enumerate(threadgroup):
            args[31 + i] = array.ctypes.data
        record = self.records[name]
        values = (ctypes.c_void_p * max(record.constant_count, 1))()
        for i in range(record.constant_count):
            value = (constants or {}).get(record.constants[i].name.decode())
            values[i] = None if value is None else value.ctypes.data
        launch = Launch(grid, grid, (1, 1, 1), values)
        begin, end = part or (0, grid[0] * grid[1] * grid[2])
        ENTRY(self.records[name].entry)(args, launch, begin, end)

    def map(self, name, *inputs, dtype=None):
        """Call a kernel whose first buffer is the output, and return that output."""
        out = np.empty(inputs[0].shape, dtype or inputs[0].dtype)
        self(name, out, *(np.ascontiguousarray(x) for x in inputs), grid=(out.size,))
        return out


def compile_library(folder, source, defines, isa, shards, name, general, include, files):
    """Translate `source` and compile it to folder/library.so. `files` contains (path, text) pairs to put next to it."""
    compiler = find_compiler()
    for path, text in files:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    first = "" if general else '#include "lib/types.h"\n#line 1\n'
    (folder / f"{name}.metal").write_text(first + source)
    paths, _ = translate(str(folder / f"{name}.metal"), str(folder / "out.cpp"), [str(ROOT / "metal"), *include],
                         defines, compiler.preprocessor(), shards, general=general)
    write_index(str(folder / "index.cpp"), paths)
    facts = ['-DMPSX_KERNEL_ISA="test"', '-DMPSX_KERNEL_COMPILER="test"', *(f"-D{d}" for d in defines)]
    command = [*compiler.command, *compiler.flags(isa, general=general), *facts]
    objects = []
    for path in [*paths, str(folder / "index.cpp")]:
        objects.append(path + ".o")
        run = subprocess.run([*command, "-c", path, "-o", path + ".o"], check=False, capture_output=True, text=True)
        if run.returncode:
            raise MslError(run.stderr)
    libgcc = [] if "clang" in compiler.description else ["-lgcc"]
    subprocess.run([*compiler.command, "-shared", "-nostdlib", "-o", str(folder / "new.so"), *objects, *libgcc],
                   check=True)
    (folder / "new.so").rename(folder / "library.so")


@pytest.fixture(scope="session")
def msl(tmp_path_factory):
    """Return a function that compiles a snippet to a Library: msl(source). Pytest workers share the libraries."""
    try:
        find_compiler()
    except MslError as e:
        pytest.skip(str(e))
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    @functools.cache
    def build(source, defines=(), isa="", shards=1, name="snippet", general=False, include=(), files=()):
        key = repr((source, defines, isa, shards, name, general, include, files))
        key = hashlib.sha256(key.encode()).hexdigest()[:16]
        folder = shared / f"msl-{key}"
        folder.mkdir(exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "library.so").exists():
                compile_library(folder, source, defines, isa, shards, name, general, include, files)
        return Library(folder / "library.so")

    return build
