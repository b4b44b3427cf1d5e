"""mpsx.compile_shader: run kernels that use language features, and compare with numpy. tests/msl/test_check.py covers
the strict check."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import mpsx
from mpsx.shader import kernel_library

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def test_member_functions_with_address_spaces() -> None:
    lib = mpsx.compile_shader(HEAD + """
        typedef struct M { short4 v[2]; device short4& operator[](const int i) device { return v[i]; }
                           short4 operator[](const int i) const constant { return v[i]; } } M;
        typedef struct { float v; device float& get() device { return v; } thread float& get() thread { return v; }
                         threadgroup float& get() threadgroup { return v; } } N;
        typedef union U { float f; uint u; uint bits() const device { return u; } } U;
        template <typename T> struct Box { T x; device Box& operator+=(T y) device { x += y; return *this; }
                                           T sum() const device { return simd_sum(x); } };
        kernel void k(device M* m, constant M* from, device N* n, device U* u, uint i [[thread_position_in_grid]]) {
          N local;
          local.get() = n[i].get();
          threadgroup N shared;
          m[i][1] = from[i][0] + short4(i);
          shared.get() = local.get() + 1;
          n[i].get() = shared.get() + u[i].bits();
        }
        kernel void sums(device Box<int>* b, uint i [[thread_position_in_grid]]) {
          const int sum = b[i].sum();
          b[i] += sum;
        }""")  # fmt: skip
    m = torch.zeros(4, 2, 4, dtype=torch.int16, device="mpsx")
    source = torch.arange(32, dtype=torch.int16).view(4, 2, 4)
    n, u = torch.arange(4.0).to("mpsx"), torch.tensor([7, 8, 9, 10], dtype=torch.int32).to("mpsx")
    lib.k(m, source.to("mpsx"), n, u, threads=4, group_size=1)
    assert torch.equal(m.cpu()[:, 1], source[:, 0] + torch.arange(4, dtype=torch.int16)[:, None])
    assert n.tolist() == [8, 10, 12, 14]
    b = torch.arange(4, dtype=torch.int32, device="mpsx")
    lib.sums(b)
    assert b.tolist() == [6, 7, 8, 9]


UNKNOWN = HEAD + """
kernel void k(device float* x [[buffer(0), access(read_write)]], uint i [[thread_position_in_grid]])
    [[simd_group_size(32)]] { x[i] += 1; }"""


def test_unknown_attributes_warn() -> None:
    """Every call warns, even if the shader is cached. The warning names the caller's file."""
    for _ in range(2):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            lib = mpsx.compile_shader(UNKNOWN)
        assert [(w.category, w.filename) for w in found] == [(SyntaxWarning, __file__)] * 2
        texts = [str(w.message).split("\n")[0] for w in found]
        assert texts == ["program_source:4:44: warning: unknown attribute 'access' ignored",
                         "program_source:5:7: warning: unknown attribute 'simd_group_size' ignored"]  # fmt: skip
    x = torch.zeros(3, device="mpsx")
    lib.k(x)
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("parameters", "wrong", "meant"), [
    ("device float* x [[bufer(0)]]", "bufer", "buffer"),
    ("device float* x [[bfufer(0)]]", "bfufer", "buffer"),
    ("device float* x, uint i [[thread_postion_in_grid]]", "thread_postion_in_grid", "thread_position_in_grid"),
    ("device float* x, uint i [[thread_index_in_simd_group]]", "thread_index_in_simd_group",
     "thread_index_in_simdgroup"),
])  # fmt: skip
def test_misspelled_attributes_raise(parameters: str, wrong: str, meant: str) -> None:
    with pytest.raises(SyntaxError, match=f"unknown attribute '{wrong}'; did you mean '{meant}'"):
        mpsx.compile_shader(f"{HEAD}kernel void k({parameters}) {{ x[0] = 1; }}")


def test_input_with_an_unknown_attribute_raises() -> None:
    with pytest.raises(SyntaxError, match=r"has a position attribute .*; did you mean 'thread_position_in_grid'"):
        mpsx.compile_shader(f"{HEAD}kernel void k(device float* x, uint i [[thread_pos_in_grid]]) {{ x[i] = 1; }}")


def test_pointers_to_constant_memory() -> None:
    lib = mpsx.compile_shader(HEAD + """
        constant half table[2] = {1.0h, 2.0h};
        constant int grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
        constant half* constant whole = table;
        inline half f(uint i) {
          constexpr constant half* p = table;
          static constexpr constant half* s = &table[1];
          constexpr constant half& r = table[0];
          constexpr constant int(*g)[3] = grid;
          return p[i] + s[0] + r + whole[i] + half(g[1][i]);
        }
        kernel void k(device half* x, uint i [[thread_position_in_grid]]) { x[i] = f(i & 1); }""")
    x = torch.zeros(4, dtype=torch.float16, device="mpsx")
    lib.k(x)
    assert x.tolist() == [1 + 2 + 1 + 1 + 4, 2 + 2 + 1 + 2 + 5] * 2


def test_class_to_bfloat_conversions() -> None:
    """The class's own conversion operator must run. A conversion through half would overflow above 65504."""
    lib = mpsx.compile_shader(HEAD + """
        struct F { float x; operator float() const { return x; } };
        struct H { half x; operator half() const { return x; } };
        struct I { int x; operator int() const { return x; } };
        struct B { bfloat x; B(bfloat y) : x(y) {} operator bfloat() const { return x; } };
        struct E { float x; explicit operator bfloat() const { return bfloat(x); } };
        struct G { float x; template <typename T> operator T() const { return T(x); } };
        struct D { float x; operator float() const device { return x; } operator float() const thread { return x; } };
        inline bfloat taken(bfloat x) { return x; }
        inline bfloat returned(F x) { return x; }
        kernel void k(device bfloat* b, device D* d, device float* x) {
          F f{1e20f}; H h{2.5h}; I i{70000}; B g(3.0bf); E e{1e30f}; G t{5};
          b[0] = bfloat(f); b[1] = f; bfloat two = f; b[2] = two; b[3] = (bfloat)f; b[4] = static_cast<bfloat>(f);
          b[5] = bfloat(h); b[6] = static_cast<bfloat>(h); b[7] = bfloat(i); b[8] = i; b[9] = g;
          b[10] = bfloat(e); b[11] = t;
          b[12] = bfloat(d[0]); b[13] = d[0]; b[14] = taken(f); b[15] = returned(f); b[16] += i; b[17] = bfloat(t);
          x[0] = 1.0bf + f; x[1] = f * 2.0bf; x[2] = i - 1.0bf; x[3] = two == f; x[4] = g + 1.0bf; x[5] = 2.0bf < i;
        }""")
    b = torch.zeros(18, dtype=torch.bfloat16, device="mpsx")
    x = torch.zeros(6, device="mpsx")
    lib.k(b, torch.tensor([4e20], device="mpsx"), x, threads=1)
    big, large, seventy = (torch.tensor(v, dtype=torch.bfloat16).item() for v in (1e20, 4e20, 70000.0))
    huge = torch.tensor(1e30, dtype=torch.bfloat16).item()
    assert b.tolist() == [big] * 5 + [2.5] * 2 + [seventy] * 2 + [3, huge, 5, large, large, big, big, seventy, 5]
    f = torch.tensor(1e20).item()
    assert x.tolist() == [f, 2 * f, seventy, 0, 4, 1]


def test_struct_copies() -> None:
    """Copy a struct between every pair of address spaces, with and without user-defined copy constructors."""
    lib = mpsx.compile_shader(HEAD + """
        struct P { float3 v; packed_float3 q; bfloat b; uchar c[4]; };
        struct C { float x; C() = default; C(float y) : x(y) {} C(thread const C& o) : x(o.x + 100) {}
                   C(device const C& o) : x(o.x + 100) {} C self() const device { return *this; } };
        struct D { float x; D operator+(D o) const { return D{x + o.x}; } };
        template <typename T> inline T same(T v) { return v; }
        inline float first(P p) { return p.v.x; }
        inline D either(device const D* d, constant D& c, bool b) { return b ? d[0] : c; }
        kernel void k(device P* p [[buffer(0)]], device C* c [[buffer(1)]], device D* d [[buffer(2)]],
                      constant P& from [[buffer(3)]], constant D& add [[buffer(4)]], device float* out [[buffer(5)]]) {
          threadgroup P shared[2];
          P a = p[0], b(p[0]), e{p[0]};
          auto g = *p;
          shared[0] = p[0]; shared[1] = shared[0]; p[1] = shared[1]; p[2] = from;
          P h = shared[1];
          out[0] = a.v.x + b.v.y + e.q[2] + float(g.b) + first(h) + first(p[0]) + same(p[0]).c[3]
                   + same(shared[0]).c[1];
          C x = c[0];
          out[1] = x.x;
          out[2] = c[0].self().x;
          d[1] = d[0] + add; d[2] = same(d[0]) + either(d, add, false); d[3] = either(d, add, true);
        }""")  # fmt: skip
    layout = np.dtype([("v", "f4", 4), ("q", "f4", 3), ("b", "u2"), ("c", "u1", 4), ("pad", "u1", 14)])
    host = np.zeros(3, layout)
    host[0] = (1, 2, 3, 0), (4, 5, 6), 0x40E0, (1, 2, 3, 4), [0] * 14  # 0x40E0 is bfloat16 7
    p = torch.from_numpy(host.view(np.uint8).copy()).to("mpsx")
    d = torch.tensor([5.0, 0, 0, 0], device="mpsx")
    out = torch.zeros(3, device="mpsx")
    lib.k(p, torch.tensor([1.0], device="mpsx"), d, p[: layout.itemsize], torch.tensor([9.0], device="mpsx"), out,
          threads=1, group_size=1)  # fmt: skip
    assert out[0].item() == 1 + 2 + 6 + 7 + 1 + 1 + 4 + 2
    assert out[1].item() == 101
    assert out[2].item() >= 101
    assert d.tolist() == [5, 14, 14, 5]
    rows = p.cpu().numpy().view(layout)
    assert rows["v"][:, 0].tolist() == [1, 1, 1]
    assert rows["c"][2].tolist() == [1, 2, 3, 4]


WRAP = HEAD + """
constant int seed = 2147483647 * 3;
constant int power = 1 << 31;
inline bool grows(int x) { return x + 1 > x; }
template <typename T> inline T hashed(T x, int n) { T h = 17; for (int i = 0; i < n; ++i) h = h * 31 + x; return h; }
kernel void narrow(device const int* a, device const int* b, device int* out, uint i [[thread_position_in_grid]]) {
  const int x = a[i], y = b[i];
  device int* o = out + i * 12;
  o[0] = x + y; o[1] = x - y; o[2] = x * y; o[3] = -x; o[4] = abs(x); o[5] = x << 5; o[6] = grows(x);
  o[7] = (max(x, y) - min(x, y)) / 2; o[8] = hashed(x, 20); o[9] = x * 2 / 2; o[10] = (x + y < x) != (y < 0);
  o[11] = seed + power + x;
}
kernel void wide(device const long* a, device const long* b, device long* out, uint i [[thread_position_in_grid]]) {
  const long x = a[i], y = b[i];
  device long* o = out + i * 8;
  o[0] = max(x, y) - min(x, y); o[1] = x * y + 1442695040888963407; o[2] = -x; o[3] = abs(x); o[4] = x << 7;
  o[5] = x + 1 > x; o[6] = hashed(x, 20); o[7] = (max(x, y) - min(x, y)) / 2;
}
kernel void vectors(device const int4* a, device const int4* b, device int4* out, uint i [[thread_position_in_grid]]) {
  out[i * 3] = a[i] * b[i] + a[i]; out[i * 3 + 1] = -a[i] - b[i]; out[i * 3 + 2] = (a[i] + b[i]) / 2;
}
kernel void counters(device int* out, constant int& n, uint i [[thread_position_in_grid]]) {
  int state = int(i), total = 0;
  for (int k = 0; k < n; ++k) { state = state * 1103515245 + 12345; total += state; }
  out[i] = total;
}
kernel void group(device const int* a, device int* out, uint i [[thread_index_in_threadgroup]]) {
  threadgroup int shared[32];
  shared[i] = a[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const int d = shared[i] - shared[31 - i], sum = simd_sum(shared[i]);
  out[i] = d < 0 ? -1 : sum;
}
"""


def quotient(a: np.ndarray) -> np.ndarray:
    return (a + (a < 0)) >> 1


def run_wrap() -> None:
    lib = mpsx.compile_shader(WRAP)
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        for name, t, bits in (("narrow", np.int32, 32), ("wide", np.int64, 64)):
            edges = np.array([0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 2 ** (bits - 2)], t)
            a = np.concatenate([np.repeat(edges, 6), rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 200, t)])
            b = np.concatenate([np.tile(edges, 6), rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 200, t)])
            h = np.full_like(a, 17)
            for _ in range(20):
                h = h * t(31) + a
            spread = np.maximum(a, b) - np.minimum(a, b)
            grows = (a != np.iinfo(t).max).astype(t)
            if name == "narrow":
                constant = t(2147483645) + t(-(2**31))
                want = [a + b, a - b, a * b, -a, np.abs(a), a << 5, grows, quotient(spread), h, quotient(a * t(2)),
                        ((a + b < a) != (b < 0)).astype(t), constant + a]  # fmt: skip
            else:
                want = [spread, a * b + t(1442695040888963407), -a, np.abs(a), a << 7, grows, h, quotient(spread)]
            out = torch.zeros(a.size, len(want), dtype=torch.from_numpy(a).dtype).to("mpsx")
            getattr(lib, name)(*(torch.from_numpy(v).to("mpsx") for v in (a, b)), out, threads=a.size)
            for column, values in enumerate(want):
                np.testing.assert_array_equal(out[:, column].cpu().numpy(), values, f"{name} {column}")
        a, b = rng.integers(-(2**31), 2**31, (2, 64, 4), np.int32)
        out = torch.zeros(64, 3, 4, dtype=torch.int32).to("mpsx")
        lib.vectors(*(torch.from_numpy(v).to("mpsx") for v in (a, b)), out, threads=64)
        np.testing.assert_array_equal(out.cpu().numpy(), np.stack([a * b + a, -a - b, quotient(a + b)], 1))
        state, total = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
        for _ in range(50):
            state = state * np.int32(1103515245) + np.int32(12345)
            total += state
        out = torch.zeros(100, dtype=torch.int32).to("mpsx")
        lib.counters(out, 50)
        np.testing.assert_array_equal(out.cpu().numpy(), total)
        a = rng.integers(-(2**31), 2**31, 32, np.int32)
        out = torch.zeros(32, dtype=torch.int32).to("mpsx")
        lib.group(torch.from_numpy(a).to("mpsx"), out, threads=32, group_size=32)
        np.testing.assert_array_equal(out.cpu().numpy(), np.where(a - a[::-1] < 0, -1, a.sum(dtype=np.int32)))


def test_signed_integers_wrap() -> None:
    run_wrap()


def test_signed_integers_wrap_on_simt() -> None:
    run = subprocess.run([sys.executable, __file__], env=os.environ | {"MPSX_DRIVER": "simt"}, check=False,
                         capture_output=True, text=True)  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]


if __name__ == "__main__":
    kernel_library.shaders_only = True
    run_wrap()
