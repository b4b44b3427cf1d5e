"""mpsx.compile_shader: function constants, and threadgroup memory whose size is passed to the call."""

import os
import shutil
import struct
import subprocess
import sys

import pytest
import torch

import mpsx
from mpsx.cli.shader import UNCHECKED
from mpsx.msl.compiler import find_compiler, writes_ptx
from mpsx.msl.ptx import unpack
from mpsx.shader import build, toolchain
from mpsx.shader.compiler import Builder

SOURCE = """
#include <metal_stdlib>
using namespace metal;
constant bool has_bias [[function_constant(0)]];
constant float scale [[function_constant(3)]];
constant int2 tile [[function_constant(4)]];
constant int mode [[function_constant(5)]];
constant half small [[function_constant(6)]];
constant constexpr uchar limit [[function_constant(7)]];
constant int mode_or_7 = is_function_constant_defined(mode) ? mode : 7;
constant float twice = scale * 2;
inline float scaled(float x) { return x * twice / 2; }
kernel void axpy(device float* y, constant float* x,
                 device const float* bias [[buffer(2), function_constant(has_bias)]],
                 uint i [[thread_position_in_grid]]) {
  y[i] = scaled(x[i]) + (has_bias ? bias[i] : 0) + tile.x * 100 + tile.y * 1000;
}
kernel void modes(device float* y, uint i [[thread_position_in_grid]]) { y[i] = mode_or_7; }
kernel void halves(device float* y, uint i [[thread_position_in_grid]]) { y[i] = small; }
kernel void limits(device int* y, uint i [[thread_position_in_grid]]) { y[i] = limit; }
kernel void plain(device float* y, uint i [[thread_position_in_grid]]) { y[i] = 1; }
kernel void reversed(device float* y, threadgroup float* a [[threadgroup(0)]], threadgroup int* b [[threadgroup(2)]],
                     uint i [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup int own[4];
  a[i] = scaled(y[i]);
  b[i] = int(i);
  if (i < 4) own[i] = int(i);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = a[n - 1 - i] + b[n - 1 - i] + own[0];
}
"""


@pytest.fixture(scope="module")
def lib():
    return mpsx.compile_shader(SOURCE)


@pytest.fixture
def y():
    return torch.zeros(4, device="mpsx")


@pytest.fixture
def x():
    return torch.arange(4.0).to("mpsx")


def test_constant_values(lib, x, y):
    kernel = lib.axpy.with_constants(has_bias=False, scale=2, tile=[1, 2])
    assert repr(kernel) == "<mpsx kernel axpy with has_bias=0, scale=2, tile=1,2>"
    with mpsx.profiler.launch_log() as log:
        kernel(y, x)
    assert log == ["kernel:axpy|has_bias=0|scale=2|tile=1,2"]
    assert y.tolist() == [2100, 2102, 2104, 2106]
    kernel(y, x, None)  # the third buffer is absent
    assert y.tolist() == [2100, 2102, 2104, 2106]
    kernel.with_constants(tile=(0, 0))(y, x)  # the other constants keep their values
    assert y.tolist() == [0, 2, 4, 6]
    lib.axpy.with_constants({0: True, 3: 0.5, "tile": (0, 0)})(y, x, x)
    assert y.tolist() == [0, 1.5, 3, 4.5]
    kernel(y, x)  # the original kernel is unchanged
    assert y.tolist() == [2100, 2102, 2104, 2106]
    lib.plain(y)
    assert y.tolist() == [1] * 4
    assert kernel.max_threads_per_threadgroup == 1024


def test_is_function_constant_defined(lib, y):
    lib.modes(y)
    assert y.tolist() == [7] * 4
    lib.modes.with_constants(mode=-3)(y)
    assert y.tolist() == [-3] * 4


@pytest.mark.parametrize("value", [0.1, 65504, 65519, 65520, -70000, 1e-8, 6e-8, 5.97e-8, -3.3, 0.0, 6.1035e-5,
                                   6.0975e-5, float("inf")])  # fmt: skip
def test_half_constants(lib, y, value):
    lib.halves.with_constants(small=value)(y)
    assert torch.equal(y.cpu(), torch.full((4,), value).half().float())


def test_integer_constants(lib):
    n = torch.zeros(2, dtype=torch.int32, device="mpsx")
    lib.limits.with_constants(limit=255)(n)
    assert n.tolist() == [255, 255]
    for wrong in (256, -1, True + 255):
        with pytest.raises(RuntimeError, match=f"function constant limit: expected a value of type uchar, got {wrong}"):
            lib.limits.with_constants(limit=wrong)


def test_missing_values_raise(lib, x, y):
    message = (r"axpy: expected values for the function constants bool has_bias \(index 0\), float scale \(index 3\), "
               r"int2 tile \(index 4\); set them with axpy.with_constants\(…\)")  # fmt: skip
    with pytest.raises(RuntimeError, match=message):
        lib.axpy(y, x)
    with pytest.raises(RuntimeError, match=message):
        lib.axpy.max_threads_per_threadgroup  # noqa: B018
    with pytest.raises(RuntimeError, match=r"constants float scale \(index 3\), int2 tile"):
        lib.axpy.with_constants(has_bias=True)(y, x, x)


@pytest.mark.parametrize(("constants", "error", "message"), [
    ({"nope": 1}, RuntimeError, r"no function constant named nope; it has has_bias \(bool, index 0\), scale \(float"),
    ({9: 1}, RuntimeError, "axpy: no function constant of index 9; it has has_bias"),
    ({"has_bias": 2}, RuntimeError, "has_bias: expected a value of type bool, got 2"),
    ({"tile": 1}, RuntimeError, "tile: expected a value of type int2, got 1"),
    ({"tile": [1, 2, 3]}, RuntimeError, "tile: expected a value of type int2, got 1,2,3"),
    ({"mode": 1.5}, RuntimeError, "mode: expected a value of type int, got 1.5"),
    ({"mode": 1 << 40}, RuntimeError, "mode: expected a value of type int, got 1099511627776"),
    ({"has_bias": True, 0: True}, RuntimeError, "function constant has_bias is given twice"),
    ({"scale": "2"}, TypeError, "scale: expected a number, a bool or a list of them, got str"),
    ({"scale": None}, TypeError, "scale: expected a number, a bool or a list of them, got NoneType"),
    ({"a b": 1}, TypeError, "axpy: expected a function constant's name or index, got 'a b'"),
    ({-1: 1}, TypeError, "axpy: expected a function constant's name or index, got -1"),
])  # fmt: skip
def test_wrong_constants_raise(lib, constants, error, message):
    with pytest.raises(error, match=message):
        lib.axpy.with_constants(constants)


def test_threadgroup_memory(lib, x):
    kernel = lib.reversed.with_constants(scale=1)
    assert kernel.static_thread_group_memory_length == 16
    for memory in ({0: 16, 2: 16}, {2: 32, 0: 1024}):
        y = x.clone()
        kernel(y, threadgroup_memory=memory)
        assert y.tolist() == [6, 4, 2, 0]


@pytest.mark.parametrize(("memory", "message"), [
    (None, r"reversed: threadgroup_memory: expected a size for \[\[threadgroup\(0\)\]\]"),
    (64, r"threadgroup_memory: expected a size for \[\[threadgroup\(2\)\]\]"),
    ([64, 64, 64], r"threadgroup_memory: the kernel has no \[\[threadgroup\(1\)\]\] argument"),
    ({0: 32000, 2: 1000}, "at most 32768 bytes together with the kernel's own 16, got 33016"),
    ({0: 16384, 2: 16384}, "at most 32768 bytes together with the kernel's own 16, got 32784"),
    ({0: 16, 2: 0}, r"expected 1 to 32768 bytes for \[\[threadgroup\(2\)\]\], got 0"),
    ({0: 16, 2: "x"}, r"expected 1 to 32768 bytes for \[\[threadgroup\(2\)\]\], got 'x'"),
])  # fmt: skip
def test_wrong_threadgroup_memory_raises(lib, x, memory, message):
    with pytest.raises(RuntimeError, match=message):
        lib.reversed.with_constants(scale=1)(x, threadgroup_memory=memory)


def test_kernel_without_threadgroup_arguments_accepts_none(lib, y):
    with pytest.raises(RuntimeError, match=r"plain: .*has no \[\[threadgroup\(0\)\]\]"):
        lib.plain(y, threadgroup_memory=16)


BRANCHES = """
#include <metal_stdlib>
using namespace metal;
typedef short tile_t;
namespace sizes {
constant bool is_large [[function_constant(0)]];
constant tile_t rows [[function_constant(1)]], columns = is_function_constant_defined(rows) ? rows * 2 : -1;
}
constant float3 weights [[function_constant(2)]];
constant bfloat narrow [[function_constant(3)]];
constant ulong wide [[function_constant(4)]];
constant half2 halves [[function_constant(5)]];
constant float from_functions = max(weights.x, 2.5) + sqrt(weights.y);
constant float3 thirds = weights / 3.0, more = thirds + float(narrow);
template <int N> float sum_of_powers(float x) {
  float sum = 0;
  for (int i = 0; i < N; ++i) sum += pow(x, float(i) + 1234567.0f);
  return sum;
}
kernel void branches(device float* y) {
  if (sizes::is_large) y[0] = sum_of_powers<100>(y[1]);
  else y[0] = sizes::columns;
}
kernel void types(device float* y) {
  y[0] = from_functions;
  y[1] = more.z;
  y[2] = wide >> 60;
  y[3] = halves.y;
  y[4] = is_function_constant_defined(narrow);
}
"""
not_on_metal = pytest.mark.skipif(mpsx._runtime.driver()["name"] == "metal", reason="Metal specializes kernels itself")


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path))
    return tmp_path


def libraries(folder):
    """Return the paths and contents of the compiled kernels in the cache."""
    found = {path: path.read_bytes() for path in folder.iterdir() if path.suffix in (".so", ".dylib")}
    return found | {path: "".join(text for _, text in unpack(path)).encode() for path in folder.glob("*.ptx")}


@not_on_metal
def test_disabled_branches_are_removed(folder, y):
    lib = mpsx.compile_shader(BRANCHES)
    lib.branches.with_constants(is_large=False)(y)
    assert y[0].item() == -1
    lib.branches.with_constants(is_large=False, rows=-16)(y)
    assert y[0].item() == -32
    magic = (struct.pack("<f", 1234567.0), b"0f4996B438")
    small = libraries(folder)
    assert len(small) == 2 and not any(word in data for data in small.values() for word in magic)
    lib.branches.with_constants(is_large=True)(y)
    (large,) = [data for path, data in libraries(folder).items() if path not in small]
    assert any(word in large for word in magic)


def test_ptx_of_specialized_kernels(folder):
    if not writes_ptx(find_compiler()):
        pytest.skip("the kernel compiler has no backend for NVIDIA GPUs (ziglang's has)")
    target = toolchain.Target("sm_90", "cuda")
    lazy = build.build(BRANCHES, "a.metal", target).lazy
    text = dict(unpack(lazy.library("branches", {0: "false", 1: "16"})))["branches"]
    assert f", {0x42000000};" in text  # stores `columns`, 32.0f
    assert "0f4996B438" not in text
    assert "0f4996B438" in dict(unpack(lazy.library("branches", {0: "true"})))["branches"]
    # NVIDIA's driver runs no initializers, and LLVM does not evaluate the instruction for exp().
    source = BRANCHES.replace("sqrt(", "exp(")
    with pytest.raises(SyntaxError, match=r"a\.metal: error: the compiler cannot evaluate the initializer"):
        build.build(source, "a.metal", target).lazy.library("types", {2: "1, 2, 3", 4: "1"})


@not_on_metal
def test_values_select_the_cached_kernel(folder, y, monkeypatch):
    lib = mpsx.compile_shader(BRANCHES)
    for values in ({"is_large": 0, 1: 3}, {"is_large": False, "rows": 3}, {0: False, "rows": 4}):
        lib.branches.with_constants(values)(y)
    assert len(libraries(folder)) == 2  # the first two are the same kernel
    monkeypatch.setattr(Builder, "build_kernel", None)  # so compiling raises an error
    again = mpsx.compile_shader(BRANCHES).branches
    again.with_constants(is_large=False, rows=4)(y)
    assert y[0].item() == 8
    again.with_constants(is_large=False, rows=3)(y)
    assert y[0].item() == 6
    with pytest.raises(TypeError):
        again.with_constants(is_large=False, rows=5)


def test_types_of_constants(y):
    y = torch.zeros(5, device="mpsx")
    kernel = mpsx.compile_shader(BRANCHES).types
    kernel.with_constants(weights=[1, 4, 9], narrow=1.0, wide=2**64 - 1, halves=(0, 0.1))(y, threads=1)
    assert y.tolist() == [4.5, 4, 15, torch.tensor(0.1).half().item(), 1]
    message = r"types: expected values for the function constants float3 weights \(index 2\), ulong wide \(index 4\)"
    with pytest.raises(RuntimeError, match=message):
        kernel.with_constants(halves=(0, 0))(y)
    for name, value, kind in (("rows", 1 << 15, "short"), ("narrow", [1, 2], "bfloat"), ("weights", 1.5, "float3"),
                              ("wide", -1, "ulong"), ("is_large", 0.5, "bool")):  # fmt: skip
        text = f"{name}: expected a value of type {kind}, got {'1,2' if name == 'narrow' else value}"
        with pytest.raises(RuntimeError, match=f"types: function constant {text}"):
            kernel.with_constants({name: value})


def command(*arguments, driver="host", **environment):
    command_line = [sys.executable, "-m", "mpsx", "shader", *map(str, arguments)]
    done = subprocess.run(command_line, capture_output=True, text=True,
                          check=False, timeout=120, env=os.environ | {"MPSX_DRIVER": driver} | environment)  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_command(tmp_path):
    file = tmp_path / "kernels.metal"
    file.write_text(SOURCE)
    status, out, err = command(file)
    assert (status, err) == (0, "")
    assert "    function constant 5: int mode, optional\n" in out
    assert "    function constant 4: int2 tile\n" in out
    assert "    threadgroup 2: threadgroup int * b\n" in out
    axpy = ["--run", "axpy", "--arg", "zeros:float32:3", "--arg", "ones:float32:3", "--arg", "ones:float32:3"]
    status, out, err = command(file, *axpy, "--constant", "0=1", "--constant", "scale=0.5", "--constant", "tile=0,1")
    assert (status, err, out) == (0, f"{UNCHECKED}\n", "argument 0: float32 3: 1001.5, 1001.5, 1001.5\n")
    status, out, err = command(file, *axpy, "--constant", "scale")
    assert status == 1 and "--constant scale: expected NAME=VALUE" in err


def test_checked_by_simt(simt_library, tmp_path):
    """simt supports function constants, and reports accesses beyond the requested threadgroup memory."""
    file = tmp_path / "kernels.metal"
    file.write_text(SOURCE)
    run = [file, "--run", "reversed", "--arg", "ones:float32:4", "--constant", "scale=2", "--threadgroup-memory", "16"]
    status, out, err = command(*run, "--threadgroup-memory", "2:16", driver="simt")
    assert (status, err, out) == (0, "", "argument 0: float32 4: 5, 4, 3, 2\n")
    status, out, err = command(*run, "--threadgroup-memory", "2:12", driver="simt")
    assert status == 1
    assert "out-of-bounds write of 4 bytes at byte 12 of threadgroup memory" in err
    assert "which has 12 bytes" in err


@pytest.mark.skipif(not shutil.which("clang++-19"), reason="needs clang 19, which emits other reads than zig's clang")
def test_checked_by_simt_with_an_older_clang(simt_library, tmp_path):
    file = tmp_path / "kernels.metal"
    file.write_text(SOURCE)
    run = [file, "--run", "axpy", "--arg", "zeros:float32:2", "--arg", "ones:float32:2", "--arg", "ones:float32:2"]
    run += ["--constant", "0=1", "--constant", "scale=0.5", "--constant", "tile=0,1"]
    status, out, err = command(*run, driver="simt", MPSX_KERNEL_CXX="clang++-19")
    assert (status, err, out) == (0, "", "argument 0: float32 2: 1001.5, 1001.5\n")
