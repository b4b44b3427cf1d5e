"""Kernels in the style of MLX and ggml: register fragments, row reductions by shuffles, and staged weights."""

from pathlib import Path

import pytest
import torch

import mpsx

SOURCE = (Path(__file__).parent / "fragments.metal").read_text()
DTYPES = {"half": torch.float16, "bfloat": torch.bfloat16, "float": torch.float32}
EPSILON = {"half": 2.0**-11, "bfloat": 2.0**-8, "float": 2.0**-11}  # relaxed precision permits TF32 for float operands


def kernel(name):
    return mpsx.compile_shader(f'{SOURCE}\ntemplate [[host_name("k")]] kernel decltype({name}) {name};\n').k


def randn(*shape, dtype, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("name", ["half", "bfloat", "float"])
def test_gemm(name, transpose_a, transpose_b):
    run, dtype = kernel(f"gemm<{name}, {transpose_a}, {transpose_b}>".lower()), DTYPES[name]
    for m, n, k in ((32, 32, 64), (50, 40, 27)):
        a = randn(*((k, m) if transpose_a else (m, k)), dtype=dtype, seed=0)
        b = randn(*((n, k) if transpose_b else (k, n)), dtype=dtype, seed=1)
        c = torch.empty(m, n, dtype=dtype, device="mpsx")
        run(a.to("mpsx"), b.to("mpsx"), c, [m, n, k], arg_casts={3: "int32"}, threads=(-(-n // 32) * 64, -(-m // 32)),
            group_size=(64, 1))  # fmt: skip
        left, right = (a.T if transpose_a else a).double(), (b.T if transpose_b else b).double()
        error, magnitude = (c.cpu().double() - left @ right).abs(), left.abs() @ right.abs()
        assert (error <= 2 * EPSILON[name] * magnitude).all(), f"{m} x {n} x {k}: {(error / magnitude).max()}"


def check_attention(out, q, k, v, scale, epsilon):
    expected = torch.softmax(q.double() @ k.double().T * scale, -1) @ v.double()
    torch.testing.assert_close(out.cpu().double(), expected, rtol=0, atol=8 * epsilon)


@pytest.mark.parametrize("name", ["half", "bfloat", "float"])
def test_attention(name):
    run, dtype = kernel(f"attention<{name}, 64>"), DTYPES[name]
    q, k, v = (randn(rows, 64, dtype=dtype, seed=i) for i, rows in enumerate((40, 70, 70)))
    out = torch.empty(40, 64, dtype=dtype, device="mpsx")
    run(q.to("mpsx"), k.to("mpsx"), v.to("mpsx"), out, [40, 70, 64], arg_casts={4: "int32"}, threads=96, group_size=32)
    check_attention(out, q, k, v, 0.125, EPSILON[name])


def test_reductions():
    q, k, v = (randn(rows, 64, dtype=torch.float16, seed=i) / 4 for i, rows in enumerate((16, 96, 96)))
    out = torch.empty(16, 64, device="mpsx")
    mpsx.compile_shader(SOURCE).reductions(q.to("mpsx"), k.to("mpsx"), v.to("mpsx"), out, [16, 96, 64],
                                           arg_casts={4: "int32"}, threads=32, group_size=32)  # fmt: skip
    check_attention(out, q, k, v, 1.0, EPSILON["half"])


def test_weights_expanded_in_threadgroup_memory():
    m, n, k = 70, 90, 96
    x = randn(m, k, dtype=torch.float32, seed=0)
    generator = torch.Generator().manual_seed(1)
    q = torch.randint(-127, 128, (n, k // 32, 32), generator=generator)
    scale = torch.rand(n, k // 32, 1, generator=generator).to(torch.float16) / 64
    blocks = torch.cat([scale.view(torch.uint8), q.to(torch.int8).view(torch.uint8)], -1)
    c = torch.empty(m, n, device="mpsx")
    mpsx.compile_shader(SOURCE).dequantize(blocks.to("mpsx"), x.to("mpsx"), c, [m, n, k], arg_casts={3: "int32"},
                                           threads=(256, 2), group_size=(128, 1), threadgroup_memory=4096)  # fmt: skip
    weights = (q * scale).flatten(1).to(torch.float16).double()
    error, magnitude = (c.cpu().double() - x.double() @ weights.T).abs(), x.double().abs() @ weights.abs().T
    assert (error <= 2.0**-10 * magnitude).all(), (error / magnitude).max()
