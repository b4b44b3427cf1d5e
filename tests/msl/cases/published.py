import numpy as np
from cases.common import Run

F = np.float32


def initial_values(run: Run):
    (out,) = run(run.lib.initial_values, np.zeros(32, F), outputs=[0], threads=32, group_size=32)
    assert out.tolist() == [496 + 1 + 3] * 32


def names_of_functions(run: Run):
    a, b = run.rng.standard_normal((2, 50)).astype(F)
    (out,) = run(run.lib.fmax, np.zeros(50, F), a, b, outputs=[0], threads=50)
    run.close(out, np.fmax(a, b))
    (out,) = run(run.lib.i0_float, np.zeros(50, F), a, outputs=[0], threads=50)
    run.close(out, 4 * a)


def words_in_any_order(run: Run):
    (out,) = run(run.lib.counts_half, np.zeros(5, np.float16), outputs=[0], threads=5)
    assert out.tolist() == [1, 2, 3, 4, 5]
    (out,) = run(run.lib.counts_down, np.zeros(3, np.int32), outputs=[0], threads=3)
    assert out.tolist() == [0, -1, -2]
    assert run.lib.counts_down.max_threads_per_threadgroup == 64


def matrices(run: Run):
    a, b = run.rng.standard_normal((2, 8, 8)).astype(F)
    (out,) = run(run.lib.simdgroup_product_8x8, np.zeros((8, 8), F), a, b, outputs=[0], threads=32, group_size=32)
    run.close(out, a @ b + 1, atol=1e-5)


def lists(run: Run):
    (out,) = run(run.lib.lists, np.zeros(6, np.uint32), 12, 10, outputs=[0], threads=1)
    assert out.tolist() == [12, 10, 12 ^ 10, 0, 41, 1]


def constants(run: Run):
    for forward in (True, False):
        kernel = run.lib.constants.with_constants(forward=forward)
        (out,) = run(kernel, np.zeros(3, F), outputs=[0], threads=1)
        assert out.tolist() == [1 if forward else -1, 11, 2 if forward else 0.5]


def deduced_arguments(run: Run):
    for name, dtype in (("float", F), ("half", np.float16)):
        x, by = np.arange(6).astype(dtype), np.array([3, 0.5], dtype)
        (out,) = run(getattr(run.lib, f"scaled_{name}"), np.zeros(6, F), x, by, outputs=[0], threads=6, group_size=1)
        run.close(out, np.arange(6) * 3 + 2.5)


def classes(run: Run):
    (out,) = run(run.lib.from_classes, np.zeros(3, F), outputs=[0], threads=1)
    assert out.tolist() == [3, 3, 3]
    (out,) = run(run.lib.limits_of_classes, np.zeros(2, F), outputs=[0], threads=1)
    assert out.tolist() == [np.finfo(F).min, 7]


def divisions(run: Run):
    for name, dtype in (("int", np.int32), ("ulong", np.uint64), ("char", np.int8), ("short", np.int16),
                        ("int4", np.int32)):  # fmt: skip
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        a = np.array([7, 9, low, high, 100, 0, 5, low] * 2, dtype)
        b = np.array([0, 4, 0, 7, 3, 0, 5, -1 if low else 1] * 2).astype(dtype)
        count = a.size // 4 if name == "int4" else a.size
        quotient, rest = run(getattr(run.lib, f"divisions_{name}"), np.zeros_like(a), np.zeros_like(a), a, b,
                             outputs=[0, 1], threads=count)  # fmt: skip
        for i, d in enumerate(map(int, b)):
            if d:
                whole = abs(int(a[i])) // abs(d) * (1 if (a[i] >= 0) == (d >= 0) else -1)
                assert int(rest[i]) == int(a[i]) - whole * d
                assert (int(quotient[i]) - whole) % (high - low + 1) == 0
    b = np.arange(64, dtype=np.uint32)
    (out,) = run(run.lib.divisions_in_groups, np.zeros(64, np.uint32), b, outputs=[0], threads=64, group_size=64)
    assert out[:63].tolist() == [100 // d for d in range(63, 0, -1)]


def unions(run: Run):
    (out,) = run(run.lib.unions, np.zeros(2, np.uint32), np.array([12345, 67890], np.uint32), outputs=[0], threads=1)
    x, y = 12345, 67890
    for _ in range(2):
        x, y = x ^ y >> 3, y ^ x >> 3
    assert out.tolist() == [x, y & 255]


CASES = [initial_values, names_of_functions, words_in_any_order, matrices, lists, constants, deduced_arguments, classes,
         divisions, unions]  # fmt: skip
