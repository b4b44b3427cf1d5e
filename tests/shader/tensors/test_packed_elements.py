"""Compare matmul2d with float64 where the right operand has elements of 4 bits (int4b_format and uint4b_format)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import mpsx

SOURCE = (Path(__file__).parent / "packed.metal").read_text()
DTYPES = {"half": torch.float16, "bfloat": torch.bfloat16, "char": torch.int8, "uchar": torch.uint8,
          "float": torch.float32, "int": torch.int32}  # fmt: skip
EPSILON = {"half": 2.0**-11, "bfloat": 2.0**-8, "float": 2.0**-24, "int": 0.0}
THREADS = {"execution_thread": 1, "execution_simdgroup": 32, "execution_simdgroups<4>": 128}
# Metal's combinations of element types: left, right, destination.
TYPES = [("half", "int4b_format", "float"), ("half", "uint4b_format", "half"), ("bfloat", "uint4b_format", "float"),
         ("bfloat", "int4b_format", "bfloat"), ("char", "int4b_format", "int"),
         ("uchar", "uint4b_format", "int")]  # fmt: skip


def library(names: list[str]) -> mpsx.ShaderLibrary:
    lines = (f'template [[host_name("k{i}")]] kernel decltype({name}) {name};\n' for i, name in enumerate(names))
    return mpsx.compile_shader(SOURCE + "".join(lines))


def codes(rows: int, columns: int, kind: str, generator: torch.Generator) -> torch.Tensor:
    low = -8 if kind == "int4b_format" else 0
    return torch.randint(low, low + 16, (rows, columns), generator=generator)


def packed(matrix: torch.Tensor, pitch: int, first: int = 0) -> torch.Tensor:
    """Pack a matrix into bytes. Its rows are `pitch` elements apart, and its first element is at index `first`. All
    other elements are 5."""
    rows, columns = matrix.shape
    flat = torch.full(((first + rows * pitch + 1) // 2 * 2,), 5)
    at = first + torch.arange(rows)[:, None] * pitch + torch.arange(columns)
    flat[at] = matrix & 15
    return (flat[::2] | flat[1::2] << 4).to(torch.uint8)


def activations(rows: int, columns: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(rows, columns, generator=generator).to(dtype)
    return torch.randint(0, 100, (rows, columns), generator=generator).to(dtype)


@pytest.mark.parametrize("scope, m, n", [("execution_thread", 8, 8), ("execution_simdgroup", 16, 32),
                                         ("execution_simdgroups<4>", 64, 32)])  # fmt: skip
@pytest.mark.parametrize("step", [0, 32])
@pytest.mark.parametrize("transposed", [False, True])
def test_against_float64(scope: str, m: int, n: int, step: int, transposed: bool) -> None:
    """Rows start in the middle of a byte if their pitch is odd, and so do slices at odd positions."""
    names = [f"multiply<{', '.join(types)}, {m}, {n}, {step}, {str(transposed).lower()}, {scope}>" for types in TYPES]
    lib, generator = library(names), torch.Generator().manual_seed(0)
    for i, (left, kind, result) in enumerate(TYPES):
        for rows, columns, k, odd in ((m, n, 64, 0), (m + 3, n + 5, 96, 1), (2 * m - 1, 2 * n, 32, 3)):
            a, w = activations(rows, k, DTYPES[left], generator), codes(k, columns, kind, generator)
            stored = w.T if transposed else w
            pitch = stored.shape[1] + odd
            first = odd and 2 * pitch + 1  # skips two rows and one element
            c = torch.full((rows, columns), 7).to(DTYPES[result]).to("mpsx")
            threads = THREADS[scope]
            getattr(lib, f"k{i}")(a.to("mpsx"), packed(stored, pitch, first).to("mpsx"), c,
                                  [rows, columns, k, pitch, first], arg_casts={3: "int32"}, group_size=(threads, 1),
                                  threads=(-(-columns // n) * threads, -(-rows // m)))  # fmt: skip
            expected, magnitude = a.double() @ w.double(), a.double().abs() @ w.double().abs()
            roundings = k // step if step and result != "float" else 1  # of sums in the type of the destination
            bound = magnitude * ((k + 3) * 2.0**-24 + roundings * EPSILON[result])
            error = (c.cpu().double() - expected).abs()
            assert (error <= bound).all(), f"{names[i]} {rows}x{columns}x{k}: {(error - bound).max()} above the bound"


@pytest.mark.parametrize("element", ["half", "bfloat"])
def test_quantized_linear_layer(element: str) -> None:
    lib, generator = library([f"quantized<{element}, 16, 32>"]), torch.Generator().manual_seed(1)
    m, n, k = 32, 96, 256
    x, w = activations(m, k, DTYPES[element], generator), codes(n, k, "uint4b_format", generator)
    scales, biases = (torch.rand(n, k // 64, generator=generator) - 0.5 for _ in range(2))
    out = torch.zeros(m, n).to("mpsx")
    lib.k0(x.to("mpsx"), packed(w, k).to("mpsx"), scales.to("mpsx"), biases.to("mpsx"), out, [m, n, k, k, 0],
           arg_casts={5: "int32"}, threads=(n // 32 * 32, m // 16), group_size=(32, 1))  # fmt: skip
    weights = w.double() * scales.double().repeat_interleave(64, 1) + biases.double().repeat_interleave(64, 1)
    scaled = (w * scales.repeat_interleave(64, 1)).abs() + biases.repeat_interleave(64, 1).abs()
    error = (out.cpu().double() - x.double() @ weights.T).abs()
    bound = x.double().abs() @ scaled.double().T * (k + 8) * 2.0**-24
    assert (error <= bound).all(), (error - bound).max()


def test_threadgroup_memory() -> None:
    generator = torch.Generator().manual_seed(2)
    a, w = activations(64, 64, torch.float16, generator), codes(32, 64, "int4b_format", generator)
    out = torch.zeros(64, 32).to("mpsx")
    mpsx.compile_shader(SOURCE).staged(a.to("mpsx"), packed(w, 64).to("mpsx"), out, threads=128, group_size=128)
    torch.testing.assert_close(out.cpu(), a.float() @ w.float().T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("left, right, k, message", [
    ("float", "int4b_format", 64, "left must have half or bfloat elements"),
    ("char", "uint4b_format", 64, "8-bit integers of the same sign"),
    ("half", "int4b_format", 48, "k must be a multiple of 32"),
])  # fmt: skip
def test_what_metal_rejects(left: str, right: str, k: int, message: str) -> None:
    result = "int" if left == "char" else "float"
    name = f"multiply<{left}, {right}, {result}, 16, 32, {k}, true, execution_simdgroup>"
    with pytest.raises(SyntaxError, match=message):
        library([name])


def test_left_operand_cannot_be_packed() -> None:
    source = SOURCE.replace("op.run(A, B, C);", "op.run(B, A, C);")
    with pytest.raises(SyntaxError, match="only right may have elements of 4 bits"):
        mpsx.compile_shader(source)
