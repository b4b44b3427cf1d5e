"""Run kernels from the macOS wheels of torch whose sources are complete, or missing. These sweep tests download 200 MB
from PyPI and Debian."""

from __future__ import annotations

from pathlib import Path

import pytest
import referee
import torch
import torch26_launches
import torch_reference
from wheels import download, metallibs, sources

import mpsx
from mpsx.shader import library as shader_library

pytestmark = pytest.mark.sweep
FILES = """BinaryKernel Bucketization CrossKernel FusedOptimizerOps HistogramKernel Im2Col Indexing LinearAlgebra
    Quantized RenormKernel Repeat SpecialOps TriangularOps UnfoldBackward UpSample""".split()


@pytest.fixture(scope="module")
def old_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ["--platform", "macosx_11_0_arm64", "--python-version", "3.12", "--abi", "none"]
    return download("torch==2.6.0", tmp_path_factory.mktemp("torch26"), *options)


@pytest.fixture(scope="module")
def old_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> object:
    version = torch.__version__.split("+")[0]
    wheel = download(f"torch=={version}", tmp_path_factory.mktemp("torch"), "--platform", "macosx_14_0_arm64")
    return mpsx.load_metallib(metallibs(wheel)[-1])


@pytest.mark.parametrize("file", FILES)
def test_source_agrees(old_wheel: Path, old_sources: Path, file: str) -> None:
    """PyTorch's kernels produce the same bits when Apple's compiler and ours have compiled the same source."""
    apple = mpsx.load_metallib(metallibs(old_wheel)[-1])
    path = old_sources / f"{file}.metal"
    ours = shader_library.load(path.read_text(), path.name, [str(old_sources)])
    assert set(dir(ours)) <= set(dir(apple))
    # simt reports a race in the 8-bit matmul. On host, its result depends on the order of SIMD groups.
    is_checked = mpsx.driver()["name"] == "simt"
    kernels = [name for name in dir(ours) if is_checked or not name.startswith("large_m_int8pack_mm")]
    found = referee.disagreements(apple, ours, kernels, lambda kernel, _: torch26_launches.launches(kernel))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("family", torch_reference.PATTERNS)
def test_result_is_that_of_the_cpu(library: object, family: str) -> None:
    """Kernels whose source is unavailable compute what PyTorch's operators compute on the CPU."""
    shader, wrong = library.__dict__["__shader"], []
    kernels = [name for name in dir(library) if torch_reference.case(family, name, 0)]
    assert len(kernels) >= 12
    if mpsx.driver()["name"] == "simt":
        kernels = [name for name in kernels if not name.startswith(torch_reference.RACY)]
    for kernel in kernels[:: max(len(kernels) // 60, 1)]:
        shared = referee.threadgroup_memory(shader.describe(kernel))
        for seed in range(2):
            case = torch_reference.case(family, kernel, seed)
            result = referee.run(getattr(library, kernel), case.values, case.threads, case.group, shared)
            if isinstance(result, str):
                wrong.append(f"{kernel}: {result}")
                continue
            found = [torch_reference.difference(result[i], expected) for i, expected in case.expected.items()]
            wrong += [f"{kernel}: {text}" for text in found if text]
    assert not wrong, "\n".join(wrong)
