"""Compare Metal 4's matmul2d (metal_stdlib/tensor) with float64, for every kind of operand."""

from pathlib import Path

import pytest
import torch

import mpsx

SOURCE = (Path(__file__).parent / "matmul2d.metal").read_text()
DTYPES = {"half": torch.float16, "bfloat": torch.bfloat16, "float": torch.float32, "char": torch.int8,
          "uchar": torch.uint8, "int": torch.int32}  # fmt: skip
EPSILON = {"half": 2.0**-11, "bfloat": 2.0**-8, "float": 2.0**-24, "int": 0.0}
THREADS = {"execution_thread": 1, "execution_simdgroup": 32}


def threads_of(scope):
    return THREADS.get(scope) or 32 * int(scope.partition("<")[2].strip(">"))


def library(kernels):
    """Compile one kernel for each tuple (kernel, A, B, S, C, m, n, transpose A, transpose B, scope)."""
    lines = []
    for i, (kernel, *arguments) in enumerate(kernels):
        text = ", ".join(str(a).lower() if isinstance(a, bool) else str(a) for a in arguments)
        name = f"{kernel}<{text}>"
        lines.append(f'template [[host_name("k{i}")]] kernel decltype({name}) {name};')
    return mpsx.compile_shader(SOURCE + "\n".join(lines) + "\n")


def values(rows, columns, dtype, generator):
    if dtype.is_floating_point:
        return torch.randn(rows, columns, generator=generator).to(dtype)
    low = 0 if dtype == torch.uint8 else -100
    return torch.randint(low, 100, (rows, columns), generator=generator).to(dtype)


def check(lib, i, kernel, m, n, k, pad=0, accumulate=False):
    """Run kernel `k{i}` on random matrices. It must neither read nor write the `pad` elements after each row."""
    name, a_type, b_type, sum_type, c_type, tile_m, tile_n, transpose_a, transpose_b, scope = kernel
    generator = torch.Generator().manual_seed(i)
    a = values(*((k, m) if transpose_a else (m, k)), DTYPES[a_type], generator)
    b = values(*((n, k) if transpose_b else (k, n)), DTYPES[b_type], generator)
    bias = torch.randint(-3, 3, (n,), generator=generator).float()
    c = torch.full((m, n + pad), 7).to(DTYPES[c_type])

    def padded(x):
        wide = torch.full((x.shape[0], x.shape[1] + pad), 99).to(x.dtype)  # the kernel must not read these elements
        wide[:, : x.shape[1]] = x
        return wide.to("mpsx")

    on_device = c.to("mpsx")
    left, right = padded(a), padded(b)
    last = bias if name == "cooperative" else torch.tensor([float(accumulate)])
    threads = threads_of(scope)
    grid = ((n + tile_n - 1) // tile_n * threads, (m + tile_m - 1) // tile_m)
    sizes = [m, n, k, left.shape[1], right.shape[1], n + pad]
    getattr(lib, f"k{i}")(left, right, on_device, sizes, last.to("mpsx"), arg_casts={3: "int32"}, threads=grid,
                          group_size=(threads, 1))  # fmt: skip
    wide = [x.double() for x in (a.T if transpose_a else a, b.T if transpose_b else b)]
    product, magnitude = wide[0] @ wide[1], wide[0].abs() @ wide[1].abs()
    added = bias.double() if name == "cooperative" else torch.tensor(7.0 * accumulate)
    expected = product + added
    # Error bound of a float32 sum that is rounded to sum_type and c_type each time it is stored.
    steps = k // 16 + 1 if accumulate or (name in ("staged", "registers") and sum_type != "float") else 1
    stored = product.abs() + added.abs() + magnitude * (steps > 1)
    bound = magnitude * (k + 3) * 2.0**-24 + stored * steps * (EPSILON[sum_type] + EPSILON[c_type])
    got = on_device.cpu()
    error = (got[:, :n].double() - expected).abs()
    assert (error <= bound + 1e-7).all(), f"{kernel}: {(error - bound).max()} above the bound"
    assert (got[:, n:] == 7).all(), f"{kernel}: wrote beyond the extents"


TYPES = [
    ("half", "half", "float", "half"), ("half", "half", "half", "half"), ("bfloat", "bfloat", "float", "bfloat"),
    ("bfloat", "bfloat", "bfloat", "bfloat"), ("float", "float", "float", "float"), ("half", "float", "float", "float"),
    ("float", "half", "float", "float"), ("bfloat", "float", "float", "float"), ("float", "bfloat", "float", "float"),
    ("half", "bfloat", "float", "float"), ("bfloat", "half", "half", "half"), ("half", "bfloat", "bfloat", "bfloat"),
    ("char", "char", "int", "int"), ("uchar", "char", "int", "int"), ("char", "uchar", "float", "float"),
    ("uchar", "uchar", "int", "int"), ("half", "char", "float", "half"), ("char", "half", "half", "half"),
    ("bfloat", "char", "bfloat", "bfloat"), ("char", "bfloat", "float", "float"), ("float", "char", "float", "float"),
    ("char", "float", "float", "float"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["cooperative", "direct", "staged", "registers"])
def test_element_types(name):
    kernels = [(name, *types, 32, 32, False, True, "execution_simdgroups<2>") for types in TYPES]
    lib = library(kernels)
    for i, kernel in enumerate(kernels):
        check(lib, i, kernel, 37, 45, 50, pad=3)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("name", ["cooperative", "direct", "staged", "registers"])
def test_transpositions_and_edges(name, transpose_a, transpose_b):
    kernels = [(name, t, t, "float", t, 32, 64, transpose_a, transpose_b, "execution_simdgroups<4>")
               for t in ("half", "float")]  # fmt: skip
    lib = library(kernels)
    for i, kernel in enumerate(kernels):
        for m, n, k, pad in ((32, 64, 64, 0), (64, 128, 32, 8), (33, 65, 31, 0), (1, 1, 1, 0), (31, 130, 17, 5)):
            check(lib, i, kernel, m, n, k, pad)


def test_accumulation_into_memory():
    """Each operation multiplies 16 steps of K, though its operands extend to the end of the matrices. On NVIDIA GPUs,
    pipelines for 64 rows have longer tiles."""
    kernels = [("direct", t, t, t, t, rows, 32, False, False, "execution_simdgroups<4>")
               for t in ("half", "float") for rows in (32, 64)]  # fmt: skip
    lib = library(kernels)
    for i, kernel in enumerate(kernels):
        check(lib, i, kernel, 40, 50, 70, 2, accumulate=True)


SCOPES = [
    ("execution_thread", 8, 8), ("execution_thread", 16, 16), ("execution_simdgroup", 16, 32),
    ("execution_simdgroup", 32, 32), ("execution_simdgroup", 16, 16), ("execution_simdgroup", 64, 64),
    ("execution_simdgroups<1>", 16, 32), ("execution_simdgroups<2>", 64, 64), ("execution_simdgroups<4>", 64, 32),
    ("execution_simdgroups<4>", 48, 128), ("execution_simdgroups<8>", 64, 64), ("execution_simdgroups<3>", 48, 48),
]  # fmt: skip


@pytest.mark.parametrize("name", ["cooperative", "direct", "registers"])
def test_scopes(name):
    kernels = [(name, "half", "half", "float", "half", m, n, False, False, scope) for scope, m, n in SCOPES]
    lib = library(kernels)
    for i, kernel in enumerate(kernels):
        check(lib, i, kernel, 70, 66, 48)


@pytest.mark.parametrize("dtype", ["float", "half", "bfloat"])
def test_infinities_and_nan(dtype):
    """Non-finite elements affect only their own rows and columns. So do floats that overflow in a narrower type."""
    kernels = [("cooperative", dtype, dtype, "float", "float", m, n, False, True, f"execution_simdgroups<{groups}>")
               for m, n, groups in ((64, 64, 4), (32, 32, 2), (128, 128, 8))]  # fmt: skip
    lib = library(kernels)
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.rand(130, 72, generator=generator) - 0.5 for _ in range(2))
    a[::7, 3] = 3.4028e38  # the products and their sums are still finite
    for matrix in (a, b):
        for value in (float("inf"), float("-inf"), float("nan"), 0.0):
            rows = torch.randint(0, 130, (3,), generator=generator)
            matrix[rows, torch.randint(4, 72, (3,), generator=generator)] = value
    a, b = a.to(DTYPES[dtype]), b.to(DTYPES[dtype])
    expected = a.float() @ b.float().T
    for i, kernel in enumerate(kernels):
        _, _, _, _, _, m, n, _, _, scope = kernel
        c, threads = torch.empty(130, 130, device="mpsx"), threads_of(scope)
        getattr(lib, f"k{i}")(a.to("mpsx"), b.to("mpsx"), c, [130, 130, 72, 72, 72, 130],
                              torch.zeros(130, device="mpsx"), arg_casts={3: "int32"},
                              threads=(-(-130 // n) * threads, -(-130 // m)), group_size=(threads, 1))  # fmt: skip
        torch.testing.assert_close(c.cpu(), expected, rtol=1e-4, atol=1e-4, equal_nan=True, msg=str(kernel))
