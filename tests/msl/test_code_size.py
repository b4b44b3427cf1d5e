"""Limit the code size of shaders that inlining and unrolling would blow up: hashes, big integers, elliptic curves.

Checks the estimated size (mpsx.msl.code_size), and compares the results with hashlib and with Python integers.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import mpsx
from mpsx.msl import code_size

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from curves import FIELD, G1, G2, SCALAR_FIELD, Fp2, add, decoded, encoded, multiple  # noqa: E402


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Return a function that compiles Metal source and returns the library and its size estimate."""
    monkeypatch.setenv("MPSX_CACHE_DIR", str(cache))
    estimates = []

    class Recorded(code_size.Estimate):
        def reduce(self) -> None:
            self.before = sum(f.size for f in self.roots())
            super().reduce()
            self.after = sum(f.size for f in self.roots())
            estimates.append(self)

    monkeypatch.setattr(code_size, "Estimate", Recorded)

    def compiled(source: str) -> tuple[object, Recorded]:
        library = mpsx.compile_shader(source)
        return library, estimates.pop()

    return compiled


def names(estimate: code_size.Estimate) -> str:
    return " ".join(estimate.calls)


def words(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(data, np.int32).copy()).to("mpsx")


def data_of(tensor: torch.Tensor) -> bytes:
    return tensor.cpu().numpy().tobytes()


def test_sha256(compiled: Callable) -> None:
    lib, estimate = compiled((HERE / "heavy" / "sha256.metal").read_text())
    assert "compress" in names(estimate)
    assert estimate.before > 25000 and estimate.after < 12000
    rng = np.random.default_rng(0)
    messages = [rng.bytes(40) for _ in range(50)]
    digests = torch.zeros(50 * 8, dtype=torch.int32).to("mpsx")
    lib.hash_short(words(b"".join(messages)), digests, 10, threads=50)
    hashed = [hashlib.sha256(m).digest() for m in messages]
    assert data_of(digests) == b"".join(hashed)
    parents = torch.zeros(25 * 8, dtype=torch.int32).to("mpsx")
    lib.merkle_pair(digests, parents, threads=25)
    want = [hashlib.sha256(a + b).digest() for a, b in zip(hashed[::2], hashed[1::2], strict=True)]
    assert data_of(parents) == b"".join(want)
    header = rng.bytes(76)
    best, firsts = torch.tensor([-1], dtype=torch.int32).to("mpsx"), torch.zeros(100, dtype=torch.int32).to("mpsx")
    lib.search_nonce(words(header), best, firsts, threads=100)
    twice = [hashlib.sha256(hashlib.sha256(header + n.to_bytes(4, "little")).digest()).digest() for n in range(100)]
    want = [int.from_bytes(d[:4], "big") for d in twice]
    assert firsts.cpu().numpy().view(np.uint32).tolist() == want
    assert best.cpu().numpy().view(np.uint32).tolist() == [min(want)]


def permuted(state: list[int], constants: list[int]) -> list[int]:
    """Compute Poseidon2 with a width of three elements (https://eprint.iacr.org/2023/323)."""

    def external(s: list[int]) -> list[int]:
        return [(x + sum(s)) % SCALAR_FIELD for x in s]

    def full(s: list[int], keys: list[int]) -> list[int]:
        return external([pow(x + k, 5, SCALAR_FIELD) for x, k in zip(s, keys, strict=True)])

    s = external(state)
    for r in range(4):
        s = full(s, constants[3 * r : 3 * r + 3])
    for r in range(56):
        s = [pow(s[0] + constants[12 + r], 5, SCALAR_FIELD), *s[1:]]
        s = [(x * d + sum(s)) % SCALAR_FIELD for x, d in zip(s, (1, 1, 2), strict=True)]
    for r in range(4):
        s = full(s, constants[68 + 3 * r : 71 + 3 * r])
    return s


def test_poseidon2(compiled: Callable) -> None:
    constants = [int.from_bytes(hashlib.sha256(b"%d" % i).digest(), "big") % SCALAR_FIELD for i in range(80)]
    limbs = encoded(constants, SCALAR_FIELD).tolist()
    rows = "".join(f"    {{{{{', '.join(map(hex, row))}}}}},\n" for row in limbs)
    lib, estimate = compiled((HERE / "heavy" / "poseidon2.metal").read_text().replace("@CONSTANTS@", rows))
    assert "mul" in names(estimate)
    assert estimate.before > 40000 and estimate.after < 12000
    states = [int.from_bytes(hashlib.sha256(b"s%d" % i).digest(), "big") % SCALAR_FIELD for i in range(30)]
    states[:6] = 0, 0, 0, SCALAR_FIELD - 1, 1, SCALAR_FIELD - 2
    on = words(encoded(states, SCALAR_FIELD).tobytes())
    out = torch.zeros(15 * 8, dtype=torch.int32).to("mpsx")
    lib.hash_pairs(on, out, threads=15)
    lib.permutation(on, threads=10)
    want = [permuted(states[i : i + 3], constants) for i in range(0, 30, 3)]
    assert decoded(data_of(on), SCALAR_FIELD) == [x for s in want for x in s]
    want = [permuted([*states[i : i + 2], 0], constants)[0] for i in range(0, 30, 2)]
    assert decoded(data_of(out), SCALAR_FIELD) == want


@pytest.fixture(scope="module")
def curve() -> str:
    return (HERE / "heavy" / "msm.metal").read_text()


def coordinates(points: list, zero: int | Fp2) -> np.ndarray:
    """Convert affine points to the shader's format, in which two zero coordinates represent infinity."""
    flat = []
    for p in points:
        for c in p or (zero, zero):
            flat += [c.a, c.b] if isinstance(c, Fp2) else [c]
    return encoded(flat, FIELD)


def affine(data: bytes, extension: bool) -> list:
    """Convert the shader's Jacobian points to affine points, with None for the point at infinity."""
    numbers = decoded(data, FIELD)
    if extension:
        numbers = [Fp2(*numbers[i : i + 2]) for i in range(0, len(numbers), 2)]
    found = []
    for x, y, z in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
        if z == 0:
            found.append(None)
        elif extension:
            inverse = z.inverse()
            found.append((x * inverse * inverse, y * inverse * inverse * inverse))
        else:
            inverse = pow(z, -1, FIELD)
            found.append((x * inverse**2 % FIELD, y * inverse**3 % FIELD))
    return found


def test_multi_scalar_multiplication(compiled: Callable, curve: str) -> None:
    lib, estimate = compiled(curve)
    assert "ml" in names(estimate) and "added" in names(estimate)
    assert estimate.before > 1000000 and estimate.after < 16000
    scalars = [1, 2, 3, 4095, 0, 7, 2048, 1234]
    for tag, g in (("g1", G1), ("g2", G2)):
        points = [multiple(g, k) for k in (1, 2, 5, 5, 9)] + [None, multiple(g, FIELD - 1), multiple(g, 3)]
        size = 3 * 8 * (2 if tag == "g2" else 1)
        limbs = np.zeros((8, 8), np.uint32)
        limbs[:, 0] = scalars
        on, by = words(coordinates(points, Fp2(0, 0) if tag == "g2" else 0).tobytes()), words(limbs.tobytes())
        out = torch.zeros(8 * size, dtype=torch.int32).to("mpsx")
        getattr(lib, f"multiply_{tag}")(on, by, out, 12, threads=8)
        want = [multiple(p, s) for p, s in zip(points, scalars, strict=True)]
        assert affine(data_of(out), tag == "g2") == want
        buckets, total = torch.zeros(4 * 7 * size, dtype=torch.int32).to("mpsx"), torch.zeros(size, dtype=torch.int32)
        total = total.to("mpsx")
        getattr(lib, f"fill_buckets_{tag}")(on, by, buckets, 8, 3, threads=(7, 4))
        getattr(lib, f"join_buckets_{tag}")(buckets, total, 4, 3, threads=1)
        sum_ = None
        for p in want:
            sum_ = add(sum_, p)
        assert affine(data_of(total), tag == "g2") == [sum_]


ONCE = """#include <metal_stdlib>
using namespace metal;
struct Number { uint v[8]; };
static inline Number mixed(Number a, int k) {
  Number r = a;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    ulong c = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) { c += ulong(a.v[j]) * a.v[i] + r.v[j] + k; r.v[j] = uint(c); c >>= 32; }
  }
  return r;
}
kernel void k(device Number* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  Number a = x[i];
#pragma unroll
  for (int r = 0; r < 25; ++r) a = mixed(a, r);
  x[i] = a;
}"""


def test_function_called_in_an_unrolled_loop(compiled: Callable) -> None:
    lib, estimate = compiled(ONCE)
    assert "mixed" in names(estimate)
    x = np.random.default_rng(0).integers(0, 2**32, (40, 8), np.uint32)
    on = torch.from_numpy(x.view(np.int32).copy()).to("mpsx")
    lib.k(on, threads=40)
    for begin, got in zip(x.tolist(), on.cpu().numpy().view(np.uint32).tolist(), strict=True):
        current = begin
        for k in range(25):
            r = [*current]
            for i in range(8):
                c = 0
                for j in range(8):
                    c += current[j] * current[i] + r[j] + k & 2**64 - 1
                    r[j], c = c & 0xFFFFFFFF, c >> 32
            current = r
        assert got == current


WAITING = """#include <metal_stdlib>
using namespace metal;
template <int N> inline float long_sum(float x) {
#pragma unroll
  for (int i = 0; i < 400; ++i) x = x * 0.5f + float(i % 3) * (x > N ? 1.0f : 2.0f);
  return simd_sum(x);
}
template <int N> inline float long_part(float x) {
#pragma unroll
  for (int i = 0; i < 400; ++i) x = x * 0.5f + float(i % 3) * (x > N ? 1.0f : 2.0f);
  return x;
}
kernel void k(device float* x [[buffer(0)]], device float* y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  float a = x[i], b = a;
  for (uint n = 0; n < 2; ++n) {
    a = long_part<1>(a) + long_part<1>(a + 1) + long_part<1>(a + 2) + long_part<1>(a + 3);
    if (i & 1) b = long_sum<2>(b); else b = long_sum<2>(b + 1) + long_sum<2>(b);
  }
  x[i] = a; y[i] = b;
}"""


def test_functions_with_simd_operations_stay_inline(compiled: Callable) -> None:
    lib, estimate = compiled(WAITING)
    assert "long_part" in names(estimate) and "long_sum" not in names(estimate)
    x = torch.arange(32.0).to("mpsx")
    y = torch.zeros(32).to("mpsx")
    lib.k(x, y, threads=32, group_size=32)

    def part(x: np.ndarray, n: int) -> np.ndarray:
        for i in range(400):
            x = x * np.float32(0.5) + np.float32(i % 3) * np.where(x > n, 1, 2).astype(np.float32)
        return x

    a, b = np.arange(32, dtype=np.float32), np.arange(32, dtype=np.float32)
    odd = np.arange(32) % 2 == 1
    for _ in range(2):
        a = part(a, 1) + part(a + 1, 1) + part(a + 2, 1) + part(a + 3, 1)
        one, two = part(b, 2), part(b + 1, 2)
        b = np.where(odd, one[odd].sum(), two[~odd].sum() + one[~odd].sum()).astype(np.float32)
    np.testing.assert_allclose(x.cpu().numpy(), a, rtol=1e-5)
    np.testing.assert_allclose(y.cpu().numpy(), b, rtol=1e-5)


OTHERS = [pytest.param(n, marks=pytest.mark.sweep) for n in ("generated", "grammar", "models", "published", "samples")]


@pytest.mark.parametrize("name", ["codes", *OTHERS])
def test_smaller_kernels_are_unchanged(compiled: Callable, name: str) -> None:
    """The corpus kernels are below the size limits, so their LLVM IR must not change."""
    _, estimate = compiled((HERE / "corpus" / f"{name}.metal").read_text())
    assert not estimate.calls and not estimate.rolled
    assert estimate.before == estimate.after
