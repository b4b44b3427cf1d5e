"""Download macOS wheels and PyTorch's sources for the sweep tests, and find the metallibs in them."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

from mpsx.air import metallib

# Debian has the sources of this version, unlike PyPI.
SOURCES = "https://deb.debian.org/debian/pool/main/p/pytorch/pytorch_2.6.0+dfsg.orig.tar.xz"
KERNELS = "aten/src/ATen/native/mps/kernels/"


def download(requirement: str, folder: Path, *options: str) -> Path:
    """Download a wheel and return the folder of its files. Skip the test if pip fails."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder),
               *options, requirement]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip cannot download {requirement}: {done.stderr.strip()[-200:]}")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder / "files")
    return folder / "files"


def sources(folder: Path) -> Path:
    """Download the Metal sources of PyTorch 2.6.0 and return their folder. Skip the test if that fails."""
    try:
        with urllib.request.urlopen(SOURCES, timeout=300) as response:
            data = io.BytesIO(response.read())
    except (urllib.error.URLError, OSError) as error:
        pytest.skip(f"cannot download {SOURCES}: {error}")
    with tarfile.open(fileobj=data, mode="r:xz") as archive:
        for member in archive:
            if KERNELS in member.name and member.name.endswith(".metal"):
                (folder / Path(member.name).name).write_bytes(archive.extractfile(member).read())
    return folder


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


def metallibs(wheel: Path) -> list[bytes]:
    """Return the metallibs in a wheel of torch or mlx-metal."""
    if (wheel / "torch").exists():
        return embedded((wheel / "torch" / "lib" / "libtorch_cpu.dylib").read_bytes())
    return [(wheel / "mlx" / "lib" / "mlx.metallib").read_bytes()]
