"""The files and metadata in the sdist from `python -m build --sdist`, and the wheel that is built from it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytest.importorskip("scikit_build_core", reason="builds the sdist: pip install scikit-build-core")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    code = f"from scikit_build_core.build import build_sdist; build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=300,
                   env={"PATH": "/usr/bin:/bin", "GITHUB_REPOSITORY": "owner/name"})  # fmt: skip
    return next(folder.glob("mpsx-*.tar.gz"))


def test_files(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md", "src/driver/driver.h",
              "python/mpsx/_runtime.pyx", "metal/norm/softmax.metal", "tools/build/project_urls.py",
              "src/metal_stdlib/msl.h"}  # fmt: skip
    assert wanted <= names
    assert not [name for name in names if name.startswith(("build/", "dist/", ".ci/")) or name.endswith((".so", ".o"))]


def test_metadata(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        name = next(name for name in archive.getnames() if name.endswith("/PKG-INFO"))
        text = archive.extractfile(name).read().decode()
    assert "\nAuthor: " in text and "\nLicense-Expression: BSD-3-Clause\n" in text
    assert "\nProject-URL: Repository, https://github.com/owner/name\n" in text
    assert "\nRequires-Dist: torch<2." in text


@pytest.mark.skipif(importlib.util.find_spec("twine") is None, reason="twine is not installed")
def test_twine_check(sdist: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", str(sdist)]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.sweep
@pytest.mark.timeout(7200)
def test_wheel_from_the_sdist(sdist: Path, tmp_path: Path) -> None:
    """Build the wheel, and install it in a new environment that shares this environment's torch."""

    def run(*arguments: object, **environment: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([str(argument) for argument in arguments], check=False, capture_output=True, text=True,
                              cwd=tmp_path, env=kept | environment)  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, sdist)
    wheel = next(tmp_path.glob("mpsx-*.whl"))
    if importlib.util.find_spec("twine"):
        run(sys.executable, "-m", "twine", "check", "--strict", wheel)
    run(sys.executable, "-m", "venv", tmp_path / "fresh")
    python = tmp_path / "fresh" / "bin" / "python"
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (Path(packages) / "torch_of_the_tests.pth").write_text(sysconfig.get_path("purelib"))
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel)
    code = "import torch, mpsx; print(mpsx.__file__); print((torch.ones(3, device='mpsx') * 2).tolist())"
    location, values = run(python, "-c", code).splitlines()
    assert location.startswith(packages) and values == "[2.0, 2.0, 2.0]"
    assert "Driver" in run(python, "-m", "mpsx", "info")
