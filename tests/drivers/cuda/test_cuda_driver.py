"""Test the CUDA driver without a GPU. A fake libcuda records calls and enforces the rules of the CUDA driver API."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mpsx.msl.ptx import pack

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
GRID = ".param .align 4 .b8 {0}_param_{1}[48]"
# An entry point in the format that clang emits. The body is empty, because the fake libcuda reads only the parameters.
ENTRY = ".visible .entry {0}(\n\t{1}\n)\n{{\n\tret;\n}}\n"
POINTER = ".param .u64 .ptr .align 1 {0}_param_{1}"


def entry(symbol: str, *parameters: str) -> str:
    return ENTRY.format(symbol, ",\n\t".join(p.format(symbol, i) for i, p in enumerate((*parameters, GRID))))


def kernel(name: str, symbol: str, buffers: int, threadgroups: int = 0) -> dict:
    """Return the description of a kernel in the format that CudaEmitter writes."""
    return {"name": name, "symbol": symbol, "buffers": [*range(buffers)], "threadgroups": [*range(threadgroups)]}


def library() -> bytes:
    """Return a kernel library that contains two PTX files."""
    value = ".param .align 4 .b8 {0}_param_{1}[8]"
    plain = entry("k_plain", POINTER, POINTER, value) + entry("k_limited", POINTER)
    plain += entry("k_large", POINTER).replace("ret;", "st.shared.b32 [memory], 0;\n\tret;")
    plain = ".visible .global .align 4 .u32 mpsx_limit_k_limited = 64;\n" + plain
    plain = ".weak .shared .align 4 .b8 memory[65536];\n.weak .shared .align 4 .b8 another[4096];\n" + plain
    offset = ".param .u32 {0}_param_{1}"
    scaled = entry("k_scaled", POINTER) + entry("k_with_threadgroup", POINTER, offset, offset)
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    return pack([({"kernels": [kernel("plain", "k_plain", 3), kernel("limited", "k_limited", 1),
                               kernel("large", "k_large", 1)]}, head + plain),
                 ({"kernels": [kernel("scaled", "k_scaled", 1),
                               kernel("with threadgroup", "k_with_threadgroup", 1, 2)]}, head + scaled)],
                "by hand")  # fmt: skip


def tensor_library() -> bytes:
    """Return a library with two versions of each tensor kernel, for sm_90a and for any GPU, stored in either order."""
    head = ".version 8.0\n.target {0}\n.address_size 64\n"
    offset = ".param .u32 {0}_param_{1}"

    def unit(target: str, threads: int, staging: str, *names: str, buffers: int = 2) -> tuple[dict, str]:
        entries = "".join(entry(f"k_{name}", POINTER, *[offset] * buffers) for name in names)
        limits = "".join(f".visible .global .align 4 .u32 mpsx_limit_k_{name} = {threads};\n" for name in names)
        described = [kernel(name, f"k_{name}", 1, buffers) for name in names]
        text = head.format(target) + limits + entries.replace("\tret;", f"{staging}\tret;")
        return {"kernels": described}, text

    per_group, per_simdgroup = "\tmpsx.staging {0}, {0}, 0;\n", "\tmpsx.simdgroup_staging %r1, {0};\n"
    deep = "\tmpsx.staging 65536, 131072, 0;\n"
    return pack([unit("sm_90a", 256, per_group.format(131072), "first"),
                 unit("sm_90a", 256, deep, "deep", buffers=0), unit("sm_90a", 256, deep, "deep_with_buffer", buffers=1),
                 unit("sm_90a", 256, "\tmpsx.cluster 4, 32;\n", "in_clusters", buffers=0),
                 unit("sm_80", 512, per_group.format(1000) + per_simdgroup.format(384), "first", "last"),
                 unit("sm_90a", 128, per_simdgroup.format(16384), "last", "only")], "by hand")  # fmt: skip


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the test program, the fake libcuda and the kernel libraries. Return the folder that contains them."""
    folder = tmp_path_factory.mktemp("cuda")
    compiler = shutil.which("c++")
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Wshadow", f"-I{ROOT / 'src'}", f"-I{HERE}"]
    parts = {
        "libcuda.so.1": [HERE / "fake_cuda.cpp", HERE / "fake_work.cpp"],
        "driver_test": [HERE / "driver_test.cpp", HERE / "cases_work.cpp", HERE / "cases_waiting.cpp",
                        HERE / "cases_tensors.cpp", HERE / "cases_graphs.cpp",
                        *sorted((ROOT / "src/driver/cuda").glob("*.cpp"))],
    }  # fmt: skip
    for name, sources in parts.items():
        shared = ["-shared", "-fPIC"] if ".so" in name else ["-ldl", "-pthread"]
        subprocess.run([compiler, *flags, *map(str, sources), "-o", str(folder / name), *shared], check=True)
    data = library()
    (folder / "mpsx.ptx").write_bytes(data)
    (folder / "tensors").mkdir()
    (folder / "tensors" / "mpsx.ptx").write_bytes(tensor_library())
    (folder / "damaged").mkdir()
    start = data.index(b"\nend\n") + len(b"\nend\n")  # start of the first compressed file
    (folder / "damaged" / "mpsx.ptx").write_bytes(data[:start] + bytes(20) + data[start + 20 :])
    return folder


def names() -> list[str]:
    sources = sorted(HERE.glob("*.cpp"))
    return [name for source in sources for name in re.findall(r"^CASE\((\w+)\)", source.read_text(), re.M)]


@pytest.mark.parametrize("case", names())
def test_case(program: Path, case: str, tmp_path: Path) -> None:
    env = {**os.environ, "LD_LIBRARY_PATH": str(program), "MPSX_CACHE_DIR": str(tmp_path)}
    command = [program / "driver_test", program, case]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
