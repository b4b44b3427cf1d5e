"""Detect features that require a Metal version later than 3.1 (python/mpsx/msl/metal31.py)."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from msl.compiler import find_compiler  # noqa: E402
from msl.metal31 import WORDS, later_features  # noqa: E402
from msl.translate import load  # noqa: E402

KERNEL = "kernel void f(device int* x [[buffer(0)]]) {{ {} }}\n"
REJECTED = {
    "lambda": (KERNEL.format("auto g = [&](int v) { return v; }; x[0] = g(1);"), "a lambda needs Metal 3.2", (1, 55)),
    "if constexpr": (KERNEL.format("if constexpr (sizeof(int) == 4) x[0] = 1;"), "'if constexpr' needs C++17", (1, 46)),
    "binding": (KERNEL.format("int2 p = 1; auto [a, b] = p; x[0] = a + b;"), "structured binding", (1, 58)),
    "inline variable": ("inline constexpr int n = 3;\n" + KERNEL.format("x[0] = n;"), "an inline variable", (1, 1)),
    "namespaces": ("namespace a::b { constant int n = 3; }\n" + KERNEL.format("x[0] = 1;"), "nested namespace", (1, 1)),
    "fold": ("template <typename... T>\nint s(T... v) { return (v + ...); }\n", "a fold expression", (2, 29)),
    "auto": ("template <auto n>\nint s() { return n; }\n", "'template <auto' needs C++17", (1, 1)),
    "fence": (KERNEL.format("atomic_thread_fence(mem_flags::mem_device);"), "needs Metal 3.2", (1, 46)),
    "nodiscard": ("[[nodiscard]] int g() { return 1; }\n", "'nodiscard' needs C++17", (1, 3)),
}
ACCEPTED = """
#define EACH(X, ...) X(__VA_ARGS__)
template <typename T, int... n>
struct list {};
template <typename... T>
inline int count(T... v) { return sizeof...(v); }
inline constexpr int twice(int v) { return 2 * v; }
constant int table[2] = {1, 2};
kernel void f(device int* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  int a[3] = {x[i], table[0], x[table[1]]};
  x[i] = (a[0] ? a[1] : a[2]) + count(1, 2) + twice(3);
}
"""


def diagnostics(source, tmp_path):
    path = tmp_path / "k.metal"
    path.write_text(source)
    src, _, _ = load(str(path), [], [], find_compiler().preprocessor())
    return later_features(src)


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name, tmp_path):
    source, message, position = REJECTED[name]
    found = diagnostics(source, tmp_path)
    assert [(d.line, d.column) for d in found] == [position]
    assert message in found[0].message


def test_accepted(tmp_path):
    assert diagnostics(ACCEPTED, tmp_path) == []


def test_every_word_has_a_version():
    assert set(WORDS.values()) == {"Metal 3.2", "Metal 4", "C++17", "C++20"}
