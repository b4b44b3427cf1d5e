import hashlib

import numpy as np
from cases.common import Run

F = np.float32


def digests(run: Run):
    for length in (0, 3, 55, 56, 64, 200):
        messages = run.rng.integers(0, 256, (4, max(length, 1))).astype(np.uint8)
        (got,) = run(run.lib.sha256, messages, np.zeros((4, 32), np.uint8), np.array([length], np.uint32), outputs=[1],
                     threads=4)  # fmt: skip
        for m, d in zip(messages, got, strict=True):
            assert d.tobytes() == hashlib.sha256(m[:length].tobytes()).digest()


def rotated(x: int, n: int, bits: int) -> int:
    return (x << n | x >> (bits - n)) & ((1 << bits) - 1)


def ciphers(run: Run):
    key, nonce = np.arange(32, dtype=np.uint8), np.array([0, 0, 0, 9, 0, 0, 0, 0x4A, 0, 0, 0, 0], np.uint8)
    (got,) = run(run.lib.chacha20, key, nonce, np.zeros((2, 16), np.uint32), outputs=[2], threads=2)
    # The nonce of the test vector in RFC 8439, section 2.3.2.
    nonce[3], nonce[7] = 9, 0x4A
    want = """e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3
              466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2"""
    assert got[0].tolist() == [int(w, 16) for w in want.split()]
    x = run.rng.integers(0, 1 << 63, 20).astype(np.uint64)
    (got,) = run(run.lib.xxhash64, x, np.zeros_like(x), outputs=[1])
    p1, p2, p3, p5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5
    mask = (1 << 64) - 1
    for v, h in zip(x.tolist(), got.tolist(), strict=True):
        w = (p5 + 8) ^ rotated(v * p2 & mask, 31, 64) * p1 & mask
        w = (rotated(w, 27, 64) * p1 + 0x85EBCA77C2B2AE63) & mask
        w = (w ^ w >> 33) * p2 & mask
        w = (w ^ w >> 29) * p3 & mask
        assert h == w ^ w >> 32


def big_numbers(run: Run):
    a, b = run.rng.integers(0, 1 << 63, (2, 9, 4)).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    (got,) = run(run.lib.big_numbers, a, b, np.zeros((9, 4, 4), np.uint64), outputs=[2], threads=9)

    def number(words: np.ndarray) -> int:
        return sum(int(w) << (64 * i) for i, w in enumerate(words))

    for x, y, results in zip(a, b, got, strict=True):
        x, y = number(x), number(y)  # noqa: PLW2901
        assert [number(r) for r in results] == [(x + y) % 2**256, x * y % 2**256, x >> 67, int(x >= y)]


def bvh(run: Run):
    low = run.rng.random((32, 1, 3)) * 4
    triangles = (low + 2.5 * run.rng.random((32, 3, 3))).astype(F)
    triangles = triangles[np.argsort(triangles[:, 0, 0])]
    nodes = np.zeros(15, [("low", F, 3), ("left", np.int32), ("high", F, 3), ("count", np.int32)])
    for i in range(14, -1, -1):
        if i >= 7:
            part = triangles[(i - 7) * 4 : (i - 6) * 4].reshape(-1, 3)
            nodes[i] = part.min(0), (i - 7) * 4, part.max(0), 4
        else:
            a, b = nodes[2 * i + 1], nodes[2 * i + 2]
            nodes[i] = np.minimum(a["low"], b["low"]), 2 * i + 1, np.maximum(a["high"], b["high"]), 0
    rays = np.zeros(64, [("o", F, 3), ("tmin", F), ("d", F, 3), ("tmax", F)])
    rays["o"] = run.rng.random((64, 3)) * 5
    rays["o"][:, 2] = -1
    rays["d"], rays["tmax"] = run.rng.standard_normal((64, 3)) * 0.2 + [0, 0, 1], 100
    hits = np.zeros(64, [("t", F), ("i", np.int32), ("uv", F, 2)])
    (got,) = run(run.lib.trace, rays, nodes, triangles, hits, outputs=[3], threads=64)
    found = 0
    for ray, hit in zip(rays, got, strict=True):
        best = (100.0, -1)
        for k, (a, b, c) in enumerate(triangles.astype(float)):
            m = np.stack([-ray["d"].astype(float), b - a, c - a], 1)
            t, u, v = np.linalg.solve(m, ray["o"].astype(float) - a)
            if u >= 0 and v >= 0 and u + v <= 1 and 0 < t < best[0]:
                best = (t, k)
        assert hit["i"] == best[1]
        found += best[1] >= 0
        run.close(hit["t"], best[0], rtol=1e-4)
    assert found > 5


def isosurface(run: Run):
    n = 6
    z, y, x = np.mgrid[:n, :n, :n].astype(F)
    field = (2.2 - np.sqrt((x - 2.3) ** 2 + (y - 2.4) ** 2 + (z - 2.6) ** 2)).astype(F)
    out, count = np.full((600, 3), -1, F), np.zeros(1, np.uint32)
    out, count = run(run.lib.tetrahedra, field, out, count, np.array([n, n, n, 0], np.uint32), outputs=[1, 2],
                     threads=(n, n, n), group_size=(4, 2, 2))  # fmt: skip
    triangles = 3 * int(count[0])
    assert triangles > 20
    assert (out[triangles:] == -1).all()
    distance = np.linalg.norm(out[:triangles] - [2.3, 2.4, 2.6], axis=1)
    assert np.abs(distance - 2.2).max() < 0.3


def fourier(run: Run):
    for n in (64, 128):
        x = (run.rng.standard_normal((3, n)) + 1j * run.rng.standard_normal((3, n))).astype(np.complex64)
        (got,) = run(getattr(run.lib, f"fft_{n}"), x, np.zeros_like(x), outputs=[1], threads=3 * n // 4,
                     group_size=n // 4)  # fmt: skip
        run.close(got.view(F), np.fft.fft(x).astype(np.complex64).view(F), rtol=1e-4, atol=1e-4)


def sparse_and_sorted(run: Run):
    dense = run.rng.standard_normal((20, 90)) * (run.rng.random((20, 90)) < 0.4)
    rows, columns = np.nonzero(dense)
    start = np.searchsorted(rows, np.arange(21)).astype(np.uint32)
    x = run.rng.standard_normal(90).astype(F)
    (got,) = run(run.lib.spmv_csr, start, columns.astype(np.uint32), dense[rows, columns].astype(F), x,
                 np.zeros(20, F), outputs=[4], threads=20 * 32, group_size=32)  # fmt: skip
    run.close(got, dense @ x, atol=1e-5)
    keys = run.rng.integers(0, 1 << 12, 256).astype(np.uint32)
    (got,) = run(run.lib.radix_sort_block, keys, np.array([12], np.uint16), outputs=[0], threads=256, group_size=256)
    assert (got == np.sort(keys)).all()


def images(run: Run):
    image = run.rng.integers(0, 256, (13, 18, 4)).astype(np.uint8)
    for name, mode in (("clamp", "edge"), ("mirror", "symmetric")):
        (got,) = run(getattr(run.lib, f"sobel_{name}"), image, np.zeros_like(image), np.array([18, 13], np.int32),
                     outputs=[1], threads=(24, 16), group_size=(8, 8))  # fmt: skip
        luma = np.pad(image[..., :3] / 255 @ [0.2126, 0.7152, 0.0722], 1, mode)
        rows = luma[:-2] + 2 * luma[1:-1] + luma[2:]
        columns = luma[:, :-2] + 2 * luma[:, 1:-1] + luma[:, 2:]
        edge = np.hypot(rows[:, 2:] - rows[:, :-2], columns[2:] - columns[:-2]).clip(0, 1) * 255
        assert np.abs(got[..., 0] - edge).max() <= 1
        assert (got[..., 3] == image[..., 3]).all()
    y, uv = run.rng.integers(0, 256, (8, 10)).astype(np.uint8), run.rng.integers(0, 256, (4, 5, 2)).astype(np.uint8)
    (got,) = run(run.lib.nv12_to_rgb, y, uv, np.zeros((8, 10, 3), np.uint8), np.array([10], np.uint32), outputs=[2],
                 threads=(10, 8), group_size=(5, 4))  # fmt: skip
    u, v = (uv.repeat(2, 0).repeat(2, 1) - 128.0).transpose(2, 0, 1)
    want = np.stack([y + 1.4 * v, y - 0.343 * u - 0.711 * v, y + 1.765 * u], -1).clip(0, 255)
    assert np.abs(got - want).max() <= 1


CASES = [digests, ciphers, big_numbers, bvh, isosurface, fourier, sparse_and_sorted, images]
