"""Benchmarks for tools/bench.py: operators on matrices, calls on ten elements, and training steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

Run = Callable[[], object]
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i8": torch.int8}
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t().contiguous().t(),
    "broadcast": lambda t: t[:1].clone().expand(t.shape),
    "columns": lambda t: t[:, :1].clone().expand(t.shape),
    "slice": lambda t: F.pad(t, (0, 1))[:, :-1],
}

# Maps the name of an operator to (a function that returns the call to time for a given matrix, the matrix layouts to
# test).

OPS: dict[str, tuple[Callable[[torch.Tensor], Run], tuple[str, ...]]] = {}


def op(name: str, make: Callable[[torch.Tensor], Run], layouts: tuple[str, ...] = tuple(LAYOUTS)) -> None:
    """Register an operator with its input layouts."""
    OPS[name] = (make, layouts)


def like(x: torch.Tensor) -> torch.Tensor:
    """Return a dense matrix of ones in the shape of x."""
    return torch.ones(x.shape, dtype=x.dtype, device=x.device)


def images(x: torch.Tensor) -> torch.Tensor:
    """Return about x.numel() elements as a batch of images with 16 channels."""
    side = 4 if x.numel() < 10**4 else 8 if x.numel() < 10**6 else 32
    batch = x.numel() // (16 * side * side)
    return x.reshape(-1)[: batch * 16 * side * side].reshape(batch, 16, side, side)


def positions(x: torch.Tensor) -> torch.Tensor:
    """Return a permutation of x's row indices."""
    n = x.shape[0]
    return torch.arange(n, device=x.device) * 7919 % n


def planes(x: torch.Tensor) -> torch.Tensor:
    """Return about x.numel() elements as images of 64 x 64 with 32 channels. For small x, use 32 x 32 with 8
    channels."""
    channels, side = (32, 64) if x.numel() >= 10**6 else (8, 32)
    batch = max(1, x.numel() // (channels * side * side))
    count = batch * channels * side * side
    return x.reshape(-1).repeat(-(-count // x.numel()))[:count].reshape(batch, channels, side, side).clone()


def last(x: torch.Tensor) -> torch.Tensor:
    """Return planes(x) in channels-last format."""
    return planes(x).contiguous(memory_format=torch.channels_last)


def columns_order(x: torch.Tensor) -> torch.Tensor:
    """Return one column index per element of x. In each row, the indices are a permutation."""
    n = x.shape[1]
    return (torch.arange(n, device=x.device) * 7919 % n).expand(x.shape).contiguous()


def backward(x: torch.Tensor, forward: Callable[[torch.Tensor], torch.Tensor]) -> Run:
    """Return a call that runs the backward pass of `forward`."""
    leaf = x.detach().requires_grad_()
    y = forward(leaf)
    return partial(torch.autograd.grad, y, leaf, torch.ones_like(y), retain_graph=True)


def pool_backward(x: torch.Tensor, pool: Callable[..., torch.Tensor], *window: object) -> Run:
    """Return a call that runs the backward pass of a pooling operator."""
    return backward(x, lambda p: pool(p, *window))


def optimizer_step(x: torch.Tensor, **how: bool) -> Run:
    """Return a call of AdamW's step() for four parameters with x.numel() elements in total."""
    params = [torch.nn.Parameter(part.clone()) for part in x.reshape(-1).chunk(4)]
    for p in params:
        p.grad = torch.ones_like(p)
    return torch.optim.AdamW(params, **how).step


def square(x: torch.Tensor) -> torch.Tensor:
    """Return a square matrix with as many columns as x."""
    return x[: x.shape[1], : x.shape[1]].contiguous()


DENSE = ("contiguous",)
for unary in ("exp", "tanh", "sigmoid", "sqrt", "neg", "erf"):
    op(unary, lambda x, name=unary: partial(getattr(torch, name), x))
for activation in ("relu", "gelu", "silu"):
    op(activation, lambda x, name=activation: partial(getattr(F, name), x))
for binary in ("add", "mul", "div", "maximum", "lt"):
    op(binary, lambda x, name=binary: partial(getattr(torch, name), x, like(x)))
op("add_scalar", lambda x: partial(torch.add, x, 1.5))
op("where", lambda x: partial(torch.where, x > 0, x, like(x)))
op("clamp", lambda x: partial(torch.clamp, x, -0.5, 0.5))
op("contiguous", lambda x: partial(x.clone, memory_format=torch.contiguous_format))
op("to_half", lambda x: partial(x.to, torch.float16 if x.dtype != torch.float16 else torch.float32))
op("fill", lambda x: partial(like(x).fill_, 2.0), DENSE)
for reduction in ("sum", "mean", "amax", "argmax"):
    op(f"{reduction}_rows", lambda x, name=reduction: partial(getattr(x, name), -1))
    op(f"{reduction}_columns", lambda x, name=reduction: partial(getattr(x, name), 0))
op("sum_all", lambda x: x.sum)
op("var_rows", lambda x: partial(torch.var, x, -1))
op("softmax", lambda x: partial(torch.softmax, x, -1))
op("log_softmax", lambda x: partial(torch.log_softmax, x, -1))
op("layer_norm", lambda x: partial(F.layer_norm, x, x.shape[-1:]))
op("rms_norm", lambda x: partial(F.rms_norm, x, x.shape[-1:]))
op("batch_norm", lambda x: partial(F.batch_norm, images(x), None, None, training=True), DENSE)
op("group_norm", lambda x: partial(F.group_norm, images(x), 4), DENSE)
op("max_pool2d", lambda x: partial(F.max_pool2d, images(x), 2), DENSE)
op("avg_pool2d", lambda x: partial(F.avg_pool2d, images(x), 2), DENSE)
op("max_pool2d_bwd", lambda x: pool_backward(planes(x), F.max_pool2d, 2), DENSE)
op("max_pool2d_bwd_3_2", lambda x: pool_backward(planes(x), F.max_pool2d, 3, 2, 1), DENSE)
op("avg_pool2d_bwd", lambda x: pool_backward(planes(x), F.avg_pool2d, 2), DENSE)
op("avg_pool2d_bwd_3_1", lambda x: pool_backward(planes(x), F.avg_pool2d, 3, 1, 1), DENSE)
op("avg_pool2d_bwd_last", lambda x: pool_backward(last(x), F.avg_pool2d, 2), DENSE)
op("adaptive_avg_pool2d", lambda x: partial(F.adaptive_avg_pool2d, planes(x), 7), DENSE)
op("adaptive_avg_pool2d_1", lambda x: partial(F.adaptive_avg_pool2d, planes(x), 1), DENSE)
op("adaptive_avg_pool2d_bwd", lambda x: pool_backward(planes(x), F.adaptive_avg_pool2d, 7), DENSE)
op("adaptive_avg_pool2d_bwd_1", lambda x: pool_backward(planes(x), F.adaptive_avg_pool2d, 1), DENSE)
op("adaptive_avg_pool2d_bwd_last", lambda x: pool_backward(last(x), F.adaptive_avg_pool2d, 7), DENSE)
op("group_norm_last", lambda x: partial(F.group_norm, last(x), 4), DENSE)
op("flip_columns", lambda x: partial(torch.flip, x, [1]), DENSE)
op("flip_rows", lambda x: partial(torch.flip, x, [0]), DENSE)
op("scatter_", lambda x: partial(like(x).scatter_, 1, columns_order(x), x), DENSE)
op("scatter_add_", lambda x: partial(like(x).scatter_add_, 1, columns_order(x), x), DENSE)
op("index_put_add", lambda x: partial(like(x).index_put_, (positions(x),), x, accumulate=True), DENSE)
op("sum_four", lambda x: partial(x.reshape(-1)[: x.numel() // 4 * 4].reshape(-1, 4).sum, -1), DENSE)
op("vector_norm", lambda x: partial(torch.linalg.vector_norm, x), DENSE)
op("vector_norm_rows", lambda x: partial(torch.linalg.vector_norm, x, 2, -1), DENSE)
op("amax_all", lambda x: x.amax, DENSE)
op("nll_loss", lambda x: partial(F.nll_loss, x, positions(x) % x.shape[1]), DENSE)
op("nll_loss_bwd", lambda x: backward(x, lambda p: F.nll_loss(p, positions(p) % p.shape[1])), DENSE)
op("embedding", lambda x: partial(F.embedding, positions(x), x), DENSE)
op("gather", lambda x: partial(torch.gather, x, 0, positions(x).expand(x.shape[1], -1).t()), DENSE)
op("index_select", lambda x: partial(torch.index_select, x, 0, positions(x)))
op("cat", lambda x: partial(torch.cat, [x, x], -1))
op("cross_entropy", lambda x: partial(F.cross_entropy, x, positions(x) % x.shape[1]), DENSE)
op("mse_loss", lambda x: partial(F.mse_loss, x, like(x)))
op("dropout", lambda x: partial(F.dropout, x, 0.1))
op("uniform_", lambda x: like(x).uniform_, DENSE)
op("normal_", lambda x: like(x).normal_, DENSE)
op("bernoulli_", lambda x: partial(like(x).bernoulli_, 0.5), DENSE)
op("matmul", lambda x: partial(torch.mm, x[:256], square(x)), DENSE)
op("adamw_fused", lambda x: optimizer_step(x, fused=True), DENSE)
op("adamw_default", optimizer_step, DENSE)


def matrix(size: int, dtype: torch.dtype, layout: str, device: str) -> torch.Tensor:
    """Return a matrix of about `size` random elements, with the same values on every device."""
    rows = max(2, int(math.sqrt(size)) // 4)
    values = torch.randn(rows, max(2, size // rows), generator=torch.Generator().manual_seed(0))
    return LAYOUTS[layout]((values if dtype.is_floating_point else values * 100).to(dtype).to(device))


# Calls on ten elements, to measure the overhead per call.

OVERHEAD: dict[str, Callable[[torch.Tensor], Run]] = {
    "empty": lambda x: partial(torch.empty, 10, device=x.device),
    "add": lambda x: partial(torch.add, x, x),
    "add out=": lambda x: partial(torch.add, x, x, out=torch.empty_like(x)),
    "add_": lambda x: partial(torch.zeros_like(x).add_, x),
    "mul scalar": lambda x: partial(torch.mul, x, 2.0),
    "relu": lambda x: x.relu,
    "gelu": lambda x: partial(F.gelu, x),
    "sum": lambda x: x.sum,
    "softmax": lambda x: partial(torch.softmax, x, -1),
    "layer_norm": lambda x: partial(F.layer_norm, x, (10,)),
    "copy_": lambda x: partial(torch.zeros_like(x).copy_, x),
    "view": lambda x: partial(x.view, 2, 5),
    "cat": lambda x: partial(torch.cat, [x, x]),
    "normal_": lambda x: torch.zeros_like(x).normal_,
    "dropout": lambda x: partial(F.dropout, x, 0.5),
    "item": lambda x: torch.ones((), device=x.device).item,
    "mm 8x8": lambda x: partial(torch.mm, *2 * [torch.ones(8, 8, device=x.device)]),
}


class Block(torch.nn.Module):
    """A residual block with two convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(channels),
            torch.nn.ReLU(),
            torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output plus the shortcut."""
        return F.relu(x + self.body(x))


def resnet_step(device: str) -> Run:
    """Return a training step of a small residual network on 64 images of 32 x 32 pixels."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), Block(16), torch.nn.MaxPool2d(2), Block(16), Block(16),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 10),
    ).to(device)  # fmt: skip
    x, y = torch.randn(64, 3, 32, 32).to(device), torch.randint(10, (64,)).to(device)
    return training_step(model, lambda: F.cross_entropy(model(x), y))


class Transformer(torch.nn.Module):
    """A decoder with two layers, width 128, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, activation="gelu", batch_first=True)
        self.embed = torch.nn.Embedding(96, 128)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(128, 96)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of each next token."""
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.head(self.layers(self.embed(tokens), mask=mask, is_causal=True))


def transformer_step(device: str) -> Run:
    """Return a training step of a small language model on 16 sequences of 64 tokens."""
    model = Transformer().to(device)
    tokens = torch.randint(96, (16, 65)).to(device)
    return training_step(model, lambda: F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()))


def training_step(model: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> Run:
    """Return a training step: forward, backward, gradient clipping, optimizer step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


TRAINING = {"resnet": resnet_step, "transformer": transformer_step}
