import numpy as np
import torch
from cases.common import Run, structure

F = np.float32


def matmul(run: Run):
    m, n, k = 37, 50, 29
    a, b = run.rng.standard_normal((m, k)).astype(F), run.rng.standard_normal((k, n)).astype(F)
    c = run.rng.standard_normal((m, n)).astype(F)
    parameters = structure("u4 u4 u4 f4 f4", m, n, k, 0.5, 2)
    (got,) = run(run.lib.matmul_tiled, a, b, c, parameters, outputs=[2], threads=(64, 48), group_size=(16, 16))
    run.close(got, 0.5 * (a @ b) + 2 * c, atol=1e-5)


def simdgroup_matrices(run: Run):
    a, b = run.rng.standard_normal((64, 48)), run.rng.standard_normal((48, 32))
    kernels = (("float_float", np.float32), ("half_float", np.float16), ("half_half", np.float16))
    for name, dtype in kernels:
        kernel = getattr(run.lib, f"gemm_simdgroup_{name}")
        assert kernel.max_threads_per_threadgroup == 128
        out = np.zeros((64, 32), np.float16 if name == "half_half" else F)
        x, y = a.astype(dtype), b.astype(dtype)
        (got,) = run(kernel, x, y, out, [64, 32, 48], outputs=[2], arg_casts={3: "uint32"}, threads=(128, 2),
                     group_size=(128, 1), threadgroup_memory={0: 4096})  # fmt: skip
        run.close(got, x.astype(F) @ y.astype(F), atol=0.05 if name == "half_half" else 1e-4)
    x, y = torch.from_numpy(a).bfloat16(), torch.from_numpy(b).bfloat16()
    out = torch.zeros(64, 32, device="mpsx")
    run.lib.gemm_simdgroup_bfloat_float(x.to("mpsx"), y.to("mpsx"), out, [64, 32, 48], arg_casts={3: "uint32"},
                                        threads=(128, 2), group_size=(128, 1), threadgroup_memory={0: 4096})
    run.close(out.cpu(), x.float() @ y.float(), atol=1e-4)


def scan(run: Run):
    x = run.rng.integers(-50, 50, 1300).astype(np.int32)
    got, sums = run(run.lib.scan_blocks, x, np.zeros(3, np.int32), np.array([1300], np.uint32), outputs=[0, 1],
                    threads=768, group_size=256)  # fmt: skip
    for block in range(3):
        part = x[512 * block : 512 * (block + 1)]
        assert (got[512 * block : 512 * (block + 1)] == np.cumsum(part) - part).all()
        assert sums[block] == part.sum()


def bitonic(run: Run):
    x = run.rng.integers(0, 1 << 32, 512, dtype=np.uint32)
    k, now = 2, x
    while k <= 512:
        j = k // 2
        while j:
            (now,) = run(run.lib.bitonic_step, now, np.array([k], np.uint32), np.array([j], np.uint32), outputs=[0])
            j //= 2
        k *= 2
    assert (now == np.sort(x)).all()
    keys, values = run.rng.integers(0, 20, 256).astype(F), np.arange(256, dtype=np.uint32)
    got, order = run(run.lib.bitonic_local, keys, values, outputs=[0, 1], group_size=256)
    assert (order == np.argsort(keys, kind="stable")).all()
    assert (got == np.sort(keys)).all()


def histogram(run: Run):
    pixels = run.rng.integers(0, 256, (3000, 4)).astype(np.uint8)
    bins = np.zeros((3, 256), np.uint32)
    (bins,) = run(run.lib.histogram, pixels, bins, np.array([3000], np.uint32), outputs=[1],
                  threads=512, group_size=128)  # fmt: skip
    for c in range(3):
        assert (bins[c] == np.bincount(pixels[:, c], minlength=256)).all()


def nbody(run: Run):
    bodies = run.rng.standard_normal((128, 2, 4)).astype(F)
    bodies[:, 0, 3] = np.abs(bodies[:, 0, 3])
    (got,) = run(run.lib.nbody, bodies, np.zeros_like(bodies), np.array([128], np.uint32), 0.01, outputs=[1],
                 threads=128, group_size=64, threadgroup_memory={0: 64 * 16})  # fmt: skip
    p, v, mass = bodies[:, 0, :3].astype(float), bodies[:, 1, :3].astype(float), bodies[:, 0, 3].astype(float)
    r = p[None] - p[:, None]
    a = (r * (mass[None] * ((r**2).sum(-1) + 0.01) ** -1.5)[..., None]).sum(1)
    v = v + a * 0.01
    run.close(got[:, 1, :3], v, atol=1e-4)
    run.close(got[:, 0, :3], p + v * 0.01, atol=1e-4)


def reductions(run: Run):
    for low in (-3, -9):
        x = (run.rng.standard_normal(1000) + low).astype(F)
        total, largest, n = np.zeros(1, F), np.zeros(1, np.uint32), np.array([1000], np.uint32)
        total, largest = run(run.lib.reduce_tree, x, total, largest, n, outputs=[1, 2], threads=1024, group_size=256)
        run.close(total, x.sum(), rtol=1e-4)
        bits = np.where(largest & 0x80000000, largest ^ 0x80000000, ~largest).astype(np.uint32)
        assert bits.view(F)[0] == x.max()


def tiles(run: Run):
    x = run.rng.standard_normal((45, 70)).astype(np.float16)
    (got,) = run(run.lib.transpose, x, np.zeros((70, 45), np.float16), np.array([70, 45], np.uint32), outputs=[1],
                 threads=(96, 16), group_size=(32, 8))  # fmt: skip
    assert (got == x.T).all()
    x = run.rng.standard_normal(1000).astype(F)
    (got,) = run(run.lib.stencil, x, np.zeros_like(x), np.array([1000], np.int32), outputs=[1], threads=1024,
                 group_size=256)  # fmt: skip
    run.close(got, np.convolve(x, [0.03, 0.11, 0.22, 0.28, 0.22, 0.11, 0.03], "same"), atol=1e-5)


CASES = [matmul, simdgroup_matrices, scan, bitonic, histogram, nbody, reductions, tiles]
