import numpy as np
from cases.common import Run

F = np.float32


def classes(run: Run):
    x = run.rng.standard_normal(4) + 1j * run.rng.standard_normal(4)
    x = x.astype(np.complex64)
    got, out = run(run.lib.classes, x, np.zeros(8, F), outputs=[0, 1], threads=4, group_size=4)
    run.close(got.view(F), (x + np.roll(x * 1j, -1) + 1 - x.conj()).astype(np.complex64).view(F))
    run.close(out, [*(x.imag + 10 + 1 - 1), *[6] * 4])


def templates(run: Run):
    (out,) = run(run.lib.templates, np.zeros(8, F), np.array([1, 2, 3, 4], np.uint8), outputs=[0], threads=1)
    run.close(out, [1 + 40 + 4, 3, 13, 1.5 + 6 + 1 + 2, 2 + 6 + 9, 6 + 4, 6 + 0.5 + 0x1000100 + 4, 27])


def arrays(run: Run):
    points = run.rng.standard_normal((18, 3)).astype(F)
    m = run.rng.standard_normal((4, 4)).astype(F)
    (out,) = run(run.lib.arrays, np.zeros(48, F), points, m, outputs=[0], threads=(4, 4), group_size=(4, 4))
    n = np.arange(16)
    x, y = n % 4, n // 4
    run.close(out[:16], (x * 4 + y) + 120 + 10 + 2 * 3 + np.linalg.norm(m[1]), rtol=1e-5)
    run.close(out[16:32], points[:16, 2] - points[:16, 0] + points[1, 1])
    run.close(out[32:], np.where(n & 1, points[2, 0], 0))


def alignments(run: Run):
    (out,) = run(run.lib.alignments, np.zeros(4, F), outputs=[0], threads=4, group_size=4)
    assert out.tolist() == [1 + 2 + 7 + 3 + 4 + 5 + 6 + 8 + 4 + 9] * 4
    assert 380 <= run.lib.alignments.static_thread_group_memory_length <= 416
    (x,) = run(run.lib.composed_float, np.arange(5, dtype=F), outputs=[0], threads=5, group_size=5)
    assert x.tolist() == [0, 4, 16, 36, 64]


def literals(run: Run):
    out, bits = run(run.lib.literals, np.zeros(10, F), np.zeros(3, np.uint32), outputs=[0, 1], threads=1)
    half_pi, half_root = float(np.float16(np.pi)), float(np.float16(np.sqrt(2)))
    # The assignments change (1, 1, 1, 1) to (5, 1, 6, 1), (5, 6, 6, 6) and (6, 5, 6, 6). Then w = 2 * y and x *= 2.
    run.close(out, [12 + 0.01 + 0.5 + 2 + 1 + 1.5 + 0.25, 11 + 15 + 97 + 100000 + 7 + 255 + 3, 1,
                    np.pi + half_pi + half_root + 2**-23 + 65504, 12 + 50 + 600 + 10000, expected_w(),
                    2 + 1 + 1, -2 + 3 + 2 + 44 - 56 + 65535, 2 + 1 + 1, 16 + 6 + 8 + 2 * 4])  # fmt: skip
    assert bits.tolist() == [0x3F800001 + 0x3F80, 1 + 310 + 3000 + 4464 * 10000, 0x04030201 + 1 + 6 + 4]


def expected_w() -> int:
    """Compute ~w % 5 for w = int2(3, 2) after w[1] <<= 2 and w ^= 1. The remainder has the sign of the dividend."""
    w = [3 ^ 1, (2 << 2) ^ 1]
    x, y = (-((-~v) % 5) for v in w)
    return x * 10 + y + (x == y) + 1


def flow(run: Run):
    (out,) = run(run.lib.flow, np.zeros(6, F), np.array([5], np.int32), outputs=[0], threads=1)
    s = 6 + (0 + 1 + 3 + 4) + 2.5 - 3 + 2
    s += 2 + 2 * 3 + 10 + 1100
    run.close(out, [s, 12, 2, 3 + 10 * (2 + 4), 4.5, 3 + 16])
    for name, dtype, f in (("square", F, np.square), ("negate", np.int32, np.negative), ("not", np.uint8, np.invert)):
        x = np.arange(9).astype(dtype)
        (got,) = run(getattr(run.lib, f"k_{name}"), x, outputs=[0], threads=9)
        assert (got == f(x)).all()


def gated(run: Run):
    x, bias = run.rng.standard_normal((2, 50)).astype(F)
    out = np.zeros_like(x)
    gate = run.lib.gated.with_constants
    (got,) = run(gate(has_bias=True, activation=1), out, x, bias, outputs=[0])
    run.close(got, np.maximum(x + bias, 0))
    (got,) = run(gate({"has_bias": False, 1: 2, "scale_tmp": [2.0, 0.5]}), out, x, 0.25, outputs=[0])
    run.close(got, np.square(x * 2 + 0.75))


def simd_corners(run: Run):
    (out,) = run(run.lib.simd_corners, np.zeros(288, F), outputs=[0], threads=32, group_size=32)
    lane = np.arange(32)
    rows = out.reshape(9, 32)
    assert rows[0].tolist() == [*(100 + 29, 100 + 30, 100 + 31), *range(29)]
    assert rows[1].tolist() == [*range(2, 32), 0, 1]
    assert rows[2].tolist() == (np.cumsum(lane) - lane + 1).tolist()
    assert rows[3].tolist() == [11 + 100] * 32
    assert rows[4].tolist() == [15, 5, 5, 5, 5] + [0] * 27
    quad = lane // 4 * 4
    assert rows[5].tolist() == (7 + (quad * 4 + 6) * 100 + quad + 1).tolist()
    assert rows[6].tolist() == ((lane + 31) % 32 + 100 + 8000).tolist()
    assert rows[7].tolist() == [0 + 0 + 31 + 2] * 32
    assert rows[8].tolist() == [1] * 32


CASES = [classes, templates, arrays, alignments, literals, flow, gated, simd_corners]
