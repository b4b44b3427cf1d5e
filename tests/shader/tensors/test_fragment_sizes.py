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


def library(instances, more=""):
    """Compile instances of the kernels. Instance i has the name k<i>. `more` is further source text."""
    text = (f'template [[host_name("k{i}")]] kernel decltype({x}) {x};' for i, x in enumerate(instances))
    return mpsx.compile_shader("\n".join([SOURCE, more, *text]))


def check_matmuls(name, cases, more=""):
    """Compare matmuls with PyTorch. `more` is further source text."""
    dtype, result = DTYPES[name], "int" if name == "char" else "float"
    kernels = library((f"matmul<{name}, {result}, {m}, {n}, {k}, {str(ta).lower()}, {str(tb).lower()}, {where}>"
                       for (m, n, k), ta, tb, where in cases), more)  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for i, case in enumerate(cases):
        (m, n, k), ta, tb, _ = case
        a, b = (torch.randint(-8, 9, shape, generator=generator) for shape in ((m, k), (k, n)))
        expected = a @ b  # small integers, so all types represent it
        c = torch.zeros(m, n, dtype=torch.int32 if name == "char" else torch.float32, device="mpsx")
        left, right = (x.T.contiguous() if t else x for x, t in ((a, ta), (b, tb)))
        getattr(kernels, f"k{i}")(left.to(dtype).to("mpsx"), right.to(dtype).to("mpsx"), c, threads=32, group_size=32)
        assert torch.equal(c.cpu().long(), expected), case


THREAD_ELEMENTS = """
    kernel void other(device float* x, ushort lane [[thread_index_in_simdgroup]]) {
      simdgroup_float8x8 m;
      simdgroup_load(m, x, 8);
      x[lane] = m.thread_elements()[0];
    }"""
FLAGS = (False, True)
# Different numbers of fragments along m, n, and k show which of them an index uses.
UNEQUAL = [(48, 32, 64), (32, 64, 48)]


def test_sizes():
    check_matmuls("half", list(product(SIZES, FLAGS, FLAGS, ["CC"])))


def test_unequal_sizes():
    check_matmuls("half", list(product(UNEQUAL, FLAGS, FLAGS, WHERE)))


@pytest.mark.parametrize("name", DTYPES)
def test_operands(name):
    check_matmuls(name, list(product([(32, 32, 32)], FLAGS, FLAGS, WHERE)))


def test_next_to_simdgroup_matrices():
    """On NVIDIA GPUs, lanes are numbered differently in files that access a simdgroup_matrix by element."""
    check_matmuls("half", list(product([(16, 32, 16), (32, 32, 32)], FLAGS, FLAGS, ["CC", "MM"])), THREAD_ELEMENTS)
    check_conversions(THREAD_ELEMENTS)
    check_row_sums(THREAD_ELEMENTS)
    check_stores(THREAD_ELEMENTS)


@pytest.mark.sweep
@pytest.mark.parametrize("name", DTYPES)
def test_all(name):
    for where in WHERE:
        check_matmuls(name, list(product([*SIZES, *UNEQUAL], FLAGS, FLAGS, [where])))


def coordinates(rows, columns, transposed):
    """Return the (column, row) in memory of each lane's elements. rows x columns is the size of the matrix that is
    multiplied."""
    lane = torch.arange(32)[:, None]
    i = torch.arange(rows * columns // 32)
    corner = i // 8 % (columns // 16) * 16, i // 8 // (columns // 16) * 16
    column, row = corner[::-1] if transposed else corner
    inside = (lane >> 2 & 2 | lane & 1) * 4 + i % 4, (lane >> 2 & 4 | lane >> 1 & 3) + i // 4 % 2 * 8
    return torch.stack([column + inside[0], row + inside[1]], -1)


def test_coordinates():
    cases = [(m, n, k, ta, tb) for (m, n, k), ta, tb in product([*SIZES, *UNEQUAL, (16, 64, 32)], FLAGS, FLAGS)]
    kernels = library(f"coordinates<{', '.join(str(x).lower() for x in case)}>" for case in cases)
    for i, (m, n, k, ta, tb) in enumerate(cases):
        expected = coordinates(m, n, False), coordinates(m, k, ta), coordinates(k, n, tb)
        actual = [torch.zeros(x.shape, dtype=torch.int16, device="mpsx") for x in expected]
        getattr(kernels, f"k{i}")(*actual, threads=32, group_size=32)
        for x, y in zip(actual, expected, strict=True):
            assert torch.equal(x.cpu().long(), y), (m, n, k, ta, tb)


def check_conversions(more=""):
    sizes = [(32, 32), (48, 32), (32, 64)]
    kernels = library((f"conversions<{m}, {n}>" for m, n in sizes), more)
    for i, (m, n) in enumerate(sizes):
        x = torch.arange(m * n).half()
        a, b = (torch.zeros(m * n).half().to("mpsx") for _ in range(2))
        getattr(kernels, f"k{i}")(x.to("mpsx"), a, b, threads=32, group_size=32)
        assert torch.equal(a.cpu(), x), (m, n)
        assert torch.equal(b.cpu(), x), (m, n)


def test_conversions():
    check_conversions()


def check_row_sums(more=""):
    sizes = [(16, 96, 32), (96, 32, 16), (32, 32, 24), (16, 48, 40)]
    kernels = library((f"row_sums<{m}, {n}, {width}>" for m, n, width in sizes), more)
    on_gpu = mpsx._runtime.driver()["name"] == "cuda"
    for i, (m, n, width) in enumerate(sizes):
        x = torch.randint(-8, 9, (m, n), generator=torch.Generator().manual_seed(i)).float()
        sums, y = torch.zeros(m, device="mpsx"), torch.zeros(m, width, device="mpsx")
        compatible = torch.zeros(1, dtype=torch.int32, device="mpsx")
        getattr(kernels, f"k{i}")(x.to("mpsx"), sums, y, compatible, threads=32, group_size=32)
        assert torch.equal(sums.cpu(), x.sum(1)), (m, n, width)
        # On CPUs, a tensor without fragments has other rows than one with fragments.
        assert compatible.item() == (width % 16 == 0 or on_gpu), (m, n, width)
        expected = x[:, :width] + (x.sum(1, keepdim=True) if compatible.item() else 0)
        assert torch.equal(y.cpu(), expected), (m, n, width)


def test_row_sums():
    """Map rows to matrices of another width, with more than four fragments, and without fragments."""
    check_row_sums()


def check_stores(more=""):
    types = [*DTYPES, "int"]
    kernels = library((f"copy_tile<{t}>" for t in types), more)
    for i, t in enumerate(types):
        dtype = DTYPES.get(t, torch.int32)
        # Extents and strides for vectors of 16 bytes, for single elements, and clipped ones.
        for columns, rows, stride in ((32, 32, 32), (32, 32, 48), (32, 32, 33), (30, 17, 32), (5, 32, 64)):
            x = torch.randint(-8, 9, (32, 32), generator=torch.Generator().manual_seed(i)).to(dtype)
            y = torch.full((33 * stride,), 99).to(dtype).to("mpsx")
            getattr(kernels, f"k{i}")(x.to("mpsx"), y, [columns, rows, stride], arg_casts={2: "int32"}, threads=32,
                                      group_size=32)  # fmt: skip
            expected = torch.full((33, stride), 99).to(dtype)
            expected[:rows, :columns] = x[:rows, :columns]
            assert torch.equal(y.cpu().view(33, stride), expected), (t, columns, rows, stride)


def test_stores():
    """Store tensors of every element type to memory of every alignment, without writing beyond the extents."""
    check_stores()


def test_many_fragments():
    """Multiply matrices with more than four fragments along a side. simt varies their order."""
    cases = [(16, 96, 32), (96, 16, 32), (32, 32, 96)]
    text = """
    template <int M, int N, int K>
    kernel void many(device half* a, device half* b, device float* c) {
      constexpr auto descriptor = matmul2d_descriptor(M, N, K);
      matmul2d<descriptor, execution_simdgroup> op;
      auto left = op.template get_left_input_cooperative_tensor<half, half, float>();
      auto right = op.template get_right_input_cooperative_tensor<half, half, float>();
      auto sum = op.template get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
      left.load(tensor(a, dextents<int, 2>(K, M)));
      right.load(tensor(b, dextents<int, 2>(N, K)));
      op.run(left, right, sum);
      sum.store(tensor(c, dextents<int, 2>(N, M)));
    }"""
    kernels = library((f"many<{m}, {n}, {k}>" for m, n, k in cases), text)
    for i, (m, n, k) in enumerate(cases):
        a, b = (torch.randint(-8, 9, shape, generator=torch.Generator().manual_seed(i)) for shape in ((m, k), (k, n)))
        c = torch.zeros(m, n, device="mpsx")
        getattr(kernels, f"k{i}")(a.half().to("mpsx"), b.half().to("mpsx"), c, threads=32, group_size=32)
        assert torch.equal(c.cpu().long(), a @ b), (m, n, k)
