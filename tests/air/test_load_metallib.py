"""mpsx.load_metallib: run kernels from metallibs on the current driver. The test modules are LLVM IR in AIR's
dialect."""

import argparse
import re
import subprocess
import sys

import pytest
import torch
from air_modules import metallib, text_of

import mpsx
from mpsx.cli import metallib as command
from mpsx.cli import shader

pytestmark = pytest.mark.skipif(mpsx.driver()["name"] not in ("host", "simt"), reason="needs host or simt")


@pytest.fixture(scope="module")
def lib():
    return mpsx.load_metallib(metallib(*(text_of(m) for m in ("axpy", "reduce", "constants", "integers", "matmul"))))


def test_interface(lib, tmp_path):
    assert dir(lib) == ["axpy", "integers", "matmul", "reduce", "scaled"]
    assert repr(lib.axpy) == "<mpsx kernel axpy>"
    assert lib.axpy is lib.axpy
    assert not hasattr(lib, "saxpy")
    (tmp_path / "my.metallib").write_bytes(metallib(text_of("axpy")))
    assert dir(mpsx.load_metallib(tmp_path / "my.metallib")) == ["axpy"]
    with pytest.raises(TypeError, match="expected a path or bytes, got int"):
        mpsx.load_metallib(5)
    with pytest.raises(FileNotFoundError):
        mpsx.load_metallib("missing.metallib")
    with pytest.raises(ValueError, match="expected a metallib"):
        mpsx.load_metallib(b"MTLB")


def test_elementwise(lib):
    x, y = torch.randn(1000, dtype=torch.bfloat16), torch.randn(1000)
    on = y.to("mpsx")
    with mpsx.profiler.launch_log() as log:
        lib.axpy(on, x.to("mpsx"), 2.5)
    assert log == ["kernel:axpy"]
    torch.testing.assert_close(on.cpu(), y + 2.5 * x.float(), rtol=0, atol=0)


def test_threadgroups(lib):
    if lib.reduce.max_threads_per_threadgroup == 1:
        pytest.skip("this driver runs one thread per threadgroup")
    assert lib.reduce.max_threads_per_threadgroup == 256
    assert lib.reduce.static_thread_group_memory_length == 256
    x = torch.randint(-100, 100, (1000,)).float()
    out = torch.zeros(4, device="mpsx")
    lib.reduce(out, x.to("mpsx"), threads=1000, group_size=250, threadgroup_memory=16)
    torch.testing.assert_close(out.cpu(), x.reshape(4, 250).sum(1), rtol=0, atol=0)


def test_function_constants(lib):
    bias = torch.randn(10)
    out = torch.zeros(10, device="mpsx")
    with pytest.raises(RuntimeError, match=r"bool use_bias \(index 3\), float2 scale \(index 5\)"):
        lib.scaled(out, None, bias.to("mpsx"))
    lib.scaled.with_constants(use_bias=True, scale=[2.0, 0.5])(out, None, bias.to("mpsx"))
    torch.testing.assert_close(out.cpu(), (bias * 2 + 0.5) * 10)
    lib.scaled.with_constants({3: False, 5: [3.0, 1.0]})(out)
    torch.testing.assert_close(out.cpu(), torch.full((10,), 4.0))
    partly = lib.scaled.with_constants(use_bias=False)
    with pytest.raises(RuntimeError, match=r"expected values for the function constants float2 scale \(index 5\);"):
        partly(out)
    partly.with_constants(scale=[5.0, -7.0])(out)
    torch.testing.assert_close(out.cpu(), torch.full((10,), -2.0))
    for wrong, message in (({"scale": [1.0]}, "scale: expected a value of type float2, got 1.0"),
                           ({"scale": [1.0, 2.0], "bias": 1}, "no function constant named bias"),
                           ({"scale": [1.0, 2.0], "use_bias": 2}, "use_bias: expected a value of type bool, got 2"),
                           ({"scale": [1.0, 2.0], 3: 1}, "use_bias is given twice")):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            partly.with_constants(wrong)


@pytest.mark.parametrize(
    "type_name, text, dtype, values",
    [
        ("bool", "1", torch.uint8, [1]), ("char", "-3", torch.int8, [-3]), ("int", "-5", torch.int32, [-5]),
        ("ushort2", "1,65535", torch.uint16, [1, 65535]), ("ulong", str(2**64 - 1), torch.uint64, [2**64 - 1]),
        ("float", "1e+300", torch.float32, [float("inf")]), ("half2", "0.1,-inf", torch.float16, [0.1, -float("inf")]),
        ("bfloat", "3", torch.bfloat16, [3.0]), ("float", "one", torch.float32, [0.0]), ("int", "", torch.int32, [0]),
    ],
)  # fmt: skip
def test_values_of_constants(type_name, text, dtype, values):
    from mpsx.air import constants
    from mpsx.air.kernel import Constant, Kernel

    constant = Constant("c", type_name, 7, "symbol", True)
    kernel = Kernel("k", "k", constants=[constant])
    for key in ("c", 7):
        found = constants.definitions(kernel, {key: text})["symbol"]
        data = bytes.fromhex(re.fullmatch(r'\[32 x i8\] c"(.*)"', found)[1].replace("\\", ""))
        bits = torch.frombuffer(bytearray(data), dtype=dtype)[: len(values)]
        assert bits.tolist() == torch.tensor(values, dtype=dtype).tolist()


def test_integers(lib):
    x = torch.tensor([1.9, -1.9, 3e9, -3e9, float("nan"), float("inf"), 300.0, -2147483648.0])
    divisors = torch.tensor([2, 0, 7, -1, 3, 0, 0, -1], dtype=torch.int32)
    out, count = torch.zeros(8, 4, dtype=torch.int32, device="mpsx"), torch.zeros(2, dtype=torch.int32, device="mpsx")
    lib.integers(out, x.to("mpsx"), divisors.to("mpsx"), count, threads=(8, 1))
    low, high = -(2**31), 2**31 - 1
    assert out.cpu().tolist() == [
        [1, 1, 0, 1], [-1, 0, -1, 0], [high, 255, high // 7, high % 7], [low + 1, 0, low, 0],
        [0, 0, 0, 0], [high, 255, high, 0], [300, 255, 300, 0], [low + 1, 0, low, 0],
    ]  # fmt: skip
    assert count.cpu().tolist() == [8, 8]


def test_simdgroup_matrix(lib):
    a, b = (torch.randint(-8, 8, (8, 8)).half() for _ in range(2))
    c = torch.zeros(8, 8, device="mpsx")
    lib.matmul(a.to("mpsx"), b.to("mpsx"), c, threads=32, group_size=32)
    torch.testing.assert_close(c.cpu(), a.float() @ b.float().T + 1, rtol=0, atol=0)


def test_kernel_with_textures():
    buffer = '!"air.buffer", !"air.location_index", i32 1'
    texture = text_of("axpy").replace(buffer, buffer.replace("buffer", "texture"))
    library = mpsx.load_metallib(metallib(texture.replace("axpy", "sample"), text_of("axpy")))
    with pytest.raises(RuntimeError, match="kernel 'sample' is not supported: argument 'x' of kind texture"):
        library.sample  # noqa: B018
    assert repr(library.axpy) == "<mpsx kernel axpy>"


def test_unknown_intrinsic():
    text = re.sub(r"llvm\.fmuladd", "air.frobnicate", text_of("axpy"))
    library = mpsx.load_metallib(metallib(text))
    with pytest.raises(RuntimeError, match=r"kernel 'axpy' is not supported: intrinsic air\.frobnicate\.f32"):
        library.axpy  # noqa: B018


def test_damaged_bitcode():
    from mpsx.air.metallib import Function, write

    library = mpsx.load_metallib(write([Function("broken", "kernel", (2, 6), (3, 1), b"BC\xc0\xde" + bytes(60))]))
    with pytest.raises(RuntimeError, match="kernel 'broken' is not supported: expected LLVM bitcode"):
        library.broken  # noqa: B018


def test_listing(tmp_path, capsys):
    """`python -m mpsx shader file.metallib` lists arguments and constants, and says why a kernel is not supported."""
    unknown = text_of("axpy").replace("llvm.fmuladd", "air.frobnicate").replace("axpy", "unknown")
    path = tmp_path / "some.metallib"
    path.write_bytes(metallib(text_of("constants"), unknown, text_of("reduce")))
    arguments = argparse.Namespace(file=path, match="[su]*", include=[], profile=None)
    assert command.is_metallib(path)
    command.print_listing(arguments, command.load(arguments), shader.listing)
    driver = mpsx.driver()["name"]
    assert capsys.readouterr().out.splitlines() == [
        f"scaled    {path}", "    buffer 0: device float* out", "    buffer 2: device float* bias",
        "    buffer 1: unused", "    function constant 3: bool use_bias", "    function constant 5: float2 scale",
        "unknown    not supported: intrinsic air.frobnicate.f32", f"{path}: 1 of 2 kernels run on {driver}",
        "    1 not supported: intrinsic air.frobnicate.f32",
    ]  # fmt: skip


def test_command_runs_a_kernel(tmp_path):
    path = tmp_path / "some.metallib"
    path.write_bytes(metallib(text_of("constants")))
    command = [sys.executable, "-m", "mpsx", "shader", path, "--run", "scaled"]
    command += ["--constant", "use_bias=1", "--constant", "scale=2,1"]
    command += ["--arg", "zeros:float32:4", "--arg", "0", "--arg", "ones:float32:4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "argument 0: float32 4: 30, 30, 30, 30\n", done.stderr
