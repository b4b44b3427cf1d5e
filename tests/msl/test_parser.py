"""The parser (mpsx.msl.parser): kinds, names and scopes of declarations, and blocks in function bodies."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from msl.kernels import collect_kernels  # noqa: E402
from msl.lowering import lower  # noqa: E402
from msl.parser import declarators, parse  # noqa: E402
from msl.source import MslError, Source  # noqa: E402


def parsed(text):
    """Return (kind, name) for every declaration outside function bodies."""
    src = Source(text)
    return [(d.kind, src.texts[d.name] if d.name >= 0 else "") for d in parse(src).all]


DECLARATIONS = {
    "bases": ("struct A : B<int, 4>, C { A(int x) : B(x), y{x} {} int y; };",
              [("class", "A"), ("function", "A"), ("variable", "y")]),
    "alignment": ("struct alignas(16) S { float x [[align(4)]]; }; typedef struct { int a; } T, *P;",
                  [("class", "S"), ("variable", "x"), ("class", ""), ("variable", "a")]),
    "enums": ("enum class E : uint { A, B }; typedef enum { C } F; enum E e = E::A;",
              [("enum", "E"), ("enum", ""), ("variable", "e")]),
    "functions": ("template <typename T> auto f(T x) -> vec<T, 2> { return x; } struct S g(); float (*h)(int);",
                  [("function", "f"), ("function", "g"), ("other", "")]),
    "members": ("struct S { friend S operator+(S a, S b) { return a; } int b : 3; static int n; operator int(); };",
                [("class", "S"), ("function", "operator"), ("other", ""), ("variable", "n"), ("function", "operator")]),
    "namespaces": ('inline namespace a { int x; } namespace b::c { int y; } extern "C" { int z; } namespace d = b;',
                   [("namespace", ""), ("variable", "x"), ("namespace", ""), ("variable", "y"), ("namespace", ""),
                    ("variable", "z"), ("other", "")]),
    "aliases": ("using T = int; typedef device float* P; using namespace metal; using metal::max; struct S;",
                [("alias", "T"), ("alias", "P"), ("other", ""), ("other", ""), ("other", "")]),
    "instantiation": ('template [[host_name("a")]] kernel decltype(f<int>) f<int>; template <> void f<int>(int) {}',
                      [("instantiation", ""), ("function", "f")]),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_declarations(case):
    text, expected = DECLARATIONS[case]
    assert parsed(text) == expected


def test_scopes():
    src = Source("namespace { namespace a { struct S { void f(); }; } }")
    scopes = {src.texts[d.name]: d.scope for d in parse(src).all if d.name >= 0}
    assert scopes["S"] == ("", "a")
    assert [s.partition("@")[0] for s in scopes["f"]] == ["", "a", "S"]


def test_declarators():
    src = Source("constant float a[2][3] [[maybe_unused]] = {{1}}, b = f(1, 2), *c;")
    found = declarators(src, parse(src).variables[0])
    assert [src.texts[v.name] for v in found] == ["a", "b", "c"]
    assert [len(v.bounds) for v in found] == [2, 0, 0]
    assert [src.span(*v.initializer) for v in found] == ["= { { 1 } }", "= f ( 1 , 2 )", ""]


def test_blocks():
    src = Source("void f() { const int a = 1; if (a) { constexpr int b = 2; struct L { int c; }; } auto g = [] { "
                 "static int d; }; switch (a) { case 1: using T = int; } [[maybe_unused]] volatile int e; }")
    unit = parse(src)
    assert [src.texts[d.name] for d in unit.locals(unit.functions[0])] == ["a", "b", "L", "d", "T", "e"]
    inner = next(i for i, t in enumerate(src.texts) if t == "b")
    assert len(unit.block(unit.functions[0]).path(inner)) == 2


def lowered(body):
    src = Source(f"kernel void f(device float* x) {{ {body} }}")
    module = collect_kernels(src)
    lower(src, module, shared=True)
    return src.result()


@pytest.mark.parametrize("body", [
    "threadgroup float s[4];", "[[maybe_unused]] threadgroup float s[4];",
    "switch (1) { case 1: threadgroup float s; }", "alignas(16) threadgroup float s[2], t;",
    "volatile threadgroup float s;",
    "auto g = [] { threadgroup float s; };",
])  # fmt: skip
def test_threadgroup_variables(body):
    text = lowered(body)
    assert "::mpsx::threadgroup_variable<mpsx_tg_0, 0>" in text
    assert "mpsx_threadgroup_bytes_of_f" in text


def test_threadgroup_variable_must_start_a_statement():
    with pytest.raises(MslError, match="expected a threadgroup variable at the beginning of a statement"):
        lowered("if (true) threadgroup float s;")
