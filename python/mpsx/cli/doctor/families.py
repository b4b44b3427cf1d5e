"""Small test cases for every operator family, compared with the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

import mpsx

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
Make = Callable[[], list[torch.Tensor]]


@dataclass(frozen=True)
class Case:
    """A test case, which applies `run` to the inputs that `make` creates."""

    family: str
    name: str
    run: Callable[..., torch.Tensor]
    make: Make
    backward: bool = True
    exact: bool = False  # compare exactly, for integers and copies


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return numbers from a standard normal distribution."""
    return torch.randn(shape).to(dtype)


def positive(*shape: int) -> torch.Tensor:
    """Return uniform random numbers from 0.1 to 2."""
    return torch.rand(shape) * 1.9 + 0.1


def integers(*shape: int, below: int = 10) -> torch.Tensor:
    """Return random integers below `below`."""
    return torch.randint(below, shape)


def elementwise() -> list[Case]:
    """Return cases for arithmetic, math functions, comparisons and activations, with strides and broadcasting."""
    unary = "exp log sqrt rsqrt sin cos tanh erf abs neg reciprocal sigmoid log1p expm1 floor".split()
    cases = [Case("elementwise", name, getattr(torch, name), lambda: [positive(33, 65)]) for name in unary]
    binary = "add sub mul div maximum minimum atan2 pow".split()
    cases += [
        Case("elementwise", name, getattr(torch, name), lambda: [positive(33, 65), positive(33, 65)]) for name in binary
    ]
    activations = "relu gelu silu softplus elu leaky_relu hardswish mish".split()
    cases += [Case("activation", name, getattr(F, name), lambda: [normal(33, 65)]) for name in activations]
    return [
        *cases,
        Case("elementwise", "broadcast", torch.mul, lambda: [normal(17, 1, 9), normal(5, 1)]),
        Case("elementwise", "transposed", torch.add, lambda: [normal(40, 30).t(), normal(30, 40)]),
        Case("elementwise", "where", lambda x, y: torch.where(x > y, x, y), lambda: [normal(999), normal(999)]),
        Case("elementwise", "lerp", lambda x, y: torch.lerp(x, y, 0.3), lambda: [normal(999), normal(999)]),
        Case(
            "elementwise", "integers", lambda x, y: x * 3 + y // 2, lambda: [integers(777), integers(777)], False, True
        ),
        Case("elementwise", "compare", torch.lt, lambda: [normal(777), normal(777)], False, True),
        Case("memory", "contiguous", lambda x: x.permute(2, 0, 1).contiguous(), lambda: [normal(7, 9, 11)], True, True),
        Case("memory", "cast", lambda x: x.to(torch.float16).to(torch.float32), lambda: [normal(1025)], True),
        Case("memory", "cat", lambda x, y: torch.cat([x, y], 1), lambda: [normal(5, 6), normal(5, 7)], True, True),
        Case("memory", "flip", lambda x: x.flip(0, 1), lambda: [normal(13, 17)], True, True),
    ]


def reductions() -> list[Case]:
    """Return cases for reductions and normalization."""
    names = "sum mean prod amax amin".split()
    cases = [Case("reduce", name, lambda x, n=name: getattr(x, n)(-1), lambda: [positive(37, 70)]) for name in names]
    return [
        *cases,
        Case("reduce", "sum of all", torch.sum, lambda: [normal(100_000)]),
        Case("reduce", "sum over rows", lambda x: x.sum(0), lambda: [normal(1000, 33)]),
        Case("reduce", "var", lambda x: x.var(1), lambda: [normal(33, 257)]),
        Case("reduce", "argmax", lambda x: x.argmax(1), lambda: [normal(33, 257)], False, True),
        Case("reduce", "any", lambda x: (x > 2).any(1), lambda: [normal(33, 257)], False, True),
        Case("reduce", "norm", lambda x: torch.linalg.vector_norm(x, dim=1), lambda: [normal(33, 257)]),
        Case("norm", "softmax", lambda x: x.softmax(-1), lambda: [normal(33, 300)]),
        Case("norm", "log_softmax", lambda x: x.log_softmax(1), lambda: [normal(9, 30, 5)]),
        Case(
            "norm",
            "layer_norm",
            lambda x, w, b: F.layer_norm(x, [64], w, b),
            lambda: [normal(33, 64), normal(64), normal(64)],
        ),
        Case("norm", "rms_norm", lambda x, w: F.rms_norm(x, [64], w), lambda: [normal(33, 64), normal(64)]),
        Case("norm", "group_norm", lambda x: F.group_norm(x, 4), lambda: [normal(3, 8, 6, 5)]),
        Case("norm", "batch_norm", lambda x: F.batch_norm(x, None, None, training=True), lambda: [normal(6, 5, 7, 8)]),
    ]


def networks() -> list[Case]:
    """Return cases for matmul, convolution, pooling, attention, indexing and losses."""
    return [
        Case("matmul", "mm", torch.mm, lambda: [normal(33, 65), normal(65, 17)]),
        Case("matmul", "bmm", torch.bmm, lambda: [normal(4, 33, 20), normal(4, 20, 17)]),
        Case("matmul", "linear", F.linear, lambda: [normal(9, 32), normal(16, 32), normal(16)]),
        Case("conv", "conv2d", F.conv2d, lambda: [normal(2, 3, 12, 12), normal(4, 3, 3, 3)]),
        Case("pool", "max_pool2d", lambda x: F.max_pool2d(x, 2), lambda: [normal(2, 3, 12, 12)]),
        Case("pool", "avg_pool2d", lambda x: F.avg_pool2d(x, 2), lambda: [normal(2, 3, 12, 12)]),
        Case("pool", "adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1), lambda: [normal(2, 3, 7, 9)]),
        Case("attention", "scaled_dot_product", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
             lambda: [normal(2, 4, 17, 16), normal(2, 4, 17, 16), normal(2, 4, 17, 16)]),
        Case("index", "embedding", F.embedding, lambda: [integers(5, 7), normal(10, 12)]),
        Case("index", "gather", lambda x, i: x.gather(1, i), lambda: [normal(6, 10), integers(6, 4)]),
        Case("index", "index_select", lambda x, i: x.index_select(0, i), lambda: [normal(10, 6), integers(4)]),
        Case("index", "index", lambda x, i: x[i], lambda: [normal(10, 6), integers(4)]),
        Case("index", "index_add", lambda x, i, s: x.index_add(0, i, s),
             lambda: [normal(10, 6), integers(4), normal(4, 6)]),
        Case("index", "nonzero", lambda x: (x > 0).nonzero(), lambda: [normal(30, 20)], False, True),
        Case("loss", "cross_entropy", F.cross_entropy, lambda: [normal(20, 10), integers(20)]),
        Case("loss", "mse_loss", F.mse_loss, lambda: [normal(200), normal(200)]),
        Case("loss", "huber_loss", F.huber_loss, lambda: [normal(200), normal(200)]),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return all cases."""
    return [*elementwise(), *reductions(), *networks()]


def run(case: Case, inputs: list[torch.Tensor], device: str, backward: bool) -> list[torch.Tensor]:
    """Run a case on a device. Return the result, plus the gradients if `backward` is set, as CPU tensors."""
    moved = [x.detach().to(device) for x in inputs]
    if backward:
        moved = [x.requires_grad_() if x.is_floating_point() else x for x in moved]
    result = case.run(*moved)
    found = [result]
    if backward:
        found += torch.autograd.grad(result, [x for x in moved if x.requires_grad], torch.ones_like(result))
    return [x.detach().cpu() for x in found]


def compare(case: Case, dtype: torch.dtype = torch.float32) -> str:
    """Raise if the results differ from the CPU's or an operator falls back. Return the names of the kernels that ran.

    Results in float16 and bfloat16 are compared with the CPU's float32 results, because the CPU rounds these dtypes
    differently.
    """
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in case.make()]
    backward = case.backward and dtype == torch.float32
    wide = [x.float() if x.is_floating_point() else x for x in inputs]
    expected = run(case, wide, "cpu", backward)
    with mpsx.fallback.using_mode("error"), mpsx.profiler.launch_log() as log:
        found = run(case, inputs, "mpsx", backward)
    for ours, theirs in zip(found, expected, strict=True):
        if case.exact:
            torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=0, atol=0)
        elif dtype == torch.float32:
            torch.testing.assert_close(ours, theirs)
        else:
            unit = torch.finfo(dtype).eps
            most = unit * max(1.0, theirs.abs().max().item())
            torch.testing.assert_close(ours.float(), theirs, rtol=2 * unit, atol=most)
    return " ".join(sorted({name.removeprefix("kernel:") for name in log}))
