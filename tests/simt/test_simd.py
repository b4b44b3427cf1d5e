"""SIMD groups of 32 lanes, quad groups, barriers and thread positions, all of which users' kernels rely on."""

import itertools
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
WIDTH, GROUPS = 32, 2
TYPES = {"int": "i4", "ushort": "u2", "char": "i1", "int3": "i4", "float": "f4", "half": "f2", "bfloat": "bf16",
         "float4": "f4"}
INTEGERS = ["int", "ushort", "char", "int3"]


@pytest.fixture(scope="module")
def functions(kernels):
    return kernels(HERE / "kernels" / "functions.metal", seed=1)


@pytest.fixture(scope="module", params=[1, 2, 77])
def control(kernels, request):
    return kernels(HERE / "kernels" / "control.metal", seed=request.param)


def components(name):
    """Return a type's component counts in registers and in memory. In memory, a 3-component vector occupies four."""
    count = int(name[-1]) if name[-1] in "234" else 1
    return count, 4 if count == 3 else count


def to_memory(x, kind):
    """Convert small integers to a type's memory format."""
    if kind == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return x.astype(kind)


def from_memory(x, kind):
    if kind == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32).astype(np.int64)
    return x.astype(np.int64)


def fold(operator):
    """Return a function that reduces the values of all active lanes."""
    return lambda v, fill, active, lane: operator.reduce(v[active])


def prefix(operator, identity, inclusive):
    def f(v, fill, active, lane):
        below = [i for i in active if i < lane + inclusive]
        return operator.reduce(v[below]) if below else np.full_like(v[0], identity)
    return f


def take(source):
    """Return a function that reads from lane source(lane, width), or from its own lane if that is out of range."""
    def f(v, fill, active, lane):
        s = source(lane, len(v))
        return v[s] if 0 <= s < len(v) else v[lane]
    return f


def filled(step, modulo=None):
    """Return a function that shifts by `step` lanes within blocks of `modulo` lanes, and shifts in values from
    `fill`."""
    def f(v, fill, active, lane):
        m = modulo or len(v)
        s, first = lane % m + step, lane - lane % m
        return v[first + s] if 0 <= s < m else fill[first + s % m]
    return f


FOLDS = {"sum": fold(np.add), "product": fold(np.multiply), "max": fold(np.maximum), "min": fold(np.minimum),
         "prefix_inclusive_sum": prefix(np.add, 0, True), "prefix_exclusive_sum": prefix(np.add, 0, False),
         "prefix_inclusive_product": prefix(np.multiply, 1, True),
         "prefix_exclusive_product": prefix(np.multiply, 1, False),
         "broadcast_first": lambda v, fill, active, lane: v[active[0]]}
BITS = {"and": fold(np.bitwise_and), "or": fold(np.bitwise_or), "xor": fold(np.bitwise_xor)}
SHUFFLES = {"broadcast": take(lambda lane, width: 1), "shuffle": take(lambda lane, width: 1 if lane % 4 == 3 else 2),
            "shuffle_xor": take(lambda lane, width: lane ^ 2), "shuffle_up": take(lambda lane, width: lane - 1),
            "shuffle_down": take(lambda lane, width: lane + 1),
            "shuffle_rotate_up": take(lambda lane, width: (lane - 3) % width),
            "shuffle_rotate_down": take(lambda lane, width: (lane + 3) % width),
            "shuffle_and_fill_up": filled(-3), "shuffle_and_fill_down": filled(3)}
BLOCKS = {"simd_fill_up_8": filled(-3, 8), "simd_fill_down_8": filled(3, 8), "quad_fill_up_2": filled(-1, 2),
          "quad_fill_down_2": filled(1, 2)}


def check(functions, name, type_name, expected, period, threads=WIDTH * GROUPS):
    """Run the kernel `name` on small random integers, and compare every active lane."""
    rng = np.random.default_rng(len(name) + len(type_name))
    kind, (count, stored) = TYPES[type_name], components(type_name)
    choice = [1, 2] if "u" in kind else [-1, 1, 2]
    values = rng.choice(choice, (threads, stored)) if "product" in name else rng.integers(0, 4, (threads, stored))
    fills = rng.integers(4, 8, (threads, stored))
    if "product" in name:
        values[rng.random(values.shape) < 0.8] = 1  # mostly ones, to avoid overflow
    memory = [functions.memory(to_memory(x, kind)) for x in (np.full_like(values, 100), values, fills)]
    message = functions.run(f"{name}_{type_name}", *memory, np.array([period], np.uint32), grid=(1,), group=(threads,))
    assert message == ""
    result = from_memory(memory[0].get(), kind)
    size = WIDTH if name.startswith("simd") else 4
    for first in range(0, threads, size):
        lanes = np.arange(first, min(first + size, threads))
        active = [i for i in lanes if (i % WIDTH) % period == 1 % period]
        for i in lanes:
            want = np.full(stored, 100)
            if i in active:
                want = expected(values[lanes], fills[lanes], [j - first for j in active], i - first)
            np.testing.assert_array_equal(result[i, :count], want[:count], f"{name} {type_name} lane {i}")


@pytest.mark.parametrize("name", [*FOLDS, *BITS])
@pytest.mark.parametrize("level", ["simd", "quad"])
def test_folds(functions, level, name):
    """Reduce over all lanes, over every third lane, and over a partial SIMD group."""
    for type_name in TYPES if name in FOLDS else INTEGERS:
        for period, threads in ((1, 64), (3, 64), (1, 52)):
            check(functions, f"{level}_{name}", type_name, {**FOLDS, **BITS}[name], period, threads)


@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("level", ["simd", "quad"])
def test_shuffles(functions, level, name):
    for type_name in TYPES:
        check(functions, f"{level}_{name}", type_name, SHUFFLES[name], 1)


def test_lanes_past_the_end_of_the_last_group_are_zero(functions):
    """Metal leaves these values undefined, but PyTorch's 64-bit reductions expect 0 (c10/metal/reduction_utils.h)."""
    steps = {"shuffle_down": lambda lane: lane + 1, "shuffle_rotate_down": lambda lane: (lane + 3) % WIDTH,
             "shuffle_xor": lambda lane: lane ^ 2}
    for name, source in steps.items():
        def expected(v, fill, active, lane, source=source):
            s = source(lane)
            return v[s] if s < len(v) else v[lane] if s >= WIDTH else np.zeros_like(v[lane])
        for type_name in TYPES:
            check(functions, f"simd_{name}", type_name, expected, 1, threads=WIDTH + 17)


@pytest.mark.parametrize("name", BLOCKS)
def test_fills_in_blocks(functions, name):
    for type_name in TYPES:
        check(functions, name, type_name, BLOCKS[name], 1)


def bits(flags):
    return sum(1 << i for i, f in enumerate(flags) if f)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_votes(control, fraction):
    flags = (np.random.default_rng(3).random(64) < fraction).astype(np.uint8)
    out, x = control.memory(np.zeros((64, 14), np.uint64)), control.memory(flags)
    assert control.run("votes", out, x, grid=(1,), group=(64,)) == ""
    lanes = np.arange(64) % 32
    active = lanes % 3 != 0
    for i in range(64):
        want = [0] * 14
        if active[i]:
            simd = slice(i // 32 * 32, i // 32 * 32 + 32)
            quad = slice(i // 4 * 4, i // 4 * 4 + 4)
            for s, at in ((simd, 0), (quad, 7)):
                votes, present = flags[s].astype(bool) & active[s], active[s]
                want[at:at + 5] = [bits(votes), votes.any(), (votes == present).all(), bits(present),
                                   i == s.start + np.argmax(present)]
                want[at + 5] = votes.any()
            want[6] = False  # inactive lanes do not vote
            want[13] = False
        assert out.get()[i].tolist() == [int(x) for x in want], i


def test_branches_and_loops(control):
    """In a branch, SIMD functions cover only the lanes that take it. The lanes reconverge after the branch."""
    out = control.memory(np.zeros((64, 6), np.float32))
    assert control.run("branches", out, grid=(1,), group=(64,)) == ""
    lane = np.arange(64) % 32
    want = np.stack([np.where(lane < 10, 10, -22), [sum(32 - k for k in range(n + 1)) for n in lane], np.full(64, 32),
                     lane % 2 * 16, np.full(64, 32), np.choose(lane % 4, [8, 16, 48, 48])], 1)
    np.testing.assert_array_equal(out.get(), want)


def test_simdgroup_barrier_in_loops_of_different_lengths(control):
    """SIMD groups run different numbers of iterations, but all lanes within a SIMD group run the same number."""
    limits = np.repeat([3, 5], 32).astype(np.uint32)
    out, x = control.memory(np.zeros(64, np.float32)), control.memory(limits)
    assert control.run("left_early", out, x, grid=(1,), group=(64,)) == ""
    np.testing.assert_array_equal(out.get(), limits * 32 * 32 + limits * 32)


@pytest.mark.parametrize("threads", [1, 31, 32, 33, 256, 1000, 1024])
def test_barriers(control, threads):
    x = np.arange(4 * threads, dtype=np.int32).reshape(4, threads)
    out, given = control.memory(np.zeros_like(x)), control.memory(x)
    assert control.run("reversed", out, given, 4 * threads, grid=(4,), group=(threads,)) == ""
    for _ in range(3):
        x = (x[:, ::-1] + 1) * 2
    np.testing.assert_array_equal(out.get(), x)


@pytest.mark.parametrize("group", [(8, 4, 2), (33, 1, 1), (5, 5, 5), (1, 1, 7)])
def test_positions(control, group):
    """Threadgroups at the end of the grid are smaller."""
    grid = (21, 9, 5)
    out = control.memory(np.zeros((grid[2], grid[1], grid[0], 31), np.uint32))
    assert control.run("positions", out, grid=grid, group=group, by_threads=True) == ""
    result, total = out.get(), int(np.prod(group))
    groups = [-(-g // n) for g, n in zip(grid, group, strict=True)]
    for x, y, z in itertools.product(*map(range, grid)):
        at = [p // n for p, n in zip((x, y, z), group, strict=True)]
        local = [p % n for p, n in zip((x, y, z), group, strict=True)]
        size = [min(n, g - a * n) for n, g, a in zip(group, grid, at, strict=True)]
        threads = int(np.prod(size))
        index = local[0] + size[0] * (local[1] + size[1] * local[2])
        want = [x, y, z, *grid, *at, *groups, *local, index, *size[:2], *group, index % 32, index // 32,
                -(-threads // 32), -(-total // 32), 32, 32, index % 4, index // 4, -(-threads // 4), -(-total // 4)]
        assert result[z, y, x].tolist() == want


@pytest.mark.parametrize("name", ["float", "half"])
def test_threadgroup_variables(control, name):
    out = control.memory(np.zeros(64, np.float32))
    assert control.run(f"variables_{name}", out, grid=(1,), group=(64,)) == ""
    j = (np.arange(64) + 1) % 64
    boxes = np.arange(64)[::-1]
    expected = j + 100.0 * (j + 1) + 10000.0 * (j + 2) + 2 + 3 + boxes + sum(range(64))
    np.testing.assert_array_equal(out.get(), expected)
