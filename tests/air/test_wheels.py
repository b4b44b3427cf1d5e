"""Load the metallibs in the macOS wheels of torch and mlx-metal. These sweep tests download 160 MB from PyPI."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

import mlx_kernels
import mlx_launches
import pytest
import referee
import torch
import torch_kernels
import torch_launches
from wheels import download, metallibs

import mpsx
from mpsx.shader import library as shader_library

pytestmark = pytest.mark.sweep
PLATFORM = "macosx_14_0_arm64"
MLX = "0.32.1"  # mlx_launches.py matches the kernel parameters of this version
MINIMUM = {"torch": 12000, "mlx-metal": 15000}  # minimum number of kernels in each metallib


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    versions = {"torch": torch.__version__.split("+")[0], "mlx-metal": MLX}
    return {name: download(f"{name}=={version}", tmp_path_factory.mktemp(name), "--platform", PLATFORM)
            for name, version in versions.items()}  # fmt: skip


@pytest.mark.parametrize("name", MINIMUM)
def test_every_kernel_is_supported(wheels: dict[str, Path], name: str) -> None:
    found = metallibs(wheels[name])
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


@pytest.mark.parametrize("name", mlx_kernels.FAMILIES)
def test_mlx_agrees(wheels: dict[str, Path], name: str) -> None:
    """Kernels compiled by Apple's compiler and by ours produce the same bits."""
    family = mlx_kernels.FAMILIES[name]()
    apple = mpsx.load_metallib(wheels["mlx-metal"] / "mlx" / "lib" / "mlx.metallib")
    ours = shader_library.load(family.source, f"{name}.metal", [str(wheels["mlx-metal"] / "mlx" / "include")])
    kernels = [row[0] for row in family.rows]
    assert set(kernels) <= set(dir(apple))
    if mpsx.driver()["name"] == "simt":
        kernels = [name for name in kernels if name not in mlx_kernels.RACY]
    launches = functools.partial(mlx_launches.launches, name)
    found = referee.disagreements(apple, ours, kernels, launches, mlx_launches.constants)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", torch_kernels.FAMILIES)
def test_torch_agrees(wheels: dict[str, Path], tmp_path: Path, name: str) -> None:
    """Kernels compiled by Apple's compiler and by ours produce the same bits."""
    family = torch_kernels.FAMILIES[name]()
    headers = torch_kernels.trimmed_headers(wheels["torch"] / "torch" / "include", tmp_path)
    apple = mpsx.load_metallib(metallibs(wheels["torch"])[-1])
    ours = shader_library.load(family.source, f"{name}.metal", [headers])
    kernels = dir(ours)
    assert set(kernels) <= set(dir(apple))
    launches = functools.partial(torch_launches.launches, name)
    sample = kernels[:: max(len(kernels) // 100, 1)]
    found = referee.disagreements(apple, ours, sample, launches)
    assert not found, "\n".join(found)
