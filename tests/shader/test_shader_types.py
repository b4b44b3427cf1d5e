"""compile_shader warns once per kernel if a tensor's dtype does not match the parameter's element type. Packed, viewed
and reinterpreted elements do not trigger the warning."""

from __future__ import annotations

import warnings

import pytest
import torch

import mpsx
from mpsx.shader import library

pytestmark = pytest.mark.skipif(mpsx.driver()["name"] == "metal", reason="Metal does not report parameter types")
INDEX = "uint i [[thread_position_in_grid]]"
SOURCE = f"""
#include <metal_stdlib>
#include <c10/metal/utils.h>
#include <c10/metal/atomic.h>
using namespace metal;
using number = half;
typedef const float weight;
template <typename T> using same = T;
struct Pair {{ float a; int b; }};
enum Kind : int {{ none }};

kernel void plain(device float* x, {INDEX}) {{}}
kernel void const_first(const device float* x, constant half *y, device const bfloat* z, {INDEX}) {{}}
kernel void wide(device float4* x, device packed_half3* y, device uchar4* z, {INDEX}) {{}}
kernel void aliased(device number* x, device weight* y, {INDEX}) {{}}
kernel void integers(device int* x, device ulong* y, device bool* z, {INDEX}) {{}}
kernel void words(device uint* x, device ushort* y, device uint2* z, {INDEX}) {{}}
kernel void raw(device uchar* x, device void* y, device Pair* z, device int8_t* w, {INDEX}) {{}}
kernel void atomics(device atomic_uint* x, device atomic<int>* y, device atomic_float* z,
                    device c10::metal::AtomicType_t<half>* w, {INDEX}) {{}}
kernel void complexes(device float2* x, device half2* y, {INDEX}) {{}}
kernel void values(constant uint& n, constant float& a, constant long& m, device float* x, {INDEX}) {{}}
kernel void unknown(device same<float>* x, device Kind* y, device c10::metal::opmath_t<half>* z, {INDEX}) {{}}
template <typename T, typename U = T, int N = 4>
kernel void general(device T* x, device U* y, device vec<T, N>* z, {INDEX}) {{}}
template [[host_name("general_half")]] kernel void general<half>(device half*, device half*, device half4*, uint);
template [[host_name("general_two")]] kernel decltype(general<float, int, 2>) general<float, int, 2>;
kernel void one_of_two(device float* x [[buffer(1)]], device half* y [[buffer(0)]], {INDEX}) {{}}
"""
FLOAT, HALF, BFLOAT, BOOL = torch.float32, torch.float16, torch.bfloat16, torch.bool
INT, LONG = torch.int32, torch.int64
UCHAR, CHAR, SHORT = torch.uint8, torch.int8, torch.int16


@pytest.fixture(scope="module")
def source() -> library.ShaderLibrary:
    return mpsx.compile_shader(SOURCE)


def tensors(dtypes: tuple) -> list[torch.Tensor]:
    return [torch.empty(64, dtype=dtype, device="mpsx") for dtype in dtypes]


def warnings_of(kernel: object, *arguments: object) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel(*arguments, threads=1)
    return "\n".join(str(warning.message) for warning in caught)


RIGHT = [
    ("plain", FLOAT), ("plain", UCHAR), ("plain", torch.float8_e4m3fn), ("plain", torch.complex64),
    ("const_first", FLOAT, HALF, BFLOAT),
    ("wide", FLOAT, HALF, INT),
    ("aliased", HALF, FLOAT),
    ("integers", INT, LONG, BOOL), ("integers", torch.uint32, torch.uint64, UCHAR), ("integers", INT, LONG, CHAR),
    ("words", FLOAT, BFLOAT, LONG), ("words", INT, SHORT, torch.float64), ("words", torch.uint32, HALF, FLOAT),
    ("raw", INT, FLOAT, LONG, BOOL),
    ("atomics", INT, INT, FLOAT, HALF), ("atomics", HALF, torch.uint32, FLOAT, FLOAT),
    ("atomics", FLOAT, FLOAT, FLOAT, INT),
    ("complexes", torch.complex64, torch.complex32), ("complexes", FLOAT, INT),
    ("values", LONG, FLOAT, LONG, FLOAT),
    ("unknown", HALF, FLOAT, LONG),
    ("general_half", HALF, HALF, HALF), ("general_two", FLOAT, INT, FLOAT),
    ("one_of_two", HALF, FLOAT),
]  # fmt: skip
WRONG = [
    (("plain", HALF), ["x"]), (("plain", INT), ["x"]), (("plain", torch.float64), ["x"]), (("plain", BOOL), ["x"]),
    (("plain", BFLOAT), ["x"]), (("plain", CHAR), ["x"]), (("plain", torch.complex128), ["x"]),
    (("const_first", HALF, BFLOAT, HALF), ["x", "y", "z"]),
    (("wide", HALF, FLOAT, INT), ["x", "y"]),
    (("aliased", FLOAT, HALF), ["x", "y"]),
    (("integers", LONG, INT, INT), ["x", "y", "z"]), (("integers", FLOAT, FLOAT, FLOAT), ["x", "y", "z"]),
    (("words", HALF, FLOAT, SHORT), ["x", "y", "z"]),
    (("atomics", LONG, LONG, INT, FLOAT), ["y", "z"]),
    (("complexes", torch.complex32, torch.complex64), ["x", "y"]),
    (("values", HALF, HALF, INT, FLOAT), ["n", "a", "m"]),
    (("general_half", FLOAT, FLOAT, FLOAT), ["x", "y", "z"]), (("general_two", HALF, HALF, HALF), ["x", "y", "z"]),
    (("one_of_two", FLOAT, HALF), ["y", "x"]),
]  # fmt: skip


def fresh(source: library.ShaderLibrary, name: str) -> object:
    """Return a new kernel object that has not warned yet."""
    inner = source.__dict__["__shader"]
    if isinstance(inner, library.LazyShader):
        return mpsx.compile_shader(SOURCE).__getattr__(name)
    return inner.kernel(name, source.__dict__["__kernels"][name])


@pytest.mark.parametrize(("name", "dtypes"), [(name, dtypes) for name, *dtypes in RIGHT])
def test_compatible_dtypes(source, name: str, dtypes: list) -> None:
    assert warnings_of(getattr(source, name), *tensors(dtypes)) == ""


@pytest.mark.parametrize(("call", "parameters"), WRONG)
def test_incompatible_dtypes(call: tuple, parameters: list[str]) -> None:
    name, *dtypes = call
    message = warnings_of(getattr(mpsx.compile_shader(SOURCE), name), *tensors(dtypes))
    assert message.startswith(f"{name}: ")
    for parameter in "xyzwnam":
        assert (f"parameter '{parameter}' " in message) == (parameter in parameters), message
    assert sum(str(dtype) in message for dtype in dtypes) >= 1


def test_warning_names_kernel_parameter_and_types() -> None:
    lib = mpsx.compile_shader(f"kernel void scale(device float* out, {INDEX}) {{ out[i] *= 2; }}")
    x = torch.ones(4, dtype=HALF, device="mpsx")
    with pytest.warns(UserWarning) as caught:
        lib.scale(x, threads=2)
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith("scale: parameter 'out' (buffer 0) is 'device float * out' with elements of type float, but "
                           "got a tensor of torch.float16.")  # fmt: skip
    assert warning.filename == __file__


def test_warns_once_per_kernel() -> None:
    lib = mpsx.compile_shader(f"constant int n [[function_constant(0)]];"
                              f"kernel void first(device float* x, {INDEX}) "
                              f"{{ x[i] = is_function_constant_defined(n); }}"
                              f"kernel void second(device float* x, {INDEX}) {{ x[i] = 2; }}")  # fmt: skip
    x, y = torch.ones(4, dtype=HALF, device="mpsx"), torch.ones(4, device="mpsx")
    assert warnings_of(lib.first, y) == ""
    assert "first: " in warnings_of(lib.first, x)
    for tensor in (x, y, x):
        assert warnings_of(lib.first, tensor) == ""
    assert warnings_of(lib.first.with_constants(n=3), x) == ""
    assert "second: " in warnings_of(lib.second, x)


def test_numbers_and_cpu_scalars() -> None:
    lib = mpsx.compile_shader(f"kernel void f(device float* x, constant float& a, constant uint& n, {INDEX}) {{}}")
    x = torch.ones(4, device="mpsx")
    assert warnings_of(lib.f, x, 2.0, 3) == ""
    assert warnings_of(lib.f, x, torch.tensor(2.0), torch.tensor(3)) == ""
    assert "parameter 'a'" in warnings_of(lib.f, x, torch.tensor(2.0, dtype=HALF), 3)


def test_inductor_kernels_do_not_warn() -> None:
    """Use the parameter types that Inductor's Metal backend declares for each dtype."""
    names = {BOOL: "bool", CHAR: "char", SHORT: "short", INT: "int", LONG: "long", UCHAR: "uchar", FLOAT: "float",
             HALF: "half", BFLOAT: "bfloat"}  # fmt: skip
    for dtype, name in names.items():
        lib = mpsx.compile_shader(f"""#include <c10/metal/utils.h>
kernel void generated_kernel(device {name}* out_ptr0, constant {name}* in_ptr0, constant long& ks0,
                             uint xindex [[thread_position_in_grid]]) {{ out_ptr0[xindex] = in_ptr0[xindex]; }}""")
        assert warnings_of(lib.generated_kernel, *tensors((dtype, dtype)), 4) == ""
