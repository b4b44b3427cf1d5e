"""Cooperative tensors of one SIMD group have the layout of an M5, which kernels of other projects rely on."""

from itertools import product
from pathlib import Path

import pytest
import torch

import mpsx

SOURCE = (Path(__file__).parent / "fragment_sizes.metal").read_text()
# If both operands are cooperative tensors, Apple's header only accepts m, n, and k of 16 or 32, one of them 32.
SIZES = [size for size in product((16, 32), repeat=3) if 32 in size]
DTYPES = {"half": torch.float16, "bfloat": torch.bfloat16, "float": torch.float32, "char": torch.int8}
WHERE = ["CC", "CM", "MC", "MM"]


def library(instances):
    """Compile instances of the kernels. Their names are indices."""
    text = (f'template [[host_name("k{i}")]] kernel decltype({x}) {x};' for i, x in enumerate(instances))
    return mpsx.compile_shader("\n".join([SOURCE, *text]))


def check_products(name, cases):
    dtype, result = DTYPES[name], "int" if name == "char" else "float"
    kernels = library(f"product<{name}, {result}, {m}, {n}, {k}, {str(ta).lower()}, {str(tb).lower()}, {where}>"
                      for (m, n, k), ta, tb, where in cases)  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for i, case in enumerate(cases):
        (m, n, k), ta, tb, _ = case
        a, b = (torch.randint(-8, 9, shape, generator=generator) for shape in ((m, k), (k, n)))
        expected = a @ b  # small integers, so all types represent it
        c = torch.zeros(m, n, dtype=torch.int32 if name == "char" else torch.float32, device="mpsx")
        left, right = (x.T.contiguous() if t else x for x, t in ((a, ta), (b, tb)))
        getattr(kernels, f"k{i}")(left.to(dtype).to("mpsx"), right.to(dtype).to("mpsx"), c, threads=32, group_size=32)
        assert torch.equal(c.cpu().long(), expected), case


def test_sizes():
    check_products("half", list(product(SIZES, (False, True), (False, True), ["CC"])))


@pytest.mark.parametrize("name", DTYPES)
def test_operands(name):
    check_products(name, list(product([(32, 32, 32)], (False, True), (False, True), WHERE)))


@pytest.mark.sweep
@pytest.mark.parametrize("name", DTYPES)
def test_all(name):
    for where in WHERE:
        check_products(name, list(product(SIZES, (False, True), (False, True), [where])))


def places(rows, columns, transposed):
    """Return the (column, row) in memory of each lane's elements. rows x columns is the size before transposition."""
    lane = torch.arange(32)[:, None]
    i = torch.arange(rows * columns // 32)
    x = i // 8 % (columns // 16) * 16, i // 8 // (columns // 16) * 16
    across, down = x[::-1] if transposed else x
    return torch.stack(
        [
            across + (lane >> 2 & 2 | lane & 1) * 4 + i % 4,
            down + (lane >> 2 & 4 | lane >> 1 & 3) + i // 4 % 2 * 8,
        ],
        -1,
    )


def test_coordinates():
    cases = [(m, n, k, ta, tb) for (m, n, k), ta, tb in product(SIZES, (False, True), (False, True))]
    kernels = library(f"coordinates<{', '.join(str(x).lower() for x in case)}>" for case in cases)
    for i, (m, n, k, ta, tb) in enumerate(cases):
        expected = places(m, n, False), places(m, k, ta), places(k, n, tb)
        actual = [torch.zeros(x.shape, dtype=torch.int16, device="mpsx") for x in expected]
        getattr(kernels, f"k{i}")(*actual, threads=32, group_size=32)
        for x, y in zip(actual, expected, strict=True):
            assert torch.equal(x.cpu().long(), y), (m, n, k, ta, tb)
