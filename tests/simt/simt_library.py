"""Compile checked kernels and this checkout's simt driver, and call them through ctypes."""

import ctypes
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

from msl.compiler import find_compiler  # noqa: E402
from msl.source import MslError  # noqa: E402
from msl.translate import translate, write_index  # noqa: E402

BUFFER, BYTES, THREADGROUP = 0, 1, 2
READ, WRITE = 0, 1
SIZE_MAX = 2**64 - 1
FAULT = re.compile(r"(?P<kernel>\w+): (?P<what>.*?)(?:, at (?P<file>[^,]*?):(?P<line>\d+))?, threadgroup "
                   r"\((?P<group>\d+, \d+, \d+)\), thread \((?P<thread>\d+, \d+, \d+)\), seed (?P<seed>\d+)$")


class Argument(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t),
                ("access", ctypes.c_uint8), ("begin", ctypes.c_size_t), ("end", ctypes.c_size_t)]

    def __init__(self, kind, data, size, access=WRITE, begin=0, end=SIZE_MAX):
        super().__init__(kind, data, size, access, begin, end)


class Fault:
    """A parsed error message about a kernel fault."""

    def __init__(self, message):
        m = FAULT.match(message)
        assert m, f"not the text of a fault: {message!r}"
        self.message = message
        self.kernel, self.what, self.file = m["kernel"], m["what"], m["file"]
        self.line, self.seed = int(m["line"] or 0), int(m["seed"])
        self.group, self.thread = (tuple(int(x) for x in m[k].split(", ")) for k in ("group", "thread"))


class Memory:
    """A driver buffer with the contents of an array. As a kernel argument, it starts at byte `offset`, with the access
    `declared`."""

    def __init__(self, driver, array):
        self.driver, self.array, self.offset, self.declared = driver, array, 0, (WRITE, 0, SIZE_MAX)
        self.address = driver.native.allocate(driver.handle, array.nbytes)
        ctypes.memmove(self.address, array.ctypes.data, array.nbytes)

    def at(self, offset):
        self.offset = offset
        return self

    def declare(self, access, begin=0, end=SIZE_MAX):
        """Declare that kernels only read or write, and only bytes [begin, end)."""
        self.declared = (access, begin, end)
        return self

    def get(self):
        out = np.empty_like(self.array)
        ctypes.memmove(out.ctypes.data, self.address, out.nbytes)
        return out

    def __del__(self):
        self.driver.native.release(self.driver.handle, self.address, self.array.nbytes)


class Driver:
    def __init__(self, native, directory, seed=None):
        self.native = native
        if seed is not None:
            os.environ["MPSX_SIMT_SEED"] = str(seed)
        try:
            self.handle = native.open_driver(str(directory).encode())
        finally:
            os.environ.pop("MPSX_SIMT_SEED", None)
        assert self.handle, native.message().decode()

    def memory(self, array):
        return Memory(self, np.ascontiguousarray(array))

    def run(self, kernel, *arguments, grid, group, by_threads=False):
        """Dispatch a kernel. Return the driver's error message, or an empty string on success.

        Each argument is Memory, an array (passed by value), a number (bytes of threadgroup memory), or None.
        """
        grid, group = (((*x, 1, 1) if isinstance(x, tuple) else (x, 1, 1))[:3] for x in (grid, group))
        native = (Argument * max(len(arguments), 1))()
        for i, a in enumerate(arguments):
            if isinstance(a, Memory):
                native[i] = Argument(BUFFER, a.address, a.offset, *a.declared)
            elif isinstance(a, int):
                native[i] = Argument(THREADGROUP, None, a)
            elif a is None:
                native[i] = Argument(BUFFER, None, 0)
            else:
                native[i] = Argument(BYTES, a.ctypes.data, a.nbytes)
        sizes = [(ctypes.c_uint32 * 3)(*x) for x in (grid, group)]
        return self.native.dispatch(self.handle, kernel.encode(), native, len(arguments), *sizes, by_threads).decode()

    def fault(self, *arguments, **options):
        return Fault(self.run(*arguments, **options))


def compile_native(path):
    """Compile tests/simt/driver.cpp and the driver's sources into one library."""
    host = ROOT / "src" / "driver" / "host"
    sources = [HERE / "driver.cpp", *sorted(host.glob("*.cpp")), *sorted((host / "simt").glob("*.cpp")),
               host.parent / "function_constants.cpp"]
    command = os.environ.get("CXX", "c++").split()
    include = [f"-I{ROOT / 'src'}"]
    subprocess.run([*command, "-std=c++20", "-O1", "-shared", "-fPIC", *include, *map(str, sources),
                    "-o", str(path), "-ldl"], check=True)


def compile_kernels(sources, folder):
    """Compile .metal files with checks into folder/libmpsx_kernels_simt.so."""
    compiler = find_compiler()
    translated = []
    for source in sources:
        paths, _ = translate(str(source), str(folder / f"{source.stem}.cpp"), [str(ROOT / "metal")],
                             [], compiler.preprocessor(), root=str(ROOT), mode="simt")
        translated += paths
    write_index(str(folder / "index.cpp"), translated)
    facts = ['-DMPSX_KERNEL_ISA="simt"', '-DMPSX_KERNEL_COMPILER="test"']
    command = [*compiler.command, *compiler.flags("baseline", mode="simt"), *facts]
    objects = []
    for path in [*translated, str(folder / "index.cpp")]:
        objects.append(path + ".o")
        run = subprocess.run([*command, "-c", path, "-o", objects[-1]], check=False, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
    subprocess.run([*os.environ.get("CXX", "c++").split(), "-shared", "-nostdlib", "-Wl,-z,defs", "-o",
                    str(folder / "libmpsx_kernels_simt.so"), *objects, "-lc", "-lgcc"], check=True)


def load_native(path):
    """Load the library created by compile_native(), and declare the types of its functions."""
    library = ctypes.CDLL(str(path))
    for name, result, *arguments in [
            ("open_driver", ctypes.c_void_p, ctypes.c_char_p), ("message", ctypes.c_char_p),
            ("allocate", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
            ("release", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
            ("wrap", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
            ("dispatch", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t,
             ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool),
            ("line_of", ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64),
            ("new_shadow", ctypes.c_void_p, ctypes.c_size_t), ("delete_shadow", None, ctypes.c_void_p),
            ("shadow_begin", None, ctypes.c_void_p),
            ("shadow_barrier", None, ctypes.c_void_p, ctypes.c_bool),
            ("shadow_simd_barrier", None, ctypes.c_void_p, ctypes.c_uint, ctypes.c_bool),
            ("shadow_access", ctypes.c_uint, ctypes.c_void_p, ctypes.c_char, ctypes.c_size_t, ctypes.c_size_t,
             ctypes.c_uint)]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def missing_compiler():
    """Return why kernels cannot be compiled here, or an empty string if they can."""
    try:
        find_compiler()
    except MslError as e:
        return str(e)
    return ""


def build_once(folder, name, build):
    """Return a file in a folder that all workers share. The first worker builds it."""
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / name).exists():
            build()
    return folder / name
