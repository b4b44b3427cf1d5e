"""Overlays of the host driver (python/mpsx/msl/overlay.py): declarations they can replace, modes, and errors."""

import numpy as np
import pytest
from msl.compiler import find_compiler
from msl.source import MslError
from msl.translate import load, translate

HEADER = """#pragma once
template <typename T> constexpr constant uint parts = 16 / sizeof(T);
inline float plain(float x) { return x; }
"""
METAL = """#include "part.h"
struct Scale { float by; float operator()(float x) const { return x * by; } };
constant float kBias = 1;
inline float bias(float x) { return x + kBias; }
template <typename T> inline T shifted(T x, device const T* y) { return x + T(1); }
template <typename T> inline T shifted(T x, thread const T* y) { return x + T(1); }
inline float shifted(float x) { return x; }
kernel void functions(device float* out, device const float* in, uint i [[thread_position_in_grid]]) {
  float own = 0;
  out[i] = plain(bias(in[i])) + shifted(in[i], in) * 100 + shifted(in[i], &own) * 10000 + Scale{2}(parts<float>) / 16;
}
template <typename T>
kernel void twice(device T* out, device const T* in, uint i [[thread_position_in_grid]]) {
  out[i] = in[i] * T(2);
}
template [[host_name("twice_f32")]] kernel decltype(twice<float>) twice<float>;
"""
X = np.arange(1, 20, dtype=np.float32)


def run(msl, kernel, **overlays):
    """Run a kernel on X. `overlays` maps the stem of a file (`part` or `snippet`) to the overlay for it."""
    files = (("part.h", HEADER), *((f"host/{stem}.h", text) for stem, text in overlays.items()))
    return msl(METAL, files=files).map(kernel, X)


def expected(bias=1.0, first=1, scale=0.5):
    return X + bias + (X + first) * 100 + (X + first) * 10000 + scale



REPLACING = {
    "function": ("inline float bias(float y) { return y - 3; }", expected(bias=-3)),
    "template": ("template <class T> T shifted(T x, device const T* z) { return x; }", expected(first=0)),
    "address spaces": ("template <typename T> inline T shifted(T x, device const T* y) { return x; }\n"
                       "template <typename T> inline T shifted(T x, thread const T* y) { return x; }",
                       expected(first=0)),
    "constant": ("constant float kBias = 7;", expected(bias=7)),
    "class": ("struct Scale { float by; float operator()(float x) const { return x / by; } };", expected(scale=0.125)),
    "helpers": ("typedef float pair __attribute__((ext_vector_type(2)));\n"
                "struct Second { pair v; float get() const { return v[1]; } };\n"
                "inline float bias(float x) { return helper({{x, __builtin_fabsf(-x)}}); }\n"
                "inline float helper(Second s) { return s.get() - 2; }\n", expected(bias=-2)),
}


@pytest.mark.parametrize("case", REPLACING)
def test_replaced(msl, case):
    overlay, result = REPLACING[case]
    np.testing.assert_array_equal(run(msl, "functions", snippet=overlay), result)


def test_kernel_template(msl):
    overlay = ("template <typename T>\nkernel void twice(device T* out, device const T* in,\n"
               "                  uint i [[thread_position_in_grid]]) { out[i] = in[i] * 5; }\n")  # fmt: skip
    np.testing.assert_array_equal(run(msl, "twice_f32", snippet=overlay), X * 5)
    np.testing.assert_array_equal(run(msl, "twice_f32"), X * 2)


def test_header(msl):
    """A header's overlay applies to every file that includes the header, in addition to the file's own overlay."""
    part = ('#include "../part.h"\n#include "more.h"\ntemplate <typename T> constexpr constant uint parts = 1;\n'
            "inline float plain(float x) { return more(x); }\n")  # fmt: skip
    more = "#pragma once\ninline float more(float x) { return x + 40; }\n"
    found = run(msl, "functions", part=part, more=more, snippet=REPLACING["constant"][0])
    np.testing.assert_array_equal(found, expected(bias=47, scale=0.125))


REJECTED = {
    "nothing": ("\n  inline float other(float x) { return x; }", "2:16: error: 'other' replaces nothing (the Metal"),
    "recursive": ("inline int other(int x) { return x ? other(x - 1) : 0; }", "1:12: error: 'other' replaces nothing"),
    "parameters": ("inline float bias(int x) { return x; }", "1:14: error: 'bias' replaces nothing (its parameters or"),
    "head": ("template <typename T, int N> T shifted(T x, device const T* y) { return x; }", "(its parameters or"),
    "another file's": ("inline float plain(float x) { return x; }", "1:14: error: 'plain' replaces nothing (the Metal"),
    "kernel": ("kernel void third(device float* x) {}", "1:13: error: 'third' replaces nothing"),
    "instantiation": ('template [[host_name("a")]] kernel decltype(twice<half>) twice<half>;', "1:1: error: an over"),
    "empty": ("// nothing", "1:1: error: the overlay replaces nothing"),
}


def translated(tmp_path, overlay, mode="wide"):
    """Translate METAL as k.metal. Return the C++ code and the files that it depends on."""
    (tmp_path / "host").mkdir(exist_ok=True)
    for name, text in {"part.h": HEADER, "k.metal": METAL, "host/k.h": overlay}.items():
        (tmp_path / name).write_text(text)
    _, files = translate(str(tmp_path / "k.metal"), str(tmp_path / "k.cpp"), [], [], find_compiler().preprocessor(),
                         mode=mode)  # fmt: skip
    return (tmp_path / "k.cpp").read_text(), [f.removeprefix(f"{tmp_path}/") for f in files]


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(tmp_path, case):
    overlay, message = REJECTED[case]
    with pytest.raises(MslError) as error:
        translated(tmp_path, overlay)
    assert str(error.value).startswith(f"{tmp_path}/host/k.h:")
    assert message in str(error.value)


def test_modes_and_files(tmp_path):
    """Overlays apply only in wide mode, are listed as dependencies, and do not shift line numbers."""
    overlay = "\n" + REPLACING["function"][0]
    text, files = translated(tmp_path, overlay)
    assert "y - 3" in text
    assert set(files) == {"k.metal", "part.h", "host/k.h"}
    line = text[: text.index("y - 3")].splitlines()[-2]
    assert line == f'#line 2 "{tmp_path}/host/k.h"'
    assert "overlays.metal" not in text
    for mode in ("simt", "auto"):
        text, files = translated(tmp_path, overlay, mode)
        assert "y - 3" not in text
        assert set(files) == {"k.metal", "part.h"}
    src, _, _ = load(str(tmp_path / "k.metal"), [], [], find_compiler().preprocessor(), overlays=True)
    token = next(i for i, t in enumerate(src.texts) if t == "twice")
    assert src.location(token) == f"{tmp_path}/k.metal:13:13"
