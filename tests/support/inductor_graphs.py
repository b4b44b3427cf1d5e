"""Graphs for torch.compile with Inductor: name -> (function, inputs as shapes or tensors).

Each shape is replaced by a normally distributed float32 tensor, which is created on the CPU from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

GRAPHS: dict[str, tuple[Callable, tuple]] = {}


def graph(*inputs):
    """Register a function under its name."""

    def add(function):
        GRAPHS[function.__name__] = function, inputs
        return function

    return add


def lambdas(group: str, inputs: tuple, **functions: Callable) -> None:
    """Register several functions with the same inputs."""
    for name, function in functions.items():
        GRAPHS[f"{group}_{name}"] = function, inputs


P = (37, 53)
lambdas(
    "pointwise", (P, P),
    add_mul=lambda x, y: x * 2 + y * y,
    gelu=lambda x, y: F.gelu(x) + F.gelu(y, approximate="tanh"),
    silu_chain=lambda x, y: F.silu(x) * torch.sigmoid(y) - torch.tanh(x * y),
    exp_log=lambda x, y: torch.exp(x) + torch.log1p(y.abs()) + torch.expm1(x * 0.1) + torch.log2(y.abs() + 1),
    trigonometry=lambda x, y: torch.sin(x) * torch.cos(y) + torch.atan2(x, y) + torch.tan(x * 0.5),
    inverse=lambda x, y: torch.asin(x.clamp(-1, 1)) + torch.acos(y.clamp(-1, 1)) + torch.atan(x),
    hyperbolic=lambda x, y: torch.sinh(x) + torch.cosh(y) + torch.asinh(x) + torch.acosh(y.abs() + 1),
    powers=lambda x, y: x.abs().pow(y) + torch.sqrt(y.abs()) + torch.rsqrt(x.abs() + 1) + x**3,
    special=lambda x, y: torch.erf(x) + torch.erfc(y) + torch.lgamma(x.abs() + 1) + torch.digamma(y.abs() + 1),
    bessel=lambda x, y: torch.special.i0(x) + torch.special.bessel_j0(y) + torch.special.i1e(x),
    where=lambda x, y: torch.where(x > y, x, y * 2) + torch.where(torch.isfinite(x), 1.0, 0.0),
    compare=lambda x, y: (x < y).float() + (x >= y).int() + (x == y) + (x != 0),
    logic=lambda x, y: ((x > 0) & (y > 0)) | ~((x > 1) ^ (y > 1)),
    rounding=lambda x, y: torch.floor(x) + torch.ceil(y) + torch.round(x * 3) + torch.trunc(y * 3) + torch.frac(x),
    division=lambda x, y: x / (y.abs() + 1) + torch.floor_divide(x, y.abs() + 1) + torch.remainder(x, y.abs() + 1),
    fmod_hypot=lambda x, y: torch.fmod(x, y.abs() + 1) + torch.hypot(x, y) + torch.copysign(x, y) + torch.sign(y),
    minmax=lambda x, y: torch.maximum(x, y) + torch.minimum(x, y) * x.clamp(min=-0.5, max=0.5),
    activations=lambda x, y: F.elu(x) + F.leaky_relu(y, 0.1) + F.hardswish(x) + F.softplus(y) + F.mish(x) + F.relu6(y),
    nan=lambda x, y: torch.nan_to_num(torch.log(x)) + torch.isnan(torch.sqrt(y)).float(),
    half=lambda x, y: (x.half() * y.half() + 1).exp().clamp(max=100),
    bfloat=lambda x, y: F.gelu(x.bfloat16()) * y.bfloat16() + 0.5,
    casts=lambda x, y: (x * 100).to(torch.int32) + (y * 10).to(torch.int64) + x.to(torch.bool).to(torch.int8),
)  # fmt: skip
INTS = torch.randint(-50, 50, P, generator=torch.Generator().manual_seed(1))
lambdas(
    "integer", (INTS, INTS.flip(0).abs() + 1),
    arithmetic=lambda i, j: i * j - i // j + i % j,
    bits=lambda i, j: ((i & j) | (i ^ 3)) + (i << 2) + (j >> 1) + ~i,
    small=lambda i, j: i.to(torch.int16) * 3 + j.to(torch.uint8).to(torch.int16),
)  # fmt: skip
lambdas(
    "layout", ((12, 20), (20, 12)),
    transpose=lambda x, y: x.t() * 2 + y,
    transpose_copy=lambda x, y: (x.t() + y).contiguous().t().relu(),
    broadcast=lambda x, y: x[:, None, :] * y.t()[None, :, :],
    slice=lambda x, y: x[2:9, 3:17:2] + y[4:11, 1:8],
    flip_roll=lambda x, y: x.flip(0) + y.t().roll(3, 1),
    cat=lambda x, y: torch.cat([x * 2, y.t() + 1, x.sin()], 1),
    stack=lambda x, y: torch.stack([x, y.t().exp()], -1),
    pad=lambda x, y: F.pad(x, (1, 2, 3, 0), value=1.5) * 2,
    reflect=lambda x, y: F.pad(x[None], (2, 3), mode="reflect"),
    tril=lambda x, y: torch.tril(x @ y) + torch.triu(torch.ones(12, 12, device=x.device), 1),
    repeat=lambda x, y: x.repeat(2, 3) + 1,
    arange=lambda x, y: x + torch.arange(20, device=x.device) + torch.linspace(0, 1, 20, device=x.device),
    full=lambda x, y: torch.full_like(x, 3.0) + torch.zeros_like(x) + torch.eye(12, 20, device=x.device),
    unfold=lambda x, y: x.unfold(1, 4, 2).sum(-1),
    as_strided=lambda x, y: torch.as_strided(x, (5, 6), (21, 2)) * 3,
    heads=lambda x, y: x.repeat(2, 8).reshape(4, 8, 5, 24).transpose(1, 2).reshape(20, 192) * y[:, :1],
    channels_last=lambda x, y: x.reshape(1, 3, 4, 20).contiguous(memory_format=torch.channels_last) * 2,
)  # fmt: skip
R = (9, 1500)
lambdas(
    "reduce", (R,),
    sum=lambda x: x.sum(1),
    sum_all=lambda x: x.sum(),
    sum_first=lambda x: x.sum(0),
    mean=lambda x: x.mean(-1, keepdim=True),
    prod=lambda x: (x[:, :40] * 0.1 + 1).prod(1),
    amax=lambda x: x.amax(1) - x.amin(1),
    max=lambda x: x.max(1),
    argmax=lambda x: (x.argmax(1), x.argmin(0), x.argmax()),
    any_all=lambda x: ((x > 3).any(1), (x < 4).all(0)),
    var=lambda x: x.var(1),
    var_mean=lambda x: torch.var_mean(x, 1, correction=0),
    std_all=lambda x: x.std(),
    norm=lambda x: x.norm(dim=1) + torch.linalg.vector_norm(x, ord=1, dim=1),
    two_dims=lambda x: x.reshape(9, 30, 50).sum((0, 2)),
    middle=lambda x: x.reshape(9, 30, 50).mean(1),
    small=lambda x: x[:, :7].sum(1) + x[:, :33].mean(1),
    softmax=lambda x: torch.softmax(x, 1),
    log_softmax=lambda x: F.log_softmax(x.reshape(90, 150), -1),
    softmax_half=lambda x: torch.softmax(x.half(), 1),
    logsumexp=lambda x: torch.logsumexp(x, 1),
    layer_norm=lambda x: F.layer_norm(x, (1500,)) * 2 + 1,
    layer_norm_short=lambda x: F.layer_norm(x.reshape(180, 75), (75,)),
    rms_norm=lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5),
    group_norm=lambda x: F.group_norm(x.reshape(9, 12, 125), 4),
    batch_norm=lambda x: F.batch_norm(x.reshape(9, 12, 125), None, None, training=True),
    fused=lambda x: F.gelu(x - x.mean(1, keepdim=True)).amax(1) * x.std(1),
    count=lambda x: (x > 0).sum(1) + torch.count_nonzero(x < -1),
    columns=lambda x: (x.t().sum(0), x.t().std(0), x.reshape(100, 135).amax(0), x.reshape(3, 50, 90).mean(1)),
    first_of_equal=lambda x: ((x > 2).reshape(9, 30, 50).transpose(0, 1).float().reshape(30, -1).argmax(1),
                              torch.where(x > 2, torch.nan, x).argmin(1), torch.full_like(x, -torch.inf).argmax(1)),
)  # fmt: skip
INDEX = torch.tensor([3, 0, 7, 7, 2, 11, 5])
lambdas(
    "index", ((12, 30), INDEX),
    select=lambda x, i: torch.index_select(x, 0, i) * 2,
    gather=lambda x, i: torch.gather(x, 1, (i[None].expand(12, 7) * 2)),
    take=lambda x, i: x[i, i + 3] + x[i].sum(1),
    embedding=lambda x, i: F.embedding(i, x).relu(),
    negative=lambda x, i: x[-i - 1] + 1,
    scatter_add=lambda x, i: torch.zeros(12, 30, device=x.device).index_add(0, i, x[:7]),
    scatter=lambda x, i: torch.zeros(12, 30, device=x.device).scatter_add(1, i[None].expand(12, 7), x[:, :7]),
    index_put=lambda x, i: torch.index_put(x * 1, (i,), x[:7] * 2, accumulate=True),
    scatter_half=lambda x, i: torch.zeros(12, 30, device=x.device).half().index_add(0, i, x[:7].half()),
    one_hot=lambda x, i: (i[:, None] == torch.arange(12, device=x.device)).float() @ x,
    masked_fill=lambda x, i: x.masked_fill(x > 0, -1.0),
    cross_entropy=lambda x, i: F.cross_entropy(x[:7], i),
)  # fmt: skip


@graph((4, 3, 16, 16))
def pool(x):
    return F.max_pool2d(F.relu(x), 2) + F.avg_pool2d(x, 2)


@graph((2, 3, 8, 8))
def upsample(x):
    return F.interpolate(x, scale_factor=2, mode="nearest") + F.interpolate(
        x, scale_factor=2, mode="bilinear", align_corners=False
    )


@graph((33, 64), (64, 48), (48,))
def linear_gelu(x, w, b):
    return F.gelu(x @ w + b).sum(-1)


@graph((2, 4, 24, 16), (2, 4, 24, 16), (2, 4, 24, 16))
def attention(q, k, v):
    scores = (q @ k.transpose(-1, -2)) * 0.25
    mask = torch.ones(24, 24, dtype=torch.bool, device=q.device).tril()
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v


@graph((6, 128), (128,))
def swiglu_rms(x, w):
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w
    a, b = y.chunk(2, -1)
    return F.silu(a) * b


@graph((300, 40))
def many_outputs(x):
    mean = x.mean(0)
    return x - mean, mean, (x > mean).sum(0), x.t().contiguous()


@graph((64, 1000))
def cumulative(x):
    return x.cumsum(1) + x.sort(1).values.mean()
