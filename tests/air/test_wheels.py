"""Load the metallibs in the macOS wheels of torch and mlx-metal. These sweep tests download 160 MB from PyPI."""

from __future__ import annotations

import functools
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mlx_kernels
import mlx_launches
import pytest
import referee
import torch
import torch_kernels
import torch_launches

import mpsx
from mpsx.air import metallib
from mpsx.shader import library as shader_library

pytestmark = pytest.mark.sweep
PLATFORM = "macosx_14_0_arm64"
MLX = "0.32.1"  # mlx_launches.py matches the kernel parameters of this version
MINIMUM = {"torch": 12000, "mlx-metal": 15000}  # minimum number of kernels in each metallib


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, found = tmp_path_factory.mktemp("wheels"), {}
    for name in MINIMUM:
        version = f"=={torch.__version__.split('+')[0]}" if name == "torch" else f"=={MLX}"
        options = ["-q", "--no-deps", "--only-binary=:all:", "--platform", PLATFORM, "-d", str(folder / name)]
        command = [sys.executable, "-m", "pip", "download", *options, name + version]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"pip cannot download {name}: {done.stderr.strip()[-200:]}")
        with zipfile.ZipFile(next((folder / name).glob("*.whl"))) as wheel:
            wheel.extractall(folder / f"{name}-files")
        found[name] = folder / f"{name}-files"
    return found


def embedded(data: bytes) -> list[bytes]:
    """Return the metallibs embedded in a different file, such as PyTorch's library."""
    found, at = [], data.find(metallib.MAGIC)
    while at >= 0:
        size = int.from_bytes(data[at + 16 : at + 24], "little")
        if metallib.HEADER.size < size <= len(data) - at:
            try:
                metallib.read(data[at : at + size])
                found.append(data[at : at + size])
            except metallib.MetallibError:
                pass  # the four magic bytes may occur in code
        at = data.find(metallib.MAGIC, at + 4)
    return found


def metallibs(wheels: dict[str, Path], name: str) -> list[bytes]:
    """Return the metallibs in a wheel."""
    if name == "torch":
        return embedded((wheels["torch"] / "torch" / "lib" / "libtorch_cpu.dylib").read_bytes())
    return [(wheels[name] / "mlx" / "lib" / "mlx.metallib").read_bytes()]


@pytest.mark.parametrize("name", MINIMUM)
def test_every_kernel_is_supported(wheels: dict[str, Path], name: str) -> None:
    found = metallibs(wheels, name)
    assert found
    for data in found:
        library = mpsx.load_metallib(data)
        shader, reasons = library.__dict__["__shader"], Counter()
        for kernel in dir(library):
            try:
                shader.describe(kernel)
            except ValueError as error:
                reasons[str(error)] += 1
        assert len(dir(library)) >= MINIMUM[name]
        assert not reasons


def disagreements(apple: object, ours: object, kernels: list[str], launches: Callable,
                  constants: Callable) -> list[str]:  # fmt: skip
    """Compare kernels compiled by Apple with ours on the same arguments. They must produce the same bits or the same
    fault in the simt driver. Return one line per difference."""
    shader, different = apple.__dict__["__shader"], []
    for kernel in kernels:
        first, second, description = getattr(apple, kernel), getattr(ours, kernel), shader.describe(kernel)
        if found := description["constants"]:
            first = first.with_constants(constants(kernel, found))
        if found := ours.__dict__["__kernels"][kernel]["constants"]:  # may include some that Apple's compiler removed
            second = second.with_constants(constants(kernel, found))
        for values, threads, group in launches(kernel, description):
            outcome = referee.compare(first, second, description, values, threads, group)
            if outcome.kind not in ("equal", "both fault"):
                different.append(f"{kernel} {threads} {group}: {outcome.kind} {outcome.detail}")
    return different


@pytest.mark.parametrize("name", mlx_kernels.FAMILIES)
def test_mlx_agrees(wheels: dict[str, Path], name: str) -> None:
    """Kernels compiled by Apple's compiler and by ours produce the same bits."""
    family = mlx_kernels.FAMILIES[name]()
    apple = mpsx.load_metallib(wheels["mlx-metal"] / "mlx" / "lib" / "mlx.metallib")
    ours = shader_library.load(family.source, f"{name}.metal", [str(wheels["mlx-metal"] / "mlx" / "include")])
    kernels = [row[0] for row in family.rows]
    assert set(kernels) <= set(dir(apple))
    launches = functools.partial(mlx_launches.launches, name)
    found = disagreements(apple, ours, kernels, launches, mlx_launches.constants)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", torch_kernels.FAMILIES)
def test_torch_agrees(wheels: dict[str, Path], tmp_path: Path, name: str) -> None:
    """Kernels compiled by Apple's compiler and by ours produce the same bits."""
    family = torch_kernels.FAMILIES[name]()
    headers = torch_kernels.trimmed_headers(wheels["torch"] / "torch" / "include", tmp_path)
    apple = mpsx.load_metallib(metallibs(wheels, "torch")[-1])
    ours = shader_library.load(family.source, f"{name}.metal", [headers])
    kernels = dir(ours)
    assert set(kernels) <= set(dir(apple))
    launches = functools.partial(torch_launches.launches, name)
    sample = kernels[:: max(len(kernels) // 100, 1)]
    found = disagreements(apple, ours, sample, launches, lambda kernel, found: {})
    assert not found, "\n".join(found)
