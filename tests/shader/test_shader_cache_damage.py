"""The shader disk cache with damaged files, folders that other users can write to, full disks, and processes that are
killed during a build."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from processes import run_in_subprocess

import mpsx
from mpsx.shader import build as shader_build
from mpsx.shader import cache as shader_cache
from mpsx.shader import library

pytestmark = pytest.mark.skipif(mpsx.driver()["name"] == "metal", reason="Metal compiles shaders itself")
SOURCE = "kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= FACTOR; }"
MANY = "".join(SOURCE.replace("twice", f"times{n}").replace("FACTOR", str(n)) for n in range(20))


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> Path:
    """Fill a cache with two shaders and the files shared by all shaders."""
    folder = tmp_path_factory.mktemp("warm") / "cache"
    before = os.environ.get("MPSX_CACHE_DIR")
    os.environ["MPSX_CACHE_DIR"] = str(folder)
    for factor in (2, 3):
        assert run(factor) == [factor] * 3
    if before is None:
        del os.environ["MPSX_CACHE_DIR"]
    else:
        os.environ["MPSX_CACHE_DIR"] = before
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, warm) -> Path:
    """Give the test its own copy of the warm cache."""
    shutil.copytree(warm, tmp_path / "cache")
    (tmp_path / "cache").chmod(0o700)
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def run(factor: int) -> list[float]:
    x = torch.ones(3, device="mpsx")
    mpsx.compile_shader(SOURCE.replace("FACTOR", str(factor))).twice(x)
    return x.tolist()


def build(factor: int) -> shader_build.Built:
    return shader_build.build(SOURCE.replace("FACTOR", str(factor)), "program_source", library._target())


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


DAMAGE = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "last byte missing": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "one bit": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
    "random": lambda data: random.Random(len(data)).randbytes(len(data)),
    "zeros": lambda data: bytes(len(data)),
    "text": lambda data: b'{"library": "/tmp/x.so"}',
}


@pytest.mark.parametrize(
    "damage", [pytest.param(d, marks=[] if d in ("random", "truncated") else pytest.mark.sweep) for d in DAMAGE]
)
def test_damaged_files_are_replaced(folder: Path, damage: str) -> None:
    """Damage every kind of file: records, the library, the precompiled header, and the object file of the stubs."""
    whole = {path: path.read_bytes() for path in files(folder)}
    assert {path.suffix for path in whole} >= {".json", ".so" if library._target().mode != "cuda" else ".ptx"}
    for path, data in whole.items():
        path.write_bytes(DAMAGE[damage](data))
    assert run(2) == [2] * 3
    assert build(2).cached
    assert run(3) == [3] * 3
    for path in files(folder):
        assert path.suffix in (".json", ".cubin") or shader_cache.file_digest(path) == path.stem
    assert not list(folder.glob("tmp-*"))


@pytest.mark.sweep
def test_each_damaged_file_alone(folder: Path) -> None:
    for path in files(folder):
        path.write_bytes(DAMAGE["random"](path.read_bytes()))
        assert run(2) == [2] * 3, path.name
        assert build(2).cached, path.name


def test_swapped_files_are_detected(folder: Path) -> None:
    """Rotate the contents of the files, so that each is still valid but stored under another file's name."""
    for suffix in {path.suffix for path in files(folder)}:
        names = [path for path in files(folder) if path.suffix == suffix]
        contents = [path.read_bytes() for path in names]
        for path, data in zip(names, [*contents[1:], contents[0]], strict=True):
            path.write_bytes(data)
    assert run(2) == [2] * 3
    assert run(3) == [3] * 3


@pytest.mark.sweep
def test_files_replaced_by_links(folder: Path) -> None:
    for path in files(folder):
        path.unlink()
        if path.suffix == ".json":
            path.symlink_to("/dev/null")
    assert run(2) == [2] * 3
    assert build(2).cached


@pytest.mark.sweep
def test_kernels_compiled_one_by_one(folder: Path) -> None:
    """Damage every file of a large source. Its kernels are compiled one by one."""
    x = torch.ones(3, device="mpsx")
    mpsx.compile_shader(MANY).times7(x)
    for damage in ("random", "truncated"):
        for path in files(folder):
            path.write_bytes(DAMAGE[damage](path.read_bytes()))
        x = torch.ones(3, device="mpsx")
        mpsx.compile_shader(MANY).times7(x)
        assert x.tolist() == [7] * 3


def test_damaged_kernel_library(tmp_path, monkeypatch) -> None:
    """Damage the library in kernels/ and its object files."""
    from mpsx.shader import kernel_library

    metal = tmp_path / "metal"
    (metal / "own").mkdir(parents=True)
    (metal / "own" / "own.metal").write_text(
        "kernel void own(device float* x, uint i [[thread_position_in_grid]]) { x[i] = 3; }")  # fmt: skip
    monkeypatch.setattr(kernel_library, "SOURCES", metal)
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "cache"))
    name = "cuda" if library._target().mode == "cuda" else "baseline"
    first = kernel_library.library(name)
    whole = shader_cache.file_digest(first)
    for damage in ("random", "truncated", "empty"):
        for path in files(tmp_path / "cache"):
            path.write_bytes(DAMAGE[damage](path.read_bytes()))
        assert kernel_library.library(name) == first
        assert shader_cache.file_digest(first) == whole
    for folder in (tmp_path / "cache", *(path for path in (tmp_path / "cache").rglob("*") if path.is_dir())):
        assert folder.stat().st_mode & 0o777 == 0o700, folder


# Folders that other users can access


def test_folder_is_created_for_this_user_only(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "a" / "cache"))
    before = os.umask(0)
    try:
        shader_cache.current_cache().subfolder("kernels", 0)
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "cache").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "cache" / "kernels").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702, 0o1777])
@pytest.mark.parametrize("part", ["", "kernels"])
def test_folder_writable_by_others_is_not_used(tmp_path, monkeypatch, mode: int, part: str) -> None:
    writable = tmp_path / "cache" / part
    writable.mkdir(parents=True)
    (tmp_path / "cache").chmod(0o755)
    writable.chmod(mode)
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.warns(UserWarning, match=rf"{writable} is not used because other users can write to it .*{mode:04o}"):
        found = shader_cache.current_cache()
    assert found is shader_cache.private()
    assert found.folder.stat().st_mode & 0o777 == 0o700
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shader_cache.current_cache() is found  # the warning is issued only once
    assert not list(writable.glob("*.json"))
    writable.chmod(0o755)
    assert shader_cache.current_cache().folder == tmp_path / "cache"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change a folder's owner")
def test_folder_of_another_user_is_not_used(tmp_path, monkeypatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o755)
    os.chown(tmp_path / "cache", 12345, -1)
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.warns(UserWarning, match="is not used because user 12345 owns it"):
        assert shader_cache.current_cache() is shader_cache.private()
    assert not list((tmp_path / "cache").iterdir())


# Full disks

COMPILE_AND_RUN = """
import mpsx, os, sys, warnings
x = torch.ones(3, device="mpsx")
mpsx.compile_shader("kernel void f(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 5; }").f(x)
assert x.tolist() == [5, 5, 5]
print("done")
"""


def mount(path: Path, size: str) -> bool:
    path.mkdir()
    return subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", path],
                          capture_output=True, check=False).returncode == 0  # fmt: skip


@pytest.fixture
def small_disk(tmp_path):
    """Return a function that mounts a disk of a given size. Skip the test if mounting is not permitted."""
    mounted = []

    def make(name: str, size: str) -> Path:
        if not mount(tmp_path / name, size):
            pytest.skip("mount is not permitted")
        mounted.append(tmp_path / name)
        return mounted[-1]

    yield make
    for path in mounted:
        subprocess.run(["umount", "-l", path], check=False)


@pytest.mark.parametrize("size", ["4k", *(pytest.param(size, marks=pytest.mark.sweep) for size in ("64k", "1m", "6m"))])
def test_full_disk_with_space_elsewhere(small_disk, tmp_path, size: str) -> None:
    done = run_in_subprocess(COMPILE_AND_RUN, MPSX_CACHE_DIR=str(small_disk("disk", size)), TMPDIR=str(tmp_path))
    assert done.stdout == "done\n", done.stderr
    assert not list(tmp_path.glob("mpsx-cache-*"))


def test_no_space_anywhere(small_disk) -> None:
    disk, temporary = small_disk("disk", "1m"), small_disk("temporary", "1m")
    done = run_in_subprocess(COMPILE_AND_RUN, MPSX_CACHE_DIR=str(disk), TMPDIR=str(temporary))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: mpsx: no writable folder for compiled kernels: "), done.stderr
    assert f"{disk}: No space left on device" in last
    assert f"{temporary}: No space left on device" in last


def test_file_size_limit(tmp_path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    done = run_in_subprocess("import mpsx; torch.ones(1, device='mpsx')\n" + limit + COMPILE_AND_RUN,
                        MPSX_CACHE_DIR=str(tmp_path / "cache"), TMPDIR=str(tmp_path))  # fmt: skip
    assert "RuntimeError: mpsx: no writable folder for compiled kernels: " in done.stderr
    assert f"{tmp_path / 'cache'}: File too large" in done.stderr


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("function", ["replace", "mkdir"])
def test_failing_system_calls(folder: Path, monkeypatch, number: int, function: str) -> None:
    original = getattr(os, function)

    def fails(*arguments: object, **more: object) -> object:
        if any(str(argument).startswith(str(folder)) for argument in arguments):
            raise OSError(number, os.strerror(number), str(folder))
        return original(*arguments, **more)

    monkeypatch.setattr(os, function, fails)
    assert run(4) == [4] * 3
    monkeypatch.setattr(shader_cache, "private", lambda: (_ for _ in ()).throw(OSError(number, os.strerror(number))))
    with pytest.raises(RuntimeError, match=f"no writable folder for compiled kernels: {folder}: .*; "
                                           f"{tempfile.gettempdir()}: {os.strerror(number)}"):  # fmt: skip
        run(6)


# Killed processes

KILLED = """
import os, signal, sys
step, count, folder = int(sys.argv[1]), 0, os.environ["MPSX_CACHE_DIR"]
def audit(event, arguments):
    global count
    if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.utime", "subprocess.Popen"):
        if event == "subprocess.Popen" or any(folder in str(argument) for argument in arguments):
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
import torch, mpsx
from mpsx.shader.compiler import Builder
sys.addaudithook(audit)
mpsx.compile_shader(sys.argv[2])
print(count)
"""


def killed_at(folder: Path, step: int, source: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", KILLED, str(step), source],
                          env=os.environ | {"MPSX_CACHE_DIR": str(folder)},
                          capture_output=True, text=True, check=False)  # fmt: skip


@pytest.mark.parametrize("steps", [3, pytest.param(1000, marks=pytest.mark.sweep)])
def test_killed_at_every_step_of_a_build(tmp_path, monkeypatch, warm: Path, steps: int) -> None:
    """The next process builds the missing files and leaves no incomplete file behind."""
    source = SOURCE.replace("FACTOR", "9")
    shutil.copytree(warm, tmp_path / "count")
    total = int(killed_at(tmp_path / "count", 0, source).stdout)
    assert total > 20
    for step in sorted({1 + n * (total - 1) // min(steps - 1, total) for n in range(min(steps, total))}):
        folder = tmp_path / str(step)
        shutil.copytree(warm, folder)
        assert killed_at(folder, step, source).returncode == -signal.SIGKILL
        for path in folder.iterdir():
            if path.suffix != ".json" and path.is_file() and not path.name.startswith("tmp-"):
                assert shader_cache.file_digest(path) == path.stem, (step, path.name)
        monkeypatch.setenv("MPSX_CACHE_DIR", str(folder))
        assert run(9) == [9] * 3
        assert build(9).cached
        shutil.rmtree(folder)
