"""The translator: command line, error messages, forms of instantiation, dependencies and flattening."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msl.compiler import find_compiler
from msl.flatten import units
from msl.source import MslError

ROOT = Path(__file__).resolve().parents[2]


def tool(*args):
    run = subprocess.run([sys.executable, str(ROOT / "tools" / "msl.py"), *map(str, args)], check=False,
                         capture_output=True, text=True)
    return run.returncode, run.stdout, run.stderr


@pytest.fixture
def translate(tmp_path, msl):
    """Return a function that runs `msl.py translate` on a snippet. It returns the status, the errors and the C++
    code."""

    def run(source, *options):
        path, out = tmp_path / "k.metal", tmp_path / "k.cpp"
        path.write_text(source)
        status, _, errors = tool("translate", path, "-o", out, "-I", ROOT / "metal", "--mode", "wide",
                                 "--preprocessor", find_compiler().preprocessor(), *options)
        return status, errors.replace(f"{tmp_path}/", ""), out.read_text() if out.exists() else ""

    return run


BAD = {
    "unknown kernel": ('template [[host_name("a")]] kernel decltype(f<int>) f<int>;', "k.metal:1:53",
                       "no kernel named 'f'"),
    "unbalanced": ("kernel void f() {\n  (\n}", "k.metal:3:1", "unmatched '}'"),
    "not void": ("kernel int f() { return 1; }", "k.metal:1:12", "must return void"),
    "no attribute": ("\nkernel void f(uint n) {}", "k.metal:2:15", "kernel 'f', parameter 'uint n': expected"),
    "texture": ("kernel void f(texture2d<float> t [[texture(0)]]) {}", "k.metal:1:15", "texture2d is not supported"),
    "buffer twice": ("kernel void f(device int* a [[buffer(1)]],\n              device int* b [[buffer(1)]]) {}",
                     "k.metal:2:15", "buffer(1) is used twice"),
    "buffer number": ("kernel void f(device int* a [[buffer(31)]]) {}", "k.metal:1:15", "expected a number below 31"),
    "too many buffers": (f"kernel void f({', '.join(f'device int* a{i}' for i in range(40))}) {{}}", "k.metal:1:13",
                         "kernel 'f': expected at most 31 buffers, got 40"),
    "host name twice": ('[[host_name("x")]] kernel void f() {}\n[[host_name("x")]] kernel void g() {}', "k.metal:2:",
                        'host_name("x") is already used, at k.metal:1:'),
    "no host name": ("template <typename T> kernel void f(device T* x) {}\ntemplate kernel void f<int>(device int* x);",
                     "k.metal:2:1", "without [[host_name"),
    "defined twice": ("kernel void f() {}\nkernel void f(device int* x) {}", "k.metal:2:13", "'f' is defined twice"),
    "double": ("kernel void f(device float* x) { double y = x[0]; }", "k.metal:1:34", "Metal has no double"),
    "function constant": ("constant bool b [[function_constant(n)]];\nkernel void f() {}", "k.metal:1:19",
                          "function_constant(n): expected a number"),
    "swizzle": ("kernel void f(device float4* x) { x[0].xy = x[0].xy.yz; }", "k.metal:1:53", "2 components"),
}


@pytest.mark.parametrize("case", BAD)
def test_message(translate, case):
    source, location, text = BAD[case]
    status, errors, out = translate(source)
    assert status == 1
    assert errors.startswith(location), errors
    assert ": error: " in errors
    assert text in errors
    assert not out


def test_message_inside_an_include(tmp_path, translate):
    (tmp_path / "part.h").write_text("\n\nkernel int f() {}\n")
    assert translate('#include "part.h"\n')[1].startswith("part.h:3:12: error:")


def test_compiler_errors_name_the_metal_file(msl):
    with pytest.raises(MslError, match=r"snippet\.metal:3:\d+: error: .*nothing"):
        msl("kernel void f(device float* out [[buffer(0)]]) {\n  float x = 1;\n  out[0] = nothing + x;\n}")


def test_integer_arguments_of_math_functions_are_rejected(msl):
    """In Metal, exp has no int overload, so the call is ambiguous."""
    with pytest.raises(MslError, match="deleted"):
        msl("kernel void f(device float* out [[buffer(0)]]) { out[0] = exp(1); }")


FORMS = """
#define NAME(OP, TAG) #OP "_dense_" #TAG
#define KERNEL(NAME, ...) template [[host_name(NAME)]] [[kernel]] decltype(__VA_ARGS__) __VA_ARGS__;
namespace ops { struct Neg { static float of(float x) { return -x; } }; }
namespace family {
template <typename T, typename Op, int N> kernel void unary(device T* out, device const T* x,
                                                            uint i [[thread_position_in_grid]]) {
  out[i] = T(Op::of(x[i]) * (N > 1 ? N : 1));
}
KERNEL(NAME(neg, f32), unary<float, ops::Neg, (3 > 2)>)
}
KERNEL(NAME(neg2, f32), family::unary<float, ops::Neg, 2>)
template [[host_name("neg" "3_i32")]] kernel void family::unary<int, ops::Neg, 3>(
    device int* out, device const int* x, uint i [[thread_position_in_grid]]);
[[kernel, max_total_threads_per_threadgroup(64)]] void plain(device int* out [[buffer(4)]], device int* a,
                                                             constant int& b, device int* c [[buffer(1)]]) {
  out[0] = a[0] * 100 + b * 10 + c[0];
}
"""


def test_instantiation_forms(msl):
    library = msl(FORMS)
    x = np.arange(4, dtype=np.float32)
    assert library.map("neg_dense_f32", x).tolist() == [0, -1, -2, -3]
    assert library.map("neg2_dense_f32", x).tolist() == [0, -2, -4, -6]
    assert library.map("neg3_i32", x.astype(np.int32)).tolist() == [0, -3, -6, -9]
    out = np.zeros(1, np.int32)
    a, b, c = (np.array([v], np.int32) for v in (1, 2, 3))
    library("plain", a, c, b, out, out, grid=(1,))  # a and b get 0 and 2, the unused indices
    assert out[0] == 123
    assert library.records["plain"].max_threads == 64
    assert library.records["plain"].buffers == 5
    assert library.table.count == 4


def test_depfile(tmp_path, translate):
    (tmp_path / "part.h").write_text("#define FIVE 5\n")
    depfile = tmp_path / "k.d"
    source = '#include "lib/index.h"\n#include "part.h"\nkernel void f(device int* x) { x[0] = FIVE; }'
    status, errors, _ = translate(source, "--depfile", depfile)
    assert status == 0, errors
    target, _, files = depfile.read_text().replace("\\\n", " ").partition(":")
    assert target == str(tmp_path / "k.cpp")
    names = {f.removeprefix(f"{tmp_path}/").removeprefix(f"{ROOT}/") for f in files.split()}
    own, overlay = {"k.metal", "part.h"}, "metal/lib/host/index.h"
    assert names == own | {"metal/lib/index.h", "metal/lib/types.h", overlay}


def test_list(tmp_path, msl):
    path = tmp_path / "k.metal"
    path.write_text(FORMS)
    options = ["--preprocessor", find_compiler().preprocessor()]
    assert tool("list", path, "--count", *options)[1] == "4\n"
    assert "plain\n    4: device int * out" in tool("list", path, *options)[1]


def test_flatten(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.h").write_text("#pragma once\n#include <metal_stdlib>\nint a;\n")
    (tmp_path / "ops.def").write_text("OP(one)\n")
    (tmp_path / "lib" / "b.h").write_text("#ifdef __METAL__\nint b;\n#else\n#include <cstdint>\n#endif\n")
    (tmp_path / "k.metal").write_text('#include "lib/a.h"\n#include <lib/a.h>\n#include "lib/b.h"\n'
                                      '#define OP(x) int x;\n#include "ops.def"\n#undef OP\n'
                                      '#define OP(x) int x##2;\n#include "ops.def"\n'
                                      "kernel void f(device int* x) {}\n")
    (tmp_path / "l.metal").write_text("kernel void g(device int* x) {}\n")
    out = tmp_path / "flat.metal"
    assert tool("flatten", tmp_path / "k.metal", tmp_path / "l.metal", "-I", tmp_path, "-o", out)[0] == 0
    (first, kernels, text), (_, others, _) = units(out.read_text())
    assert first.endswith("k.metal")
    assert (kernels, others) == (["f"], ["g"])
    assert text.count("int a;") == 1
    assert text.count("OP(one)") == 2
    assert "int b;" in text
    assert "cstdint" not in text
    assert "__METAL__" not in text
    assert '"lib/a.h"' not in text.replace("#line", "").split("int a;")[1]
    assert "#include <metal_stdlib>" in text
    assert "#pragma once" not in text
    (tmp_path / "bad.metal").write_text('\n#include "missing.h"\n')
    status, _, errors = tool("flatten", tmp_path / "bad.metal", "-o", out)
    assert status == 1
    assert "bad.metal:2" in errors
    assert "missing.h" in errors


def test_index_rejects_a_duplicate_name(tmp_path, msl):
    options = ["--preprocessor", find_compiler().preprocessor()]
    for stem in ("a", "b"):
        (tmp_path / f"{stem}.metal").write_text("kernel void same(device int* x) { x[0] = 1; }")
        assert tool("translate", tmp_path / f"{stem}.metal", "-o", tmp_path / f"{stem}.cpp", *options)[0] == 0
    status, _, errors = tool("index", tmp_path / "a.cpp", tmp_path / "b.cpp", "-o", tmp_path / "i.cpp")
    assert status == 1
    assert "kernel 'same' is defined by both" in errors
