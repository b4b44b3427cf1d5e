"""mpsx.compile_shader: kernels may use any name, even one that generated entry points use for their own variables.
tests/simt/test_names.py runs the same kernels on simt."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from reserved_names import SOURCES, expected

import mpsx
from mpsx.msl.compiler import find_compiler, writes_ptx
from mpsx.msl.translate import translate


@pytest.mark.parametrize("name", SOURCES)
def test_names_of_entry_points(name: str) -> None:
    library = mpsx.compile_shader(SOURCES[name])
    for kernel, want in expected(SOURCES[name]):
        x = torch.arange(4.0).to("mpsx")
        getattr(library, kernel)(x, threads=4, group_size=4)
        assert x.tolist() == want, kernel


@pytest.mark.parametrize("name", SOURCES)
def test_names_in_ptx(name: str, tmp_path: Path) -> None:
    """Generate PTX. This does not require a GPU."""
    compiler = find_compiler()
    if not writes_ptx(compiler):
        pytest.skip("the kernel compiler has no backend for NVIDIA GPUs (ziglang's has)")
    source = tmp_path / "names.metal"
    source.write_text(SOURCES[name])
    paths, _ = translate(str(source), str(tmp_path / "names.cpp"), (), (), compiler.preprocessor(), 1, mode="cuda",
                         general=True)  # fmt: skip
    command = [*compiler.command, *compiler.flags("cuda"), "-S", paths[0], "-o", str(tmp_path / "names.ptx")]
    subprocess.run(command, check=True)
