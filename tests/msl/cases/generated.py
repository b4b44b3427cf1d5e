import numpy as np
from cases.common import Run, structure

F = np.float32


def spirv(run: Run):
    x = run.rng.standard_normal((70, 4)).astype(F)
    m = run.rng.standard_normal((2, 2)).astype(F)
    weights = np.array([0.5, 1.5, 2.0], F)
    block = structure("u4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 x4", 0, 1, 2, 3, *m.ravel(), *weights)
    for constants, first in ({}, 2), ({"_40_tmp": 5}, 5):
        kernel = run.lib.main0.with_constants(constants) if constants else run.lib.main0
        out = np.zeros_like(x)
        (got,) = run(kernel, x, out, block, outputs=[1], threads=70, group_size=32)
        want = x * 2 + np.array([1, 2, 3, 0], F) + np.arange(70, dtype=F)[:, None] * np.array([0, 0, 0, 1], F)
        zero = np.arange(70) % 32 == 0
        rest = want[~zero, :2]
        # vector * matrix computes the dot product with each column.
        want[~zero, :2] = (rest - 2 * np.floor(rest / 2)) @ m.T
        want[zero] += np.array([1, 2, 3, 1 + first], F)
        run.close(got, want, atol=1e-4)


def wgsl(run: Run):
    n = np.array([27, 1, 97, 871, 6, 0], np.uint32)
    indices = np.concatenate([[0, 0], n]).astype(np.uint32)
    particles = np.zeros(6, [("p", F, 3), ("pad", F), ("v", F, 3), ("t", np.int32)])
    particles["p"], particles["v"] = run.rng.standard_normal((2, 6, 3))
    particles["t"] = [5, -7, 0, 1, 2, 3]
    sizes = np.array([indices.nbytes], np.uint32)
    got, moved = run(run.lib.main_, indices, particles.view(F), sizes, outputs=[0, 1], threads=6)
    steps = []
    for first in map(int, n):
        k, v = 0, first
        while v > 1:
            v, k = (v // 2 if v % 2 == 0 else 3 * v + 1), k + 1
        steps.append(k)
    assert got[2:].tolist() == steps
    assert got[1] == sum(s > 5 for s in steps)
    moved = moved.view(particles.dtype)
    # In WGSL, division by zero returns the dividend.
    run.close(moved["p"], particles["p"] + 2 * particles["v"] + (particles["t"] * 10 + 3)[:, None].astype(F))
    run.close(moved["v"], -particles["v"])


def tensor_compiler(run: Run):
    a = run.rng.standard_normal((2, 16, 4, 4)).astype(F)
    b = run.rng.standard_normal((2, 16, 4, 4)).astype(np.float16)
    (got,) = run(run.lib.r_2_16_4_8, np.zeros(2, F), a, b, outputs=[0], threads=32, group_size=16)
    first = a[..., 0].sum(-1) + b[..., 3, 1].astype(F)
    want = (first + (a[..., 1] * a[..., 2]).sum(-1) * np.exp2(a[..., 3].max(-1) * F(0.25))).sum(-1)
    run.close(got, want, rtol=1e-4)
    x, y = run.rng.standard_normal((8, 16)).astype(F), run.rng.standard_normal((16, 8)).astype(F)
    (got,) = run(run.lib.wmma, np.zeros((8, 8), F), x, y, outputs=[0], threads=32, group_size=32)
    run.close(got, x @ y, atol=1e-5)


def loop_compiler(run: Run):
    a = run.rng.standard_normal((3, 128)).astype(F)
    arguments = np.array([100, 0, 128], np.int32)
    (got,) = run(run.lib.default_function_kernel, a, np.zeros((3, 64), F), arguments, outputs=[1], threads=96,
                 group_size=32)  # fmt: skip
    run.close(got[:, ::2], np.repeat(a[:, :100].sum(1)[:, None], 32, 1), atol=1e-5)
    assert (got[:, 1::2] == np.arange(32)).all()


def tracing_compiler(run: Run):
    root = np.zeros((64, 2), F)
    root[:, 0] = run.rng.integers(-8, 8, 64)
    context = np.zeros(2, F)
    changed, totals = run(run.lib.mtl_k0001, root, context, outputs=[0, 1], threads=24, group_size=8)
    assert totals[0] == 2 * root[:, 0].sum()
    assert totals[1:].view(np.int32)[0] == 64
    assert changed[:, 1].view(np.int32).tolist() == [(i - 5) // 3 for i in range(64)]


CASES = [spirv, wgsl, tensor_compiler, loop_compiler, tracing_compiler]
