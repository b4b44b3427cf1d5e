"""clang compiles kernels to PTX in the form that the driver expects, and NVIDIA's assembler accepts this PTX."""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mpsx.msl.compiler import find_compiler, writes_ptx
from mpsx.msl.dependent_launch import place_wait
from mpsx.msl.ptx import nvidia_program, pack_files, unpack
from mpsx.msl.translate import translate

HERE = Path(__file__).parent
METAL = HERE.parents[2] / "metal"


def compiled(source: Path, folder: Path, include: tuple[str, ...] = ()) -> Path:
    """Compile a Metal file to a kernel library."""
    compiler = find_compiler()
    name = "_".join(source.with_suffix("").parts[-2:])
    paths, _ = translate(str(source), str(folder / f"{name}.cpp"), include, (), compiler.preprocessor(), None, name,
                         str(source.parent), "cuda")  # fmt: skip
    for path in paths:
        command = [*compiler.command, *compiler.flags("cuda"), "-S", path, "-o", f"{path}.ptx"]
        subprocess.run(command, check=True, capture_output=True, text=True)
    library = folder / f"{name}.library"
    pack_files(library, paths, [f"{path}.ptx" for path in paths], compiler.description)
    return library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not writes_ptx(find_compiler()):
        pytest.skip("the kernel compiler has no backend for NVIDIA GPUs (ziglang's has)")
    return compiled(HERE / "kernels.metal", tmp_path_factory.mktemp("ptx"))


def test_index(library: Path) -> None:
    """Check the kernel names, parameters and limits that the driver reads."""
    head = library.read_bytes().partition(b"\nend\n")[0].decode().splitlines()
    assert head[0] == "mpsx-ptx 5"
    rows = {fields[6]: fields for line in head if (fields := line.split("\t"))[0] == "kernel"}
    assert rows["values"][5] == "p0 v2:24:4 p3"
    assert rows["table"][5] == "p0 v1:4096:4"  # by address, every threadgroup would read it from the host's memory
    assert rows["shared"][3] == "256"
    assert rows["shared"][5] == "p0 t1"
    assert rows["matmul<float>"][4:6] == ["mpsx_k_matmul_float_", "p0 p1 p2"]
    assert rows["lanes"][3] == "0"


def test_text(library: Path) -> None:
    """Each PTX module contains one kernel and everything that it needs, but no other kernel."""
    texts = dict(unpack(str(library)))
    assert set(texts) == {"values", "table", "shared", "lanes", "matmul<float>", "matmul<half>", "matmul<bfloat>"}
    for name, text in texts.items():
        entries = re.findall(r"\.entry (\w+)\(", text)
        assert entries == ["mpsx_k_" + re.sub(r"\W", "_", name)]
        assert re.search(r"\.loc\s+\d+ \d+", text), "lines of the Metal source"
        assert "kernels.metal" in text
        assert ".local" not in text
    assert ".maxntid 256" in texts["shared"]
    assert "activemask" in texts["lanes"]
    assert texts["matmul<half>"].count("mma.sync.aligned.m16n8k8.row.col.f32.f16") == 1
    assert texts["matmul<bfloat>"].count("mma.sync.aligned.m16n8k8.row.col.f32.bf16") == 1
    assert texts["matmul<float>"].count("mma.sync.aligned.m16n8k8.row.col.f32.tf32") == 3


def assemble(text: str, where: Path) -> str:
    """Return the assembler's messages. An empty string means success."""
    where.write_text(text)
    command = [nvidia_program("ptxas"), "-arch=sm_90", str(where), "-o", os.devnull]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.skipif(not nvidia_program("ptxas"), reason="no ptxas; pip install nvidia-cuda-nvcc-cu12")
def test_assembles(library: Path, tmp_path: Path) -> None:
    """Assemble the kernels one by one, as the NVIDIA driver does."""
    for i, (name, text) in enumerate(unpack(str(library))):
        assert not assemble(text, tmp_path / f"{i}.ptx"), name
        waiting = place_wait(text.replace(".target sm_80", ".target sm_90"))  # as src/driver/cuda/dependent_launch.cpp
        assert not assemble(waiting, tmp_path / f"{i}_waiting.ptx"), name


@pytest.mark.sweep
@pytest.mark.skipif(not nvidia_program("ptxas"), reason="no ptxas; pip install nvidia-cuda-nvcc-cu12")
def test_every_kernel(tmp_path: Path) -> None:
    """Assemble all kernels in metal/, one file at a time."""

    def check(source: Path) -> list[str]:
        built = compiled(source, tmp_path, (str(METAL),))
        texts = sorted(tmp_path.glob(f"{built.stem}*.ptx"))
        return [f"{source}: {said}" for text in texts if (said := assemble(text.read_text(), text))]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [line for lines in pool.map(check, sorted(METAL.glob("*/*.metal"))) for line in lines]
    assert not found
