"""GEMM kernels with matmul2d must not spill registers in PTX, and their `wgmma` instructions must overlap.

NVIDIA's assembler reports spills with -v. If code may use the registers of `wgmma` instructions while they run, the
assembler serializes them and says so (C7510 to C7517, C7520). Spills and serialization make kernels slower without
changing results, so no other test would fail.
"""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mpsx.msl.compiler import find_compiler, writes_ptx
from mpsx.msl.ptx import nvidia_program, target_of, unpack
from mpsx.shader import kernel_library
from mpsx.shader.cache import Cache
from mpsx.shader.compiler import Builder
from mpsx.shader.toolchain import Target

EXAMPLE = Path(__file__).parents[2] / "shader/tensors/gemm.metal"
SERIALIZED = re.compile(r"\(C75(?:1[0-7]|20)\)|wgmma.* serialized")
SPILL = re.compile(r"(\d+) bytes spill (?:stores|loads)")
FLAGS = {"nn": "false, false", "nt": "false, true", "tn": "true, false"}
WGMMA = {"half": "wgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16",
         "bfloat": "wgmma.mma_async.sync.aligned.m64n{}k16.f32.bf16.bf16",
         "float": "wgmma.mma_async.sync.aligned.m64n{}k8.f32.tf32.tf32"}  # fmt: skip
# (element type, columns of the tile, operand layouts). A tile has 128 rows and uses 8 SIMD groups.
ALL = [*((t, n, layout) for t in ("half", "bfloat") for n in (256, 192) for layout in ("nt", "tn")),
       *(("float", 128, layout) for layout in ("nt", "nn", "tn"))]  # fmt: skip
FEW = [("half", 256, "nt"), ("bfloat", 192, "tn"), ("float", 128, "nn")]
# On sm_80, these tiles spill 8 bytes, because they need one more register than a thread can have.
SPILLS = {*(("sm_80", t, 256, "tn") for t in ("half", "bfloat")), ("sm_80", "float", 128, "nt")}
SPILLED_BYTES = 8

pytestmark = [
    pytest.mark.skipif(not nvidia_program("ptxas"), reason="no ptxas; pip install nvidia-cuda-nvcc-cu12"),
    pytest.mark.skipif(not writes_ptx(find_compiler()),
                       reason="the kernel compiler has no backend for NVIDIA GPUs (ziglang's has)"),
]  # fmt: skip


def compiled(target: str, kernels: list[tuple[str, int, str]], folder: Path) -> dict[str, str]:
    """Instantiate the kernel in gemm.metal. Return the PTX of each instance by name."""
    source = EXAMPLE.read_text()
    for t, columns, layout in kernels:
        name = f"gemm<{t}, {t}, 128, {columns}, 8, {FLAGS[layout]}>"
        source += f'\ntemplate [[host_name("{t} {columns} {layout}")]] kernel decltype({name}) {name};\n'
    folder.mkdir()
    cache = Cache(folder, 1 << 30)
    record = Builder(cache, Target(target, "cuda"), [], EXAMPLE.name, source).build(source, "record")
    return dict(unpack(cache.path(record["library"])))


def assemble(text: str, where: Path) -> str:
    """Assemble PTX, and return the messages, which include the register usage."""
    where.write_text(text)
    # -c: like the driver's linker, assemble relocatable code. In it, a function call serializes `wgmma`.
    command = [nvidia_program("ptxas"), "-v", "-c", f"-arch={target_of(text)}", str(where), "-o", f"{where}.cubin"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def messages(text: str, where: Path) -> tuple[list[str], int]:
    """Return the assembler's messages about serialized `wgmma` instructions, and how many bytes it spills."""
    said = assemble(text, where)
    sizes = SPILL.findall(said)
    assert sizes, f"ptxas -v does not report spills: {said}"
    return [line for line in said.splitlines() if SERIALIZED.search(line)], max(map(int, sizes))


def check(target: str, kernels: list[tuple[str, int, str]], folder: Path) -> dict[str, str]:
    """Compile, assemble and check kernels. Return the PTX of each kernel by name."""
    texts = compiled(target, kernels, folder / target)

    def faults(kernel: tuple[str, int, str]) -> list[str]:
        t, columns, layout = kernel
        name = f"{t} {columns} {layout}"
        found, spills = messages(texts[name], folder / target / f"{name}.ptx")
        if spills > (SPILLED_BYTES if (target, *kernel) in SPILLS else 0):
            found.append(f"ptxas spills {spills} bytes")
        if re.search(r"\.local\b", texts[name]):
            found.append("clang uses local memory")
        if re.search(r"^\s*cp\.async\.bulk\.tensor", texts[name], re.M):
            found.append("a TMA load without elect.sync, around which ptxas generates a loop")
        instruction = WGMMA[t].format(columns) if target == "sm_90a" else "mma.sync.aligned.m16n8k"
        if instruction not in texts[name]:
            found.append(f"no {instruction}")
        return [f"{target} {name}: {fault}" for fault in found]

    with ThreadPoolExecutor(2) as pool:
        found = [fault for of_kernel in pool.map(faults, kernels) for fault in of_kernel]
    assert not found, "\n".join(found)
    return texts


def changed(text: str, old: str, new: str) -> str:
    """Replace `old` with `new`. Fail if the text does not contain `old`."""
    assert old in text
    return text.replace(old, new)


def test_warp_gemm(tmp_path: Path) -> None:
    """Check one mma.sync kernel per element type. Then force spills, and check that they are detected."""
    texts = check("sm_80", FEW, tmp_path)
    narrow = changed(texts["float 128 nn"], ".maxntid 256", ".maxntid 512")  # limits each thread to 128 registers
    assert messages(narrow, tmp_path / "narrow.ptx")[1]


def test_warpgroup_gemm(tmp_path: Path) -> None:
    """Check one wgmma kernel per element type. Then force serialization, and check that it is detected."""
    texts = check("sm_90a", FEW, tmp_path)
    unfinished = changed(texts["bfloat 192 tn"], "wgmma.wait_group.sync.aligned 0;", "")
    assert any("serialized" in line for line in messages(unfinished, tmp_path / "unfinished.ptx")[0])


# Use a cooperative left operand of 64 x 64. `scratch` is one of the kernel's threadgroup variables.
COOPERATIVE = """#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
[[max_total_threads_per_threadgroup(128)]]
kernel void multiply(device half* a, device half* b, device float* c) {
  threadgroup half tile[64 * 64];
  SCRATCH
  matmul2d<matmul2d_descriptor(64, 64, 64), execution_simdgroups<4>, mpsx::more_cooperative_operands> operation;
  auto left = operation.get_left_input_cooperative_tensor<half, half, float>();
  left.load(tensor(a, dextents<int, 2>(64, 64), array<int, 2>{1, 64}));
  auto right = tensor(TILE, extents<int, 64, 64>(), array<int, 2>{1, 64});
  auto sum = operation.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
  operation.run(left, right, sum);
  sum.store(tensor(c, dextents<int, 2>(64, 64), array<int, 2>{1, 64}));
}
"""


def library_of(target: str, source: str, folder: Path) -> tuple[str, str]:
    """Compile a source with one kernel. Return the path of the library and the kernel's PTX."""
    cache = Cache(folder, 1 << 30)
    record = Builder(cache, Target(target, "cuda"), [], "a.metal", source).build(source, "record")
    library = cache.path(record["library"])
    (text,) = dict(unpack(library)).values()
    return library, text


@pytest.mark.parametrize(("tile", "padding"), [("tile", 1024), ("b", 0)])
def test_cooperative_left(tile: str, padding: int, tmp_path: Path) -> None:
    """wgmma reads the left operand from registers. The copy of the right operand is aligned to 1024 bytes, so padding
    is needed after the kernel's threadgroup variables."""
    fill = "tile[0] = b[0]; threadgroup_barrier(mem_flags::mem_threadgroup);"
    source = COOPERATIVE.replace("TILE", tile).replace("SCRATCH", fill if padding else "")
    if not padding:
        source = source.replace("  threadgroup half tile[64 * 64];\n", "")
    library, text = library_of("sm_90a", source, tmp_path)
    assert messages(text, tmp_path / "a.ptx") == ([], False)
    assert "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16" in text
    (kernel,) = re.findall(rb"^kernel\t.*", Path(library).read_bytes(), re.M)
    assert kernel.split(b"\t")[7] == f"{64 * 128 + padding}:0:0".encode()


# The pipeline of a tile of 128 x 128 has three stages, or six if the threadgroup is alone on its multiprocessor.
PIPELINE = """#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
kernel void multiply(device half* a, device half* b, device float* c PARAMETER) {
  matmul2d<matmul2d_descriptor(128, 128, dynamic_extent), execution_simdgroups<8>> operation;
  auto left = tensor(a, dextents<int, 2>(1024, 128), array<int, 2>{1, 1024});
  auto right = tensor(b, dextents<int, 2>(128, 1024), array<int, 2>{1, 128});
  auto sum = operation.get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
  operation.run(left, right, sum);
  sum.store(tensor(c, dextents<int, 2>(128, 128), array<int, 2>{1, 128}));
}
"""


@pytest.mark.parametrize("parameter", ["", ", threadgroup float* buffer [[threadgroup(0)]]"])
def test_size_of_staging_memory(parameter: str, tmp_path: Path) -> None:
    """The kernel asks for its dynamic shared memory, unless a threadgroup buffer is part of that."""
    library, text = library_of("sm_90a", PIPELINE.replace("PARAMETER", parameter), tmp_path)
    assert "mpsx." not in re.sub(r"mpsx_\w+|//.*|\.file.*", "", text)
    assert ("%dynamic_smem_size" in text) == (not parameter)
    (kernel,) = re.findall(rb"^kernel\t.*", Path(library).read_bytes(), re.M)
    maps, stage, raw_rows, padding = 1024, 2 * 128 * 64 * 2, 2 * 128 * 144, 1024
    assert kernel.split(b"\t")[7] == f"{maps + 2 * stage + raw_rows}:0:{maps + 6 * stage + padding}".encode()


# One thread multiplies a whole matrix, in memory or in a cooperative tensor.
SINGLE_THREAD = """#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
typedef tensor<device half, dextents<int, 2>> Matrix;
kernel void multiply(Matrix a, Matrix b, Matrix c) {
  matmul2d<matmul2d_descriptor(64, 32, 128, false, true), execution_thread> operation;
  operation.run(a, b, c);
  auto sum = operation.get_destination_cooperative_tensor<decltype(a), decltype(b), half>();
  sum.load(c);
  operation.run(a, b, sum);
  sum.store(c);
}
"""


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_large_matrices_in_one_thread(target: str, tmp_path: Path) -> None:
    """Loops over more elements than a thread has registers are not unrolled. Unrolled, this kernel has over 100,000
    lines of PTX, and the assembler takes minutes."""
    _, text = library_of(target, SINGLE_THREAD, tmp_path)
    assert text.count("\n") < 5000
    assemble(text, tmp_path / "a.ptx")


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_every_gemm(target: str, tmp_path: Path) -> None:
    check(target, ALL, tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("source", sorted(path.name for path in kernel_library.SOURCES.rglob("*_tensor.metal")))
def test_packaged_kernels(source: str, tmp_path: Path) -> None:
    """The `wgmma` instructions of mpsx's own kernels are not serialized."""
    library = kernel_library.library("cuda", list(kernel_library.SOURCES.rglob(source)))
    texts = {name: text for name, text in unpack(str(library)) if "sm_90a" in target_of(text)}
    assert texts

    def serialized(name: str) -> list[str]:
        return [f"{name}: {line}" for line in messages(texts[name], tmp_path / f"{name}.ptx")[0]]

    with ThreadPoolExecutor(2) as pool:
        found = [line for of_kernel in pool.map(serialized, texts) for line in of_kernel]
    assert not found, "\n".join(found)
