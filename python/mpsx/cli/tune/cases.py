"""The operators, shapes, and dtypes that are measured."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F

Tensors = list[torch.Tensor]
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# The largest allowed error, relative to the largest element of the result.
TOLERANCES = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class Case:
    """An operator. `run` returns a tensor or several for inputs of these shapes."""

    name: str
    dtype: torch.dtype
    shapes: tuple[tuple[int, ...], ...]
    run: Callable[..., object]
    expected: Callable[..., object] | None = None  # on float32 CPU tensors, instead of `run`

    @property
    def tolerance(self) -> float:
        """The largest allowed error, relative to the largest element of the result."""
        return TOLERANCES[self.dtype]


def tensors(result: object) -> Tensors:
    """Return the tensors of a result."""
    return [result] if isinstance(result, torch.Tensor) else [t for t in result if isinstance(t, torch.Tensor)]


def normal(dtype: torch.dtype, shape: tuple[int, ...], index: int) -> torch.Tensor:
    """Return the input of that index: numbers from a standard normal distribution, always the same ones."""
    generator = torch.Generator().manual_seed(zlib.crc32(repr((shape, index)).encode()))
    return torch.randn(shape, generator=generator).to(dtype)


# (M, N, K) of linear layers, their gradients, and squares. The layout says which operands are transposed.
MATMULS = [
    (4096, 4096, 4096, "nt"), (1024, 1024, 1024, "nn"), (2048, 2048, 2048, "nn"), (512, 512, 512, "nt"),
    (8192, 768, 768, "nt"), (4096, 3072, 768, "nt"), (4096, 768, 3072, "nt"), (768, 3072, 8192, "tn"),
    (512, 4096, 4096, "nt"), (128, 4096, 4096, "nt"), (64, 8192, 2048, "nt"), (2048, 768, 2304, "nn"),
    (256, 256, 8192, "tn"), (1536, 1536, 1536, "nn"), (8192, 1280, 1280, "nn"), (16, 4096, 4096, "nt"),
    (1, 4096, 4096, "nt"), (1, 4096, 4096, "nn"),
]  # fmt: skip
QUICK_MATMULS = [(1024, 1024, 1024, "nn"), (2048, 768, 768, "nt"), (128, 2048, 2048, "nt"), (256, 256, 4096, "tn")]
TINY_MATMULS = [(96, 80, 64, "nt"), (1, 256, 256, "nn")]
# Shapes that are not tuned, for --verify.
OTHER_MATMULS = [
    (3000, 3000, 3000, "nn"), (1000, 1000, 1000, "nt"), (4096, 5120, 1280, "nt"), (1280, 5120, 4096, "tn"),
    (2304, 768, 4096, "tn"), (6144, 2048, 2048, "nt"), (300, 6400, 768, "nt"), (1024, 4096, 11008, "nt"),
    (700, 700, 700, "nn"), (2500, 1600, 400, "nn"), (96, 5120, 5120, "nt"), (384, 384, 16384, "tn"),
    (5000, 640, 640, "nt"), (1792, 1792, 3584, "nn"), (32, 11008, 4096, "nt"), (1, 8192, 3072, "nt"),
]  # fmt: skip
TINY_OTHER = [(70, 90, 50, "nn")]

# (images, channels, size, outputs, kernel, stride, groups) of ResNet-50 and of a ResNeXt.
CONVS = [
    (16, 64, 56, 64, 3, 1, 1), (16, 128, 28, 128, 3, 1, 1), (16, 256, 14, 256, 3, 1, 1), (16, 512, 7, 512, 3, 1, 1),
    (16, 64, 56, 256, 1, 1, 1), (16, 1024, 14, 256, 1, 1, 1), (16, 128, 56, 128, 3, 2, 1), (8, 3, 224, 64, 7, 2, 1),
    (16, 128, 28, 128, 3, 1, 32),
]  # fmt: skip
QUICK_CONVS = [(8, 128, 28, 128, 3, 1, 1), (8, 64, 56, 256, 1, 1, 1)]
TINY_CONVS = [(1, 8, 6, 8, 3, 1, 1)]
OTHER_CONVS = [(12, 96, 40, 160, 3, 1, 1), (20, 256, 14, 512, 3, 2, 1), (10, 512, 14, 384, 1, 1, 1)]

# (batch, heads, queries, keys, head dimension, causal)
ATTENTIONS = [
    (8, 12, 512, 512, 64, False), (2, 16, 2048, 2048, 128, True), (8, 12, 32, 1024, 64, False),
    (4, 12, 256, 256, 64, True),
]  # fmt: skip
QUICK_ATTENTIONS = [(4, 12, 512, 512, 64, False)]
TINY_ATTENTIONS = [(1, 2, 24, 24, 16, True)]
OTHER_ATTENTIONS = [(6, 10, 700, 700, 64, True), (3, 8, 1500, 1500, 128, False)]

ROWS = [(64, 50304), (2048, 4096), (16384, 768), (65536, 128), (200000, 32), (16, 1024), (256, 2048)]
QUICK_ROWS = [(2048, 1024), (16384, 64), (16, 4096)]
TINY_ROWS = [(9, 70)]
OTHER_ROWS = [(128, 32000), (8192, 1280), (50000, 200), (300, 3000)]


def matmul(m: int, n: int, k: int, layout: str, dtype: str) -> Case:
    """Return a matmul. With one row, it is a GEMV."""

    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.mm(a.t() if layout[0] == "t" else a, b.t() if layout[1] == "t" else b)

    shapes = ((k, m) if layout[0] == "t" else (m, k), (n, k) if layout[1] == "t" else (k, n))
    return Case(f"matmul {m} x {n} x {k} {layout} {dtype}", DTYPES[dtype], shapes, run)


def convolutions(shape: tuple[int, ...], dtype: str) -> Iterator[Case]:
    """Return a convolution, its input gradient, and its weight gradient."""
    images, channels, size, outputs, kernel, stride, groups = shape
    padding, after = kernel // 2, (size + 2 * (kernel // 2) - kernel) // stride + 1
    weight = (outputs, channels // groups, kernel, kernel)
    title = f"{images} x {channels} x {size}² to {outputs}, {kernel}x{kernel}/{stride}"
    title += f" in {groups} groups {dtype}" if groups > 1 else f" {dtype}"

    def forward(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.conv2d(x, w, None, stride, padding, 1, groups)

    def gradient(mask: list[bool], dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> object:
        sizes = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, mask
        return torch.ops.aten.convolution_backward(dy, x, w, None, *sizes)

    inputs = ((images, channels, size, size), weight)
    both = ((images, outputs, after, after), *inputs)
    yield Case(f"conv {title}", DTYPES[dtype], inputs, forward)
    if channels > 3:
        yield Case(f"conv dx {title}", DTYPES[dtype], both, functools.partial(gradient, [True, False, False]))
    yield Case(f"conv dw {title}", DTYPES[dtype], both, functools.partial(gradient, [False, True, False]))


def attentions(shape: tuple[int, ...], dtype: str) -> Iterator[Case]:
    """Return an attention, forward and backward."""
    batch, heads, queries, keys, size, causal = shape
    title = f"{batch} x {heads} x {queries} x {keys} x {size}{' causal' if causal else ''} {dtype}"

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def gradients(dy: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> object:
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in (q, k, v)]
            return torch.autograd.grad(forward(*leaves), leaves, dy)

    def backward(dy: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> object:
        # Call the operators directly, because autograd would launch kernels on its own thread.
        ops = torch.ops.aten
        out, lse, *_ = ops._scaled_dot_product_fused_attention_overrideable(q, k, v, None, 0.0, causal)
        zero = torch.zeros((), dtype=torch.long)
        return ops._scaled_dot_product_fused_attention_overrideable_backward(
            dy, q, k, v, None, [True, True, True, False], out, lse, None, None, queries, keys, 0.0, causal, zero, zero)

    q, kv = (batch, heads, queries, size), (batch, heads, keys, size)
    yield Case(f"attention {title}", DTYPES[dtype], (q, kv, kv), forward)
    if queries == keys:
        yield Case(f"attention with gradients {title}", DTYPES[dtype], (q, q, kv, kv), backward, gradients)


def rows(shape: tuple[int, int], dtype: str) -> Iterator[Case]:
    """Return kernels that process rows and columns."""
    count, size = shape
    title = f"{count} x {size} {dtype}"

    def layer_norm_gradients(dy: torch.Tensor, x: torch.Tensor) -> object:
        weight, mask = torch.ones(size, dtype=x.dtype, device=x.device), [True, True, True]
        _, mean, rstd = torch.ops.aten.native_layer_norm(x, [size], weight, weight, 1e-5)
        return torch.ops.aten.native_layer_norm_backward(dy, x, [size], mean, rstd, weight, weight, mask)

    for name, run, inputs in (
        ("softmax", functools.partial(torch.softmax, dim=-1), 1),
        ("layer_norm", functools.partial(F.layer_norm, normalized_shape=[size]), 1),
        ("layer_norm gradients", layer_norm_gradients, 2),
        ("sum of rows", functools.partial(torch.sum, dim=-1), 1),
        ("sum of columns", functools.partial(torch.sum, dim=0), 1),
    ):
        yield Case(f"{name} {title}", DTYPES[dtype], (shape,) * inputs, run)


SIZES = {
    "full": (MATMULS, CONVS, ATTENTIONS, ROWS, ("bf16", "f32")),
    "quick": (QUICK_MATMULS, QUICK_CONVS, QUICK_ATTENTIONS, QUICK_ROWS, ("f16", "f32")),
    "tiny": (TINY_MATMULS, TINY_CONVS, TINY_ATTENTIONS, TINY_ROWS, ("f16", "f32")),  # for tests
    "verify": (OTHER_MATMULS, OTHER_CONVS, OTHER_ATTENTIONS, OTHER_ROWS, ("bf16", "f32")),
    "verify-tiny": (TINY_OTHER, (), (), (), ("f32",)),
}


def cases(size: str) -> list[Case]:
    """Return the cases of a size."""
    matmuls, convs, attns, row_shapes, dtypes = SIZES[size]
    found: list[Case] = []
    for dtype in dtypes:
        found += [matmul(*shape, dtype) for shape in matmuls]
        found += [case for shape in convs for case in convolutions(shape, dtype)]
        found += [case for shape in attns for case in attentions(shape, dtype)]
        found += [case for shape in row_shapes for case in rows(shape, dtype)]
    return found
