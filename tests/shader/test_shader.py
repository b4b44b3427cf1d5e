"""mpsx.compile_shader: kernel calls, arguments and errors. test_shader_cache.py covers caching."""

import gc

import pytest
import torch

import mpsx

AXPY = """
#include <metal_stdlib>
using namespace metal;
kernel void axpy(device float* y [[buffer(0)]], constant float* x [[buffer(1)]], constant float& a [[buffer(2)]],
                 uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
template <typename T>
kernel void fill(device T* out, constant T& value, uint i [[thread_position_in_grid]]) { out[i] = value; }
template [[host_name("fill_float")]] kernel void fill<float>(device float*, constant float&, uint);
template [[host_name("fill_half")]] kernel decltype(fill<half>) fill<half>;
template [[host_name("fill_bfloat")]] kernel decltype(fill<bfloat>) fill<bfloat>;
template [[host_name("fill_long")]] kernel decltype(fill<long>) fill<long>;
template [[host_name("fill_int")]] kernel decltype(fill<int>) fill<int>;
template [[host_name("fill_short")]] kernel decltype(fill<short>) fill<short>;
template [[host_name("fill_char")]] kernel decltype(fill<char>) fill<char>;
template [[host_name("fill_uchar")]] kernel decltype(fill<uchar>) fill<uchar>;
template [[host_name("fill_ushort")]] kernel decltype(fill<ushort>) fill<ushort>;
template [[host_name("fill_uint")]] kernel decltype(fill<uint>) fill<uint>;
kernel void positions(device int* out, uint2 p [[thread_position_in_grid]], uint2 n [[threads_per_grid]]) {
  out[p.y * n.x + p.x] = int(1000 * p.y + p.x);
}
kernel void weigh(device float* out, constant float* w, constant int2& shape, uint i [[thread_position_in_grid]]) {
  out[i] = w[i % 3] * shape.x + shape.y;
}
"""


@pytest.fixture(scope="module")
def lib():
    return mpsx.compile_shader(AXPY)


def test_dir_lists_kernels(lib):
    fills = [f"fill_{t}" for t in "bfloat char float half int long short uchar uint ushort".split()]
    assert dir(lib) == ["axpy", *fills, "positions", "weigh"]
    assert lib.axpy is lib.axpy
    assert repr(lib.axpy) == "<mpsx kernel axpy>"
    with pytest.raises(AttributeError, match="no kernel named 'saxpy'; it has axpy, "):
        lib.saxpy  # noqa: B018


def test_call(lib):
    y, x = torch.rand(1000), torch.rand(1000)
    on = y.to("mpsx")
    with mpsx.profiler.launch_log() as log:
        lib.axpy(on, x.to("mpsx"), 2.5)
    assert log == ["kernel:axpy"]
    torch.testing.assert_close(on.cpu(), y + 2.5 * x)


def test_fp_contract_off():
    """Without the pragma, Metal's compiler may fuse multiplies and adds. The CPU drivers never fuse them."""
    source = "kernel void f(device float* x, uint i [[thread_position_in_grid]]) { x[i] = x[i] * x[i] - 1.0f; }"
    x = torch.full((100,), 1 + 2.0**-12, device="mpsx")
    mpsx.compile_shader("#pragma METAL fp contract(off)\n" + source).f(x)
    assert x.tolist() == [2.0**-11] * 100  # a fused multiply-add would give a result larger by 2^-24


def test_threads_and_offsets(lib):
    y = torch.zeros(10, device="mpsx")
    x = torch.arange(10.0).to("mpsx")
    lib.axpy(y[2:], x[3:], 1.0, threads=4)
    assert y.tolist() == [0, 0, 3, 4, 5, 6, 0, 0, 0, 0]
    lib.axpy(y, x, 1.0, threads=0)
    lib.axpy(y[:0], x, 1.0)
    assert y.tolist() == [0, 0, 3, 4, 5, 6, 0, 0, 0, 0]


@pytest.mark.parametrize("group", [None, (1, 1), (4, 2), [32, 4], (1024, 1)])
def test_two_dimensions(lib, group):
    out = torch.zeros(7, 45, dtype=torch.int32, device="mpsx")
    lib.positions(out, threads=(45, 7), group_size=group)
    assert torch.equal(out.cpu(), (1000 * torch.arange(7)[:, None] + torch.arange(45)[None]).int())


@pytest.mark.parametrize(("kernel", "dtype", "value", "cast"), [
    ("fill_float", torch.float32, 1.1, None),
    ("fill_float", torch.float32, 3, "fp32"),
    ("fill_long", torch.int64, -(1 << 60), None),
    ("fill_int", torch.int32, -5, None),  # the kernel reads the lower half of an int64
    ("fill_half", torch.float16, 1.1, "fp16"),
    ("fill_half", torch.float16, 1e-6, {1: "fp16"}),
    ("fill_half", torch.float16, 65519.0, "fp16"),
    ("fill_half", torch.float16, 1e9, "fp16"),
    ("fill_half", torch.float16, 7, "fp16"),
    ("fill_bfloat", torch.bfloat16, 3.14159, "bf16"),
    ("fill_bfloat", torch.bfloat16, -1e-39, "bf16"),
    ("fill_int", torch.int32, 7, "int32"),
    ("fill_int", torch.int32, -7.9, "int32"),
    ("fill_short", torch.int16, -300, {1: "int16"}),
    ("fill_char", torch.int8, -3, "int8"),
    ("fill_uchar", torch.uint8, 200, "uint8"),
    ("fill_ushort", torch.uint16, 60000, "uint16"),
    ("fill_uint", torch.uint32, 4000000000, "uint32"),
    ("fill_long", torch.int64, 12, {0: "fp16"}),
])  # fmt: skip
def test_scalars(lib, kernel, dtype, value, cast):
    out = torch.empty(33, dtype=dtype, device="mpsx")
    getattr(lib, kernel)(out, value, arg_casts=cast)
    exact = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)
    if dtype.is_floating_point and isinstance(value, float):
        exact = exact.float()  # Python floats are passed as 32-bit floats, as in torch.mps
    expected = exact.to(dtype)
    assert (out.cpu() == expected).all() or (expected.isinf() and out.cpu().isinf().all())


def test_lists_and_number_types(lib):
    out = torch.zeros(5, device="mpsx")
    lib.weigh(out, [0.5, 1.5, 2.5], (10, 3), arg_casts={2: "int32"})
    assert out.tolist() == [8.0, 18.0, 28.0, 8.0, 18.0]
    numpy = pytest.importorskip("numpy")
    lib.axpy(out.zero_(), torch.ones(5, device="mpsx"), numpy.float32(2))
    assert out.tolist() == [2.0] * 5
    lib.fill_long(i := torch.zeros(2, dtype=torch.int64, device="mpsx"), True)
    assert i.tolist() == [1, 1]


def test_properties(lib):
    assert lib.axpy.max_threads_per_threadgroup == 1024
    assert lib.axpy.thread_execution_width == 32
    assert lib.axpy.static_thread_group_memory_length == 0
    source = "[[max_total_threads_per_threadgroup(64)]] kernel void k(device float* x) { x[0] = 1; }"
    limited = mpsx.compile_shader(source)
    assert limited.k.max_threads_per_threadgroup == 64


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda lib, x: lib.axpy(x.cpu(), x, 1.0), RuntimeError,
     r"axpy: argument 0: expected a tensor on mpsx, got one on cpu; move it with tensor.to\('mpsx'\), or pass "),
    (lambda lib, x: lib.axpy(x, x.cpu(), 1.0), RuntimeError, "axpy: argument 1: expected a tensor on mpsx"),
    (lambda lib, x: lib.axpy(x, x.to("meta"), 1.0), RuntimeError, "argument 1: expected a tensor on mpsx, got one"),
    (lambda lib, x: lib.axpy(x, x, "2"), RuntimeError, "argument 2: expected a tensor on mpsx, a number or a li"),
    (lambda lib, x: lib.axpy(x, x, None), RuntimeError, "axpy: argument 2: .*got NoneType"),
    (lambda lib, x: lib.axpy(x, x, []), RuntimeError, "axpy: argument 2: expected at least one number"),
    (lambda lib, x: lib.axpy(x, [1.0, "a"], 2.0), RuntimeError, "axpy: argument 1: cannot pass 'a' as fp32"),
    (lambda lib, x: lib.axpy(x, [0.0] * 2000, 2.0), RuntimeError, "argument 1: .*4096 bytes, got 2000 numbers of 4"),
    (lambda lib, x: lib.axpy(x, x, 1 << 70), RuntimeError, "axpy: argument 2: .*more than 64 bits"),
    (lambda lib, x: lib.axpy(x, x), RuntimeError, "axpy: expected 3 buffers, got 2"),
    (lambda lib, x: lib.axpy(*[x] * 32), RuntimeError, "axpy: expected at most 31 arguments, got 32"),
    (lambda lib, x: lib.axpy(1.0, 2.0, 3.0), RuntimeError, "axpy: threads: expected a grid size, because no arg"),
    (lambda lib, x: lib.axpy(x, x, 1.0, threads=(1, 2, 3, 4)), RuntimeError, "threads: expected one to three numbers"),
    (lambda lib, x: lib.axpy(x, x, 1.0, threads=-1), RuntimeError, "axpy: threads: expected integers from 0"),
    (lambda lib, x: lib.axpy(x, x, 1.0, threads=2.5), RuntimeError, "axpy: threads: expected integers from 0"),
    (lambda lib, x: lib.axpy(x, x, 1.0, threads=4, group_size=(2, 2)), RuntimeError, r"group_size: .*\(1\), got 2"),
    (lambda lib, x: lib.axpy(x, x, 1.0, group_size=1025), ValueError, "axpy: group_size: expected 1 to 1024 threads"),
    (lambda lib, x: lib.axpy(x, x, 1.0, threads=(4, 4), group_size=(64, 32)), ValueError, "expected 1 to 1024 threads"),
    (lambda lib, x: lib.axpy(x, x, 1.0, arg_casts="fp64"), RuntimeError, "argument 2: arg_casts: expected one of"),
    (lambda lib, x: lib.axpy(x, x, 1.0, arg_casts=3), RuntimeError, "axpy: arg_casts: expected a type's name or"),
    (lambda lib, x: lib.axpy(x, x, 1.0, error_buf_idx=-2), ValueError, "axpy: error_buf_idx: expected a buffer index"),
    (lambda lib, x: lib.axpy(x, x, 1.0, error_buf_idx=31), RuntimeError, "axpy: expected error_buf_idx below 31"),
])  # fmt: skip
def test_errors(lib, call, error, message):
    with pytest.raises(error, match=message):
        call(lib, torch.zeros(8, device="mpsx"))


def test_syntax_error_has_a_line_number():
    with pytest.raises(SyntaxError, match=r"program_source:3:\d+: error: .*undeclared.*'nope'"):
        mpsx.compile_shader("#include <metal_stdlib>\nkernel void f(device float* x) {\n  x[0] = nope;\n}\n")
    with pytest.raises(SyntaxError, match=r"program_source:2:10: .*missing.h"):
        mpsx.compile_shader("\n#include <missing.h>\n")
    with pytest.raises(SyntaxError, match=r"program_source:1"):
        mpsx.compile_shader("kernel int f(device float* x) { return 0; }")
    with pytest.raises(TypeError, match="expected Metal source as a str, got bytes"):
        mpsx.compile_shader(b"")


@pytest.fixture
def source_is_translated():
    if mpsx._runtime.driver()["name"] == "metal":
        pytest.skip("Metal compiles the source itself, with its own error messages, and supports textures")


@pytest.mark.parametrize(("source", "name"), [
    ("float f(float); kernel void k(device float* x) { x[0] = f(1); }", "f"),
    ("namespace n { struct S { float get() const; }; }\nkernel void k(device float* x) { x[0] = n::S().get(); }",
     "n::S::get"),
])  # fmt: skip
def test_undefined_functions(source_is_translated, source, name):
    with pytest.raises(SyntaxError, match=rf"^program_source: error: function '{name}' is called, but not defined$"):
        mpsx.compile_shader(source)


@pytest.mark.parametrize("source", [
    "float4 f(texture2d<float> t) { return 1; }", "struct S { depth2d<float> t [[id(0)]]; };",
    "constexpr sampler s(0);",
])  # fmt: skip
def test_textures_raise(source_is_translated, source):
    with pytest.raises(SyntaxError, match=r"^program_source:1:\d+: error: '\w+' is not supported: kernels take"):
        mpsx.compile_shader(source + "\nkernel void k(device float* x) { x[0] = 1; }")


def test_absent_kernel_raises_the_error_of_torch(lib):
    with pytest.raises(RuntimeError, match="Failed to create function state object for: absent"):
        lib.absent  # noqa: B018
    assert not hasattr(lib, "absent")


def test_cpu_tensors_of_one_element_are_scalars(lib):
    x = torch.arange(5.0).to("mpsx")
    lib.axpy(y := torch.zeros(5, device="mpsx"), x, torch.tensor(2.0))
    assert y.tolist() == [0, 2, 4, 6, 8]
    for name, dtype in (("half", torch.float16), ("bfloat", torch.bfloat16), ("long", torch.int64),
                        ("char", torch.int8)):  # fmt: skip
        getattr(lib, f"fill_{name}")(out := torch.zeros(3, dtype=dtype, device="mpsx"), torch.tensor(-7, dtype=dtype))
        assert out.tolist() == [-7] * 3


def test_lists_of_tensors_are_pointer_arrays():
    lib = mpsx.compile_shader("""
        #include <metal_stdlib>
        using namespace metal;
        struct pointers { device float* at[3]; };
        kernel void sum(device float* out, constant pointers& in, constant array<device float*, 2>& more,
                        uint i [[thread_position_in_grid]]) {
          out[i] = in.at[0][i] + in.at[1][i] * in.at[2][i] + more[1][0];
          in.at[0][i] = -1;
        }""")
    if mpsx._runtime.driver()["name"] == "metal":
        pytest.skip("a GPU address is not an address in this process")
    a, b, c = (torch.rand(7) for _ in range(3))
    moved = [x.to("mpsx") for x in (a, b, c)]
    out = torch.zeros(7, device="mpsx")
    lib.sum(out, moved, (moved[0], moved[1][3:]))
    torch.testing.assert_close(out.cpu(), a + b * c + b[3])
    assert moved[0].tolist() == [-1.0] * 7
    with pytest.raises(RuntimeError, match="argument 1: expected a list of numbers, or a list of tensors on mpsx"):
        lib.sum(out, [moved[0], a], moved)


@pytest.mark.parametrize("enabled", [True, False])
def test_compiling_restores_garbage_collection(enabled, tmp_path, monkeypatch):
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path))
    (gc.enable if enabled else gc.disable)()
    try:
        mpsx.compile_shader("kernel void f(device float* y) { y[0] = 1; }")
        assert gc.isenabled() == enabled
        with pytest.raises(SyntaxError):
            mpsx.compile_shader("kernel void f(device float* y) { y[0] = 1; ")
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
