"""The compiler for translated kernels, and its flags. CMake, compile_shader, and the tests use this module."""

import functools
import importlib.util
import os
import platform
import shlex
import shutil
import sys
from dataclasses import dataclass

from . import processes
from .source import MslError

# Without fast-math and contraction, every ISA computes the same results, except that vectorized reductions add in a
# different order. Kernels call fma() explicitly.
FLAGS = """-std=c++17 -O3 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-math-errno -fno-trapping-math
    -ffp-contract=off -fopenmp-simd -fno-stack-protector -fno-asynchronous-unwind-tables -fno-unwind-tables
    -g0 -w""".split()
# Turn every memory access and array index into a call (metal_stdlib/simt_checks.h), without a sanitizer runtime.
# Disable vectorization, so that each call checks a single element, and loop strength reduction, which takes time.
# An array is checked even if it is the last member of a struct, such as that of metal::array.
# Debug information consists of the line table alone. -gdwarf-4 comes first, because it enables the rest.
CHECKS = "-fsanitize=thread -gdwarf-4".split()
CLANG_CHECKS = """-gline-directives-only -fsanitize=array-bounds -fstrict-flex-arrays=3 -fno-vectorize
    -fno-slp-vectorize -mllvm -disable-lsr -mllvm -tsan-instrument-func-entry-exit=0
    -mllvm -tsan-instrument-read-before-write=1""".split()
GCC_CHECKS = "-g1 -fsanitize=bounds --param tsan-instrument-func-entry-exit=0".split()
# Do not merge or duplicate calls from SIMT kernels into the engine (metal_stdlib/simt.h). Keep code in source order,
# because the engine infers from it which lanes are behind.
CLANG_SIMT_FLAGS = ["-mllvm", "-disable-block-placement"]
GCC_SIMT_FLAGS = """-fno-reorder-blocks -fno-reorder-blocks-and-partition -fno-guess-branch-probability
    -fno-thread-jumps -fno-tree-dominator-opts -fno-crossjumping
    -fno-tree-tail-merge -fno-split-paths -fno-code-hoisting -fno-unswitch-loops -fno-gcse -fno-peel-loops""".split()
# Unroll loops with few iterations, such as those in Philox. An inner loop would prevent the vectorization of the loop
# over threads.
CLANG_AUTO_FLAGS = ["-mllvm", "-unroll-threshold=600"]
# Keep loop-invariant conditions as selects. If LLVM unswitched a loop on one of two conditions, it would turn the
# second one into a branch and mask the loads, which is four times slower on a CPU without mask registers.
CLANG_ELEMENTWISE_FLAGS = ["-mllvm", "-unswitch-threshold=0"]
# Disable loop strength reduction for kernels that are not elementwise. It takes a tenth of the compile time without
# making them faster.
CLANG_FAMILY_FLAGS = ["-mllvm", "-disable-lsr"]
# Signed integers wrap around, because hashes and random number generators in shaders rely on it.
WRAP_FLAG = "-fwrapv"
# As in Metal, every operation on half rounds, and braces may narrow float to half. A float outside an integer type's
# range saturates, and NaN becomes 0, where C++ leaves both undefined. Report accesses through a null pointer at run
# time, which clang treats as unreachable by default. Math functions have the same overloads as in Metal (math_half.h).
OVERLOADS_FLAG = "-DMPSX_METAL_OVERLOADS=1"
GENERAL_FLAGS = [
    WRAP_FLAG, OVERLOADS_FLAG, *"""-Xclang -ffloat16-excess-precision=none -Wno-c++11-narrowing
    -fno-strict-float-cast-overflow -fno-delete-null-pointer-checks""".split(),
]  # fmt: skip
# Maps each ISA to the /proc/cpuinfo flags that it requires.
LEVELS = {
    "x86-64-v4": "avx512f avx512bw avx512dq avx512vl avx512cd avx2 fma bmi2",
    "x86-64-v3": "avx2 fma bmi2",
}


def _include_folder():
    """Return the folder that contains metal_stdlib: the installed package, or src/ when run from a source tree."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.isfile(os.path.join(package, "metal_stdlib", "msl.h")):
        return package
    return os.path.join(os.path.dirname(os.path.dirname(package)), "src")


INCLUDE = _include_folder()
# The PTX runs on every GPU since Ampere, where the GPU's driver compiles it. All functions are convergent, because
# warp-level operations must not move across branches. Line tables refer to the Metal source. VectorCombine is disabled,
# because it would split 16-byte loads whose elements are used one by one.
CUDA_FLAGS = """-std=c++17 -O3 -fno-exceptions -fno-rtti -fno-math-errno -fno-trapping-math -ffp-contract=off
    -fno-strict-aliasing -Xclang -fconvergent-functions -mllvm -disable-vector-combine
    -gline-directives-only -w""".split()
CUDA_TARGET = {True: ["-target", "nvptx64-cuda", "-mcpu=sm_80+ptx80"],   # zig's spelling
               False: ["--target=nvptx64-nvidia-cuda", "-march=sm_80", "--cuda-feature=+ptx80"]}
# metal_stdlib defines Metal 4 tensors only in C++23, so sources that use tensors (passes/tensors.py) need this flag.
TENSOR_FLAGS = ["-std=c++23"]
# On NVIDIA GPUs, loops over accumulators must be unrolled completely. Otherwise, LLVM keeps the accumulators in memory.
CUDA_TENSOR_FLAGS = [*TENSOR_FLAGS, *"-mllvm -unroll-threshold=4000 -mllvm -pragma-unroll-threshold=200000".split()]
# Select Hopper's instructions (wgmma, TMA), which run only on compute capability 9.0.
HOPPER_TARGET = {True: ["-target", "nvptx64-cuda", "-mcpu=sm_90a+ptx83", "-DMPSX_SM90=1"],
                 False: ["--target=nvptx64-nvidia-cuda", "-march=sm_90a", "--cuda-feature=+ptx83", "-DMPSX_SM90=1"]}
ZIG_FLAGS = ["-nostdlib++", "-nostdinc++", "-fno-sanitize=undefined"]


@dataclass(frozen=True)
class Compiler:
    command: tuple
    description: str

    @property
    def is_zig(self):
        return "ziglang" in self.description

    def flags(self, isa="", mode="wide", general=False):
        """Return the flags for one of the translator's modes. Mode `simt` compiles with checks."""
        if "cuda" in (isa, mode):
            return [*CUDA_FLAGS, f"-I{INCLUDE}", *(ZIG_FLAGS if self.is_zig else []), *CUDA_TARGET[self.is_zig],
                    *(GENERAL_FLAGS if general else [])]
        clang, flags = "clang" in self.description, [*FLAGS, f"-I{INCLUDE}"] + (ZIG_FLAGS if self.is_zig else [])
        flags += [] if is_x86() else ["-fsigned-char"]   # char is signed in Metal, but unsigned by default on Arm
        if mode == "simt":
            flags = ["-O1" if f == "-O3" else f for f in flags if f != "-g0"]
            flags += CHECKS + (CLANG_CHECKS if clang else GCC_CHECKS)
        if mode != "wide":
            flags = flags + (CLANG_SIMT_FLAGS if clang else GCC_SIMT_FLAGS)
        if mode == "auto" and clang:
            flags = flags + CLANG_AUTO_FLAGS
        if general:
            flags = flags + (GENERAL_FLAGS if clang else [WRAP_FLAG, OVERLOADS_FLAG])
        return flags + self.isa_flags(isa)

    @staticmethod
    def tensor_flags(isa="", mode="wide", zig=False):
        """Return the flags to append for a source that uses Metal 4 tensors. `zig` selects the spelling of zig's
        driver."""
        if mode != "cuda":
            return TENSOR_FLAGS
        return CUDA_TENSOR_FLAGS + (HOPPER_TARGET[zig] if isa == "sm_90a" else [])

    def source_flags(self, name, mode="wide", isa=""):
        """Return additional flags for the translated file `name`."""
        if is_tensor_source(name):
            return self.tensor_flags(isa, mode, self.is_zig)
        if mode != "wide" or "clang" not in self.description:
            return []
        return CLANG_ELEMENTWISE_FLAGS if "elementwise_" in name else CLANG_FAMILY_FLAGS

    def isa_flags(self, isa):
        """Return the flags for an ISA. `baseline` is x86-64-v2 on x86 and the compiler's default elsewhere. "" is this
        machine's ISA."""
        if isa == "baseline":
            isa = "x86-64-v2" if is_x86() else ""
            if not isa:
                return []
        if not isa:
            return ["-march=native"] if is_x86() else ["-mcpu=native"]
        # With 512-bit registers instead of 256-bit ones, exp, log, tanh, pow, and sin take 15-30% less time.
        wide = ["-mprefer-vector-width=512"] if isa == "x86-64-v4" else []
        return ["-march=" + (isa.replace("-", "_") if self.is_zig else isa), *wide]

    @property
    def clang(self):
        """The command that runs clang directly. zig's driver is slower: it searches for libraries and maintains a
        cache."""
        return [self.command[0], "clang"] if self.is_zig else list(self.command)

    def clang_flags(self, isa, mode, general=False):
        """Return flags() for the command `clang`, which names targets differently from zig's driver."""
        if mode == "cuda":
            return [*CUDA_FLAGS, f"-I{INCLUDE}", *CUDA_TARGET[False], *(GENERAL_FLAGS if general else [])]
        flags = [f.replace("_", "-") if f.startswith("-march=") else f for f in self.flags(isa, mode, general)]
        # Out-of-line atomics would require a library that is not linked.
        return flags + (["-mno-outline-atomics"] if platform.machine() == "aarch64" else [])

    def link(self):
        """Return the command that links a shared library, without its inputs and output. The process that loads the
        library resolves undefined symbols such as memcpy."""
        if sys.platform == "darwin":
            return ["c++", "-dynamiclib", "-undefined", "dynamic_lookup", "-Wl,-dead_strip"]
        if self.is_zig:
            return [self.command[0], "ld.lld", "-shared", "--gc-sections"]
        return [*self.command, "-shared", "-nostdlib", "-Wl,--gc-sections"]

    def preprocessor(self):
        """Return the value of the `--preprocessor` option."""
        return shlex.join(self.command) + (" -nostdlib++ -nostdinc++" if self.is_zig else "")


def is_tensor_source(name):
    """Return whether a Metal file or its translation belongs to the tensor tier: mm_tensor.metal, mm_tensor.0.cpp. Macs
    have a separate library for these files, and CPUs have none."""
    return name.split(".")[0].endswith("_tensor")


def is_x86():
    """Return whether kernels are compiled for x86. MPSX_KERNEL_MACHINE overrides this machine's architecture."""
    return (os.environ.get("MPSX_KERNEL_MACHINE") or platform.machine()).lower() in ("x86_64", "amd64")


@functools.cache
def supported_isas():
    """Return the ISAs that this CPU supports, best first. src/driver/host/kernel_module.cpp uses the same order."""
    try:
        with open("/proc/cpuinfo") as f:
            flags = set(next((line for line in f if line.startswith("flags")), "").split())
    except OSError:
        flags = set()
    levels = [(isa, needed) for isa, needed in LEVELS.items() if set(needed.split()) <= flags]
    return [isa for isa, _ in levels] + ["baseline"]


def isas():
    """Return the ISAs to build for: the best one that this machine supports, or the one in $MPSX_ISA. `all` is for
    wheels that run on any machine."""
    if not is_x86():
        return ["baseline"]
    chosen = os.environ.get("MPSX_ISA")
    return [*LEVELS, "baseline"] if chosen == "all" else [chosen or supported_isas()[0]]


def writes_ptx(compiler):
    """Return whether a compiler has LLVM's NVPTX backend. Always false on macOS, which has no NVIDIA driver."""
    if compiler.is_zig or "clang" not in compiler.description or platform.system() == "Darwin":
        return compiler.is_zig and platform.system() != "Darwin"
    return "nvptx64" in processes.run([*compiler.command, "--print-targets"])[1]


def describe(command):
    try:
        status, out, errors = processes.run([*command, "--version"], seconds=processes.time_limit())
    except OSError as e:
        raise MslError(f"{shlex.join(command)}: not a working compiler: {e}") from None
    if status:
        raise MslError(f"{shlex.join(command)}: not a working compiler: {errors.strip() or f'status {status}'}")
    return out.partition("\n")[0].strip()


def find_compiler():
    """Return the compiler: $MPSX_KERNEL_CXX, else the clang in the Python package ziglang, else clang++, else g++."""
    chosen = os.environ.get("MPSX_KERNEL_CXX")
    if chosen:
        command = tuple(shlex.split(chosen))
        return Compiler(command, describe(command))
    ziglang = importlib.util.find_spec("ziglang")
    if ziglang:
        zig = os.path.join(ziglang.submodule_search_locations[0], "zig")
        version = processes.run([zig, "version"])[1].strip()
        return Compiler((zig, "c++"), f"{describe((zig, 'c++'))} (ziglang {version})")
    for name in ("clang++", "g++", "c++"):
        path = shutil.which(name)
        if path:
            return Compiler((path,), describe((path,)))
    raise MslError("no compiler for kernels: install the Python package ziglang, clang++ or g++, "
                   "or set MPSX_KERNEL_CXX")


def print_for_cmake(isa, source, target):
    """Print the command, its description, the preprocessor, and the ISAs to build, each as a list on its own line."""
    compiler = find_compiler()
    if isa or source:
        flags = compiler.flags(isa) if isa else []
        print(";".join(flags + (compiler.source_flags(source, "cuda" if target else "wide", target) if source else [])))
        return
    # A portable wheel contains the CUDA kernels. Other builds compile them on first use.
    known = isas() + (["cuda"] if os.environ.get("MPSX_ISA") == "all" and writes_ptx(compiler) else [])
    print(";".join(compiler.command), compiler.description, compiler.preprocessor(), ";".join(known), sep="\n")
