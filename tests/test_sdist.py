"""The sdist's files and metadata, as `python -m build --sdist` makes them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytest.importorskip("scikit_build_core", reason="scikit-build-core builds it: pip install scikit-build-core")


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
              "python/mpsx/_runtime.pyx", "metal/norm/softmax.metal", "tools/project_urls.py"}  # fmt: skip
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
def test_twine_accepts_it(sdist: Path) -> None:
    words = [sys.executable, "-m", "twine", "check", "--strict", str(sdist)]
    run = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
