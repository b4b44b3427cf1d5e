"""compile_shader's disk cache: keys, damaged files, crashes, concurrent processes, the size limit, and the command
`python -m mpsx shader`."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import mpsx
from mpsx.cli.shader import UNCHECKED
from mpsx.shader import build as shader_build
from mpsx.shader import cache as shader_cache
from mpsx.shader import library, toolchain

SOURCE = "kernel void twice(device float* x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def build(source=SOURCE, name="a.metal", isa=None, include_dirs=()):
    target = library._target()
    if isa:
        target = toolchain.Target(isa, target.mode)
    return shader_build.build(source, name, target, include_dirs)


def test_cache_hit(folder):
    first = build()
    assert not first.cached and first.path.startswith(str(folder))
    second = build()
    assert second.cached and second.path == first.path and second.kernels == first.kernels
    assert [k["name"] for k in second.kernels] == ["twice"]
    assert second.kernels[0]["buffers"] == [
        {"index": 0, "space": "device", "name": "x", "text": "device float * x", "optional": False, "constant": ""}
    ]
    assert not build(SOURCE.replace("2", "3")).cached
    assert not build(name="b.metal").cached  # the name is part of the key, because error messages contain it


def test_key_includes_target_translator_and_compiler(folder, tmp_path, monkeypatch):
    build()
    assert not build(isa="baseline").cached
    translator = toolchain.translator_hash(str(folder))
    monkeypatch.setattr(toolchain, "translator_hash", lambda _: translator + "x")
    assert not build().cached
    monkeypatch.undo()
    monkeypatch.setenv("MPSX_CACHE_DIR", str(folder))
    assert build().cached
    if library._target().mode == "cuda":
        return  # no second compiler can generate PTX
    other = tmp_path / "compiler"
    other.write_text('#!/bin/sh\nexec c++ "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("MPSX_KERNEL_CXX", str(other))
    assert not build().cached
    assert build().cached
    other.write_text('#!/bin/sh\nexec c++ "$@"  # another version\n')
    assert not build().cached


def test_key_includes_included_files(folder, tmp_path):
    header = tmp_path / "twice.h"
    header.write_text("#define FACTOR 2\n")
    source = '#include "twice.h"\n' + SOURCE.replace("2", "FACTOR")
    assert not build(source, include_dirs=[str(tmp_path)]).cached
    assert build(source, include_dirs=[str(tmp_path)]).cached
    header.write_text("#define FACTOR 5\n")
    changed = build(source, include_dirs=[str(tmp_path)])
    assert not changed.cached
    x = torch.ones(3, device="mpsx")
    library.load(source, "a.metal", [str(tmp_path)]).twice(x)
    assert x.tolist() == [5, 5, 5]
    header.unlink()
    with pytest.raises(SyntaxError, match=r"a.metal:1:10: .*twice.h"):
        build(source, include_dirs=[str(tmp_path)])


@pytest.mark.parametrize("damage", [b"", b"garbage\n{}", None])
def test_damaged_entries_are_rebuilt(folder, damage):
    first = build()
    for path in folder.iterdir():
        if path.is_file():
            kept = path.read_bytes()
            path.unlink()
            if damage is not None:
                path.write_bytes(damage)
            else:
                half = len(kept) // 2
                path.write_bytes(kept[:half] + bytes([kept[half] ^ 1]) + kept[half + 1 :])
    again = build()
    assert not again.cached
    assert hashlib.sha256(Path(again.path).read_bytes()).hexdigest() in again.path
    assert build().cached
    assert first.kernels == again.kernels


def test_leftovers_of_a_crash_are_deleted(folder):
    build()
    old, new = folder / "tmp-old", folder / "tmp-new"
    for path in (old, new):
        path.mkdir()
        (path / "shader.o").write_text("partial")
    long_ago = time.time() - 2 * shader_cache.STALE_SECONDS
    os.utime(old, (long_ago, long_ago))
    build(SOURCE.replace("2", "4"))
    assert not old.exists()
    assert new.exists()  # kept, because a different process may be using it


def test_size_limit(folder, monkeypatch):
    folder.mkdir()
    for age in range(10):
        (folder / f"{age}.so").write_bytes(bytes(100))
        os.utime(folder / f"{age}.so", (time.time() - 100 * age,) * 2)
    shader_cache.Cache(folder, 1000).trim()
    assert len(list(folder.iterdir())) == 10
    shader_cache.Cache(folder, 950).trim()
    assert sorted(path.stem for path in folder.iterdir()) == [str(age) for age in range(7)]
    monkeypatch.setenv("MPSX_CACHE_SIZE", "500")
    build()  # the build succeeds, although a single shader exceeds the limit
    assert not (folder / "6.so").exists()
    assert (folder / "0.so").exists()  # kept, because it was used less than a minute ago
    x = torch.ones(2, device="mpsx")
    mpsx.compile_shader(SOURCE).twice(x)
    assert x.tolist() == [2, 2]
    monkeypatch.setenv("MPSX_CACHE_SIZE", "lots")
    with pytest.raises(ValueError, match="MPSX_CACHE_SIZE: expected a number of bytes, got 'lots'"):
        build()


def test_unusable_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "file" / "cache"))
    x = torch.ones(3, device="mpsx")
    mpsx.compile_shader(SOURCE).twice(x)
    assert x.tolist() == [2, 2, 2]


def test_folder_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("MPSX_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert shader_cache.current_cache().folder == tmp_path / "xdg" / "mpsx"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the XDG specification says to ignore relative paths
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert shader_cache.current_cache().folder == tmp_path / "home" / ".cache" / "mpsx"


WORKER = f"""
import mpsx, torch
x = torch.ones(4, device="mpsx")
mpsx.compile_shader({SOURCE!r}).twice(x)
assert x.tolist() == [2.0] * 4
"""


def test_concurrent_processes(folder):
    environment = dict(os.environ, MPSX_CACHE_DIR=str(folder))
    workers = [subprocess.Popen([sys.executable, "-c", WORKER], env=environment) for _ in range(3)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0, 0]
    assert not [path for path in folder.iterdir() if path.name.startswith("tmp-")]


def test_without_a_compiler(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(toolchain, "_zig", lambda: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MPSX_KERNEL_CXX", raising=False)
    with pytest.raises(RuntimeError, match=r"no compiler .*ziglang, clang\+\+ or g\+\+, or set MPSX_KERNEL_CXX"):
        build()


def command(*arguments, **environment):
    command_line = [sys.executable, "-m", "mpsx", "shader", *map(str, arguments)]
    done = subprocess.run(command_line, capture_output=True, text=True,
                          check=False, timeout=120, env=dict(os.environ, **environment))  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_command(folder, tmp_path):
    numpy = pytest.importorskip("numpy")
    file = tmp_path / "axpy.metal"
    (tmp_path / "scale.h").write_text("#define SCALE 10\n")
    file.write_text("""#include "scale.h"
kernel void axpy(device float* y, constant float* x, constant half& a, uint i [[thread_position_in_grid]]) {
  y[i] += SCALE * float(a) * x[i];
}
""")
    status, out, err = command(file)
    assert (status, err) == (0, "")
    assert out.splitlines()[:4] == [f"axpy    {file}:2:13", "    buffer 0: device float * y",
                                    "    buffer 1: constant float * x", "    buffer 2: constant half & a"]  # fmt: skip
    y = numpy.arange(5, dtype=numpy.float32)
    numpy.save(tmp_path / "y.npy", y)
    status, out, err = command(file, "--run", "axpy", "--arg", tmp_path / "y.npy", "--arg", "ones:float32:5", "--arg",
                               "half:0.5", "--out", tmp_path / "z.npy", "--threads", "4", "--group", "2")  # fmt: skip
    hint = f"{UNCHECKED}\n" if mpsx.driver()["name"] == "host" else ""
    assert (status, err, out) == (0, hint, "argument 0: float32 5: 5, 6, 7, 8, 4\n")
    assert numpy.load(tmp_path / "z.npy").tolist() == [5, 6, 7, 8, 4]
    status, out, err = command(file, "--run", "axpy", "--arg", "ones:float33:5")
    assert status == 1 and "--arg ones:float33:5: expected an element type such as float32" in err
    file.write_text("kernel void f(device float* x) {\n  x[0] = nope;\n}\n")
    status, out, err = command(file)
    assert status == 1 and err.startswith(f"{file}:2:10: error: use of undeclared identifier 'nope'")
