"""Compare the example gemm.metal with float64: random shapes, leading dimensions, transpositions, and split K."""

import random
from pathlib import Path

import pytest
import torch

import mpsx

SOURCE = (Path(__file__).parent / "gemm.metal").read_text()
DTYPES = {"half": torch.float16, "bfloat": torch.bfloat16, "float": torch.float32}
EPSILON = {"half": 2.0**-11, "bfloat": 2.0**-8, "float": 2.0**-24}
TILES = [(64, 64, 4), (128, 64, 8), (32, 96, 2), (64, 128, 4)]  # (rows, columns, SIMD groups)


def instance(host_name, name):
    return f'template [[host_name("{host_name}")]] kernel decltype({name}) {name};\n'


def gemm(t, result, tile, transpose_a, transpose_b):
    m, n, simdgroups = tile
    flags = f"{transpose_a}, {transpose_b}".lower()
    return f"gemm<{t}, {result}, {m}, {n}, {simdgroups}, {flags}>"


def padded(x, leading_dimension):
    """Copy a matrix to the device with padded rows. Reading the padding would change the result."""
    wide = torch.full((x.shape[0], leading_dimension), 99).to(x.dtype)
    wide[:, : x.shape[1]] = x
    return wide.to("mpsx")


def check(lib, names, t, tile, transposed, shape, pads, splits=1, group_rows=8):
    """Compare one matmul with float64. `names` holds the matmul kernel and, for split K, the kernel that sums the
    splits."""
    (m, n, k), (transpose_a, transpose_b) = shape, transposed
    generator = torch.Generator().manual_seed(m * n + k)
    a, b = (torch.randn(rows, k, generator=generator).to(DTYPES[t]) for rows in (m, n))
    a, b = (a.T if transpose_a else a), (b if transpose_b else b.T)
    lda, ldb, ldc = a.shape[1] + pads[0], b.shape[1] + pads[1], n + pads[2]
    part = -(-k // splits)
    splits = -(-k // part)
    c = torch.full((m, ldc), 7).to(DTYPES[t]).to("mpsx")
    parts = torch.full((splits, m, ldc), 7.0).to("mpsx") if names[1] else c
    tiles, threads = -(-m // tile[0]) * -(-n // tile[1]), 32 * tile[2]
    getattr(lib, names[0])(padded(a, lda), padded(b, ldb), parts, [m, n, k, lda, ldb, ldc, part, group_rows],
                           arg_casts={3: "int32"}, threads=(tiles * threads, 1, splits),
                           group_size=(threads, 1, 1))  # fmt: skip
    if names[1]:
        count = m * ldc // 4
        getattr(lib, names[1])(parts, c, count, splits, arg_casts={2: "int32", 3: "int32"}, threads=count)
        assert torch.equal(parts.cpu()[:, :, n:], torch.full((splits, m, ldc - n), 7.0)), "wrote beyond the extents"
    x, y = (a.T if transpose_a else a).double(), (b.T if transpose_b else b).double()
    expected, magnitude = x @ y, x.abs() @ y.abs()
    bound = magnitude * (k + splits + 3) * 2.0**-24 + expected.abs() * EPSILON[t] + 1e-7
    got = c.cpu()
    error = (got[:, :n].double() - expected).abs()
    case = f"{t}, tile {tile}, transposed {transposed}, {m}x{n}x{k}, padding {pads}, {splits} parts"
    assert (error <= bound).all(), f"{case}: {(error - bound).max()} above the bound"
    if not names[1]:
        assert (got[:, n:] == 7).all(), f"{case}: wrote beyond the extents"


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1, 20))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_shapes(seed):
    rng = random.Random(seed)
    kernels = [(t, rng.choice(TILES), (rng.random() < 0.5, rng.random() < 0.5)) for t in DTYPES]
    lib = mpsx.compile_shader(SOURCE + "".join(
        instance(f"k{i}", gemm(t, t, tile, *transposed)) for i, (t, tile, transposed) in enumerate(kernels)))
    for i, (t, tile, transposed) in enumerate(kernels):
        for shape in ((1, 1, 1), tuple(rng.choice([16, 64, 128]) for _ in range(3)),
                      *(tuple(rng.randint(1, 150) for _ in range(3)) for _ in range(2))):  # fmt: skip
            check(lib, (f"k{i}", ""), t, tile, transposed, shape, [rng.choice([0, 1, 3, 8]) for _ in range(3)])


@pytest.mark.parametrize("seed", SEEDS)
def test_split_k(seed):
    rng = random.Random(100 + seed)
    kernels = [(t, rng.choice(TILES), (rng.random() < 0.5, rng.random() < 0.5)) for t in DTYPES]
    lib = mpsx.compile_shader(SOURCE + "".join(
        instance(f"k{i}", gemm(t, "float", tile, *transposed)) + instance(f"r{i}", f"split_k_reduce<{t}>")
        for i, (t, tile, transposed) in enumerate(kernels)))
    for i, (t, tile, transposed) in enumerate(kernels):
        # Splits of K that are not multiples of a tile, and a last split that is shorter.
        for m, n, k, splits in ((40, 36, 300, 3), (rng.randint(1, 90), 4 * rng.randint(1, 20), rng.randint(5, 300), 4)):
            pads = [rng.choice([0, 1, 3, 8]), rng.choice([0, 1, 3, 8]), rng.choice([0, 4, 8])]
            check(lib, (f"k{i}", f"r{i}"), t, tile, transposed, (m, n, k), pads, splits)


@pytest.mark.parametrize(("t", "tile", "transposed"), [
    ("half", (128, 128, 8), (False, False)), ("bfloat", (192, 96, 12), (True, False)),
    ("bfloat", (128, 256, 8), (True, True)), ("float", (128, 128, 8), (True, False)),
    ("float", (256, 128, 16), (False, True)),
])  # fmt: skip
def test_long_pipelines(t, tile, transposed):
    """The operands have many tiles along K. On NVIDIA GPUs, threads copy those whose rows are not aligned."""
    lib = mpsx.compile_shader(SOURCE + instance("k0", gemm(t, t, tile, *transposed)))
    for pads in ((0, 0, 0), (1, 0, 0), (0, 3, 0), (1, 2, 3)):
        check(lib, ("k0", ""), t, tile, transposed, (tile[0] + 8, 72, 704), pads)


def test_many_tiles():
    """Use more than one group of tile rows. The last group is smaller."""
    lib = mpsx.compile_shader(SOURCE + instance("k0", gemm("half", "half", (16, 32, 1), False, True)))
    for m, n, group_rows in ((16 * 19 - 5, 70, 8), (16 * 8, 33, 8), (16 * 9, 1, 8), (16 * 5, 70, 1), (16 * 5, 40, 2)):
        check(lib, ("k0", ""), "half", (16, 32, 1), (False, True), (m, n, 33), (1, 0, 3), group_rows=group_rows)
