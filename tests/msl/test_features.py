"""Run every kernel in features/, and compare the results with numpy or with precomputed values."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

FEATURES = Path(__file__).parent / "features"
HALF = np.float16
F = np.float32


@pytest.fixture(scope="module")
def run(msl):
    """Return a function run(file, kernel, *buffers, size=…) that runs a kernel and returns buffer 0."""

    def call(file, kernel, *buffers, size=16, dtype=F, grid=(1,), **options):
        library = msl((FEATURES / f"{file}.metal").read_text(), general=True, name=file)
        out = np.zeros(size, dtype)
        library(kernel, out, *buffers, grid=grid, **options)
        return out

    return call


def expect(got, *want):
    np.testing.assert_allclose(got[: len(want)], np.array(want, np.float64), rtol=2e-6)


def test_function_constants(run):
    extra = np.array([9], np.int32)
    expect(run("structure", "function_constants"), 0, 0, 5, 0, -1, 0)
    values = {"has_bias": np.array([True]), "kind": np.array([4], np.int32), "groups_of": np.array([3], np.int16)}
    expect(run("structure", "function_constants", extra, constants=values), 1, 4, 8, 1, 3, 9)


def test_structure(run):
    expect(run("structure", "address_spaces"), 10, 10, 1.5, 17)
    expect(run("structure", "overloaded_names"), 3, 2, 8, 3 + 3 + 2 + 2)
    expect(run("structure", "doubled_i32", np.array([21], np.int32), dtype=np.int32), 42)
    expect(run("structure", "doubled_f32", np.array([1.5], F)), 3)
    expect(run("structure", "doubled_f16", np.array([0.25], HALF), dtype=HALF), 0.5)
    expect(run("structure", "computed_indices", np.array([6], F)), 6)
    expect(run("structure", "limited_2_4"), 2)
    expect(run("structure", "aggregates"), 1, 2, 3 + (300 - 256) + 70000, 4, 6)
    expect(run("structure", "modern"), 15 + 21 + 32 + 43 + 7, 120, 24, 9)
    expect(run("structure", "tables", np.array([1, 2, 3, 4], F)), 0.5 + 2.5 + 2 + 3, 5, 6)


def test_thread_limits(msl):
    records = msl((FEATURES / "structure.metal").read_text(), general=True, name="structure").records
    assert records["limited_2_4"].max_threads == 256
    assert records["computed_indices"].max_threads == 64
    assert records["modern"].max_threads == 1024


def test_argument_buffers(run):
    x, n = np.array([1, 2, 3, 4], F), np.array([2], np.uint32)
    many = [np.array([10], F), np.array([20], F)]
    arguments = np.zeros(1, [("x", "u8"), ("n", "u8"), ("scale", "f4"), ("pad", "f4")])
    arguments["x"], arguments["n"], arguments["scale"] = x.ctypes.data, n.ctypes.data, 0.5
    pointers = np.array([m.ctypes.data for m in many], np.uint64)
    expect(run("structure", "arguments", arguments, pointers), 20, 2, 0x3F800000)


@pytest.mark.parametrize(("tag", "dtype"), [("f16", HALF), ("f32", F)])
def test_conditionals(run, tag, dtype):
    x = np.arange(1, 7).astype(dtype) / 4
    got = run("small", f"choose_{tag}", x, np.array([5], np.uint32), dtype=dtype, size=6, grid=(6,))
    want = []
    for i, v in enumerate(map(float, x)):
        a, b = (v, v) if i < 5 else (0, 0.5)
        c = (a if i & 1 else b) + (v if i < 5 else 0)
        d = 1 if i < 2 else a if i < 4 else b
        want.append((1 if i == 0 else c) + d + (1 if i > 1 and a > 0 else a))
    expect(got, *want)


@pytest.mark.parametrize("tag", ["f16", "bf16"])
def test_conditionals_with_mixed_types(run, tag):
    x = np.array([0.25, 0.75, 1.5, 2.5], F)
    small = x.astype(HALF) if tag == "f16" else (x.view(np.uint32) >> 16).astype(np.uint16)
    got = run("small", f"beside_{tag}", small, np.array([3], np.uint32), size=56, grid=(4,)).reshape(4, 14)
    for i, v in enumerate(x[:3]):
        expect(got[i], v, v, 3, v, v, 1.25, v, -v, v, v if i & 1 else 4, 2 * v, v, 1 if v > 0.5 else v, 2 * v)
    expect(got[3], 0, 0.5, 2.5, 7, 1, 2.5, 0.25, 9, 0, 5, 3.5, 2, 2.5, 2)


def test_small_types(run):
    h = 7.0
    expect(run("small", "mixed"), h, 49 + 1 + 15, 0.5 + 3 + (2.25 + 4 + 9 + 16), 3 + 7 + 1 + 1.5 + 7, 8,
           -7 + 1.5 + 1, 3.5)
    tenth = float(HALF(0.1))
    expect(run("small", "limits_of_small"), 65504, 2**-7, 65504 + tenth + 2**-10, 2, 2**-24, 11 + 128, np.inf)
    expect(run("small", "bits"), 1, 2, 1, 4 + 0x3C00 + 2, 1, 2 - 2**31)


def test_rounding(run):
    torch = pytest.importorskip("torch")
    x = np.concatenate([np.random.default_rng(0).standard_normal(500).astype(F) * np.float32(10.0) ** np.arange(-25, 25)
                        .repeat(10).astype(F), np.array([0, -0.0, np.inf, 65519, 65520, 1e-8], F)])
    got = run("small", "rounding", x, size=2 * x.size, grid=(x.size,)).reshape(-1, 2)
    want = torch.from_numpy(x)
    np.testing.assert_array_equal(got[:, 0], want.half().float().numpy())
    np.testing.assert_array_equal(got[:, 1], want.bfloat16().float().numpy())


def test_vectors(run):
    expect(run("vectors", "swizzles"), 43, 4, 20, 1, 400, 21 + 1 + 20, 28)
    p = np.arange(12, dtype=F)
    expect(run("vectors", "packed", p), 4 + 3 + 1 + 12 + 2 + 3, math.sqrt(5) + 2)
    p_want = [0, 1, 2, 2, 11, 0, 2, 12, 7, 0, 0, 1]
    np.testing.assert_array_equal(p, p_want)
    expect(run("vectors", "constructors"), 100 - 10 + 2, 4 + 8 - 16, 10, 10 * 15 + 1, 13, 1 + 0 + 1 + 0, 16 + 8 + 2 + 4)
    expect(run("vectors", "matrices"), 3000 + 400 + 10 + 2, 3 + 12 + 10, -2 + 8 - 6, 6 + 1, 1 + 4 + 2, 48 + 16,
           300 + 60 + 3)
    expect(run("vectors", "constant_expressions"), 2 + 30 + 100, 10 + 4, 3 + 10, 4 + 12, 132 + 2 + 4)


def test_functions(run):
    expect(run("functions", "integers"), 4 + 15 + 3, 200 + 247, 127 + 0 + 32767, 6 + 7 + 256 + 2147483, 17 + 15,
           3 + 128, 15 + 12 - 1, 5 + 2 + 5 + 1, 3 + 4)
    expect(run("functions", "common"), 1.5 + 2, 1 + 0.5 - 1 + 1, 0.5 + 1 + 2, 0.75 + 1.5 + 2 + 2, 0 + 1 + 0.25 + 3,
           7.5 + 4 + 0.5 + 4 + 0 + 12 + 3 + 4, -2 + 2 + 3 - 1 + 2 - 2, 3 + 1 + 2 + 8 + 0.5 + 100)
    expect(run("functions", "geometric"), 32 + 6 + 5 + 14, math.sqrt(27) + 27, 0.6 + 0.8 + 10, 1 - 1, -1)
    expect(run("functions", "relational"), 1 + 1 + 1 + 0 + 1, 1 + 0 + 0 + 1, 2 + 2, 9 + 3)
    expect(run("functions", "packing"), 1, 1 - 1, 1, 1)
    expect(run("functions", "traits"), 1, 1, 8 - 32768, math.pi)


def test_atomics(run):
    u, f, n = np.zeros(2, np.uint32), np.array([100], F), np.zeros(2, np.int32)
    w = np.array([7, 1000], np.uint64)
    got = run("functions", "atomics", f, w, n, size=2, dtype=np.uint32, grid=(20,))
    assert got.tolist() == [190, 255]
    assert u.tolist() == [0, 0]
    assert f[0] == 90
    assert w.tolist() == [19 << 40, 5]
    assert n.tolist() == [40, 42]


def test_idioms(run):
    expect(run("idioms", "qualified"), 3 + 1, 1, 2, 15)
    expect(run("idioms", "renamed"), 7)
    x = np.array([1, 2], HALF)
    expect(run("idioms", "overloads", x), 11, 33, 1, 1 + 2 + 3, 0x3C00)  # 0x3C00 + 3 rounds to 0x3C00 in half
    expect(run("idioms", "fill_one"), 1)
    expect(run("idioms", "fill_n"), 5)
    expect(run("idioms", "fill_x", np.array([2.5], F)), -2.5)
    expect(run("idioms", "template_arguments"), 21, 10 + 600)
    blocks = np.zeros(2, [("d", HALF), ("m", HALF), ("qs", "u1", 4)])
    blocks[0] = 0.5, 1.5, (1, 2, 3, 4)
    expect(run("idioms", "blocks", blocks), 1 + 30 + 400, 1)
    assert blocks["m"].tolist() == [1.5, 3]
    expect(run("idioms", "pragmas"), 28 + 28 + 2 + 2)
    expect(run("idioms", "internals"), 6 + 4, 1 + 2, 1)
    points = np.arange(6, dtype=F)
    expect(run("idioms", "parameters", np.array([10, 20], np.int32), points), 20 + 3 + 12, 5 + 3 + 4, 4 + 1)
    expect(run("idioms", "generic"), 5 + 3 + 6, 8 + 4 + 6 + 4, 8)
    expect(run("idioms", "sequences"), 10, 6 + 2, 3)
    total = np.zeros(1, F)
    assert run("idioms", "add_float", total, size=1, grid=(10,)).tolist() == [45]
    assert total[0] == 5


def features():
    paths = [*sorted(FEATURES.glob("*.metal")), *sorted((FEATURES.parent / "corpus").glob("*.metal"))]
    return [(path.name if path.parent == FEATURES else f"corpus/{path.name}", m) for path in paths
            for m in re.findall(r"^// feature: (.+)$", path.read_text(), re.M)]


def test_readme_lists_every_feature():
    rows = re.findall(r"^\| (.+?) \| `(.+?)` \|$", (FEATURES.parent / "README.md").read_text(), re.M)
    assert [(file, feature) for feature, file in rows] == features()
