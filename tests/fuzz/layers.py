"""Hand-written calls for matmuls, layers, losses and factory functions."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .calls import CALLS, REAL, Arguments, calls, unary
from .tensor_spec import DTYPES, FLOATS, INTEGERS, Rng, TensorSpec


def matmul(shapes: Callable[[Rng], tuple]) -> Callable[[Rng], Arguments]:
    def generate(r: Rng) -> Arguments:
        kind = r.choice((torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.int64))
        return tuple(r.tensor(shape, kind) for shape in shapes(r)), {}

    return generate


calls("torch.mm", matmul(lambda r: ((r.size(), k := r.size()), (k, r.size()))))
calls("torch.bmm", matmul(lambda r: ((b := r.randint(0, 4), r.size() % 40, k := r.size()), (b, k, r.size() % 40))))
calls("torch.matmul", matmul(lambda r: ((*r.shape(0, 2), k := r.size() % 50), (k, *r.shape(0, 1)))))
calls("torch.mv", matmul(lambda r: ((r.size(), k := r.size()), (k,))))
calls("torch.dot torch.inner", matmul(lambda r: ((n := r.size(),), (n,))))
calls("torch.addmm torch.addbmm", matmul(lambda r: ((m := r.size(), n := r.size()), (m, k := r.size()), (k, n))))
calls("torch.baddbmm", matmul(lambda r: ((b := 2, m := 5, n := r.size()), (b, m, k := r.size()), (b, k, n))))
calls("torch.nn.functional.linear", matmul(lambda r: ((*r.shape(0, 2), k := r.size()), (n := r.size(), k), (n,))))


def convolution(dims: int) -> Callable[[Rng], Arguments]:
    def generate(r: Rng) -> Arguments:
        groups = r.choice((1, 1, 2, 3))
        into, out = groups * r.randint(1, 4), groups * r.randint(1, 4)
        kernel = [r.randint(1, 3) for _ in range(dims)]
        kind = r.choice(FLOATS)
        x = r.tensor((r.randint(0, 3), into, *(r.randint(1, 9) for _ in kernel)), kind)
        keywords = {
            "stride": r.randint(1, 3),
            "padding": r.randint(0, 2),
            "dilation": r.randint(1, 2),
            "groups": groups,
        }
        bias = r.tensor((out,), kind) if r.random() < 0.5 else None
        return (x, r.tensor((out, into // groups, *kernel), kind), bias), keywords

    return generate


def pool(dims: int, maximum: bool) -> Callable[[Rng], Arguments]:
    def generate(r: Rng) -> Arguments:
        x = r.tensor((*r.choice(((2,), (1, 3), (3, 0))), *(r.randint(1, 12) for _ in range(dims))), FLOATS)
        keywords = {"kernel_size": r.randint(1, 4), "stride": r.randint(1, 4), "ceil_mode": r.random() < 0.5}
        keywords["padding"] = r.randint(0, keywords["kernel_size"] // 2)
        if maximum:
            keywords |= {"dilation": r.randint(1, 3), "return_indices": r.random() < 0.5}
        else:
            keywords["count_include_pad"] = r.random() < 0.5
        return (x,), keywords

    return generate


for n in (1, 2, 3):
    CALLS[f"torch.nn.functional.conv{n}d"] = convolution(n)
    CALLS[f"torch.nn.functional.max_pool{n}d"] = pool(n, True)
    CALLS[f"torch.nn.functional.avg_pool{n}d"] = pool(n, False)
    CALLS[f"torch.nn.functional.adaptive_avg_pool{n}d"] = lambda r, n=n: (
        (r.tensor((2, 3, *(r.randint(1, 12) for _ in range(n))), FLOATS), r.randint(1, 7)),
        {},
    )
    CALLS[f"torch.nn.functional.pad#{n}"] = lambda r, n=n: (
        (r.tensor((2, 3, *(r.randint(1, 9) for _ in range(n)))), [r.randint(-2, 3) for _ in range(2 * n)]),
        {"mode": r.choice(("constant", "reflect", "replicate", "circular"))})  # fmt: skip


def normalized(r: Rng) -> Arguments:
    x = r.tensor(r.full_shape(1), FLOATS)
    last = x.size[-r.randint(1, len(x.size)) :]
    return (x, last, *(r.tensor(last, x.dtype) if r.random() < 0.7 else None for _ in range(2))), {}


calls("torch.nn.functional.layer_norm", normalized)
calls("torch.nn.functional.rms_norm", lambda r: (normalized(r)[0][:3], {}))
calls(
    "torch.nn.functional.group_norm",
    lambda r: ((r.tensor((2, 6, *r.full_shape(0, 2)), FLOATS), r.choice((1, 2, 3, 6))), {}),
)
calls(
    "torch.nn.functional.batch_norm",
    lambda r: (
        (
            r.tensor((3, 4, *r.full_shape(0, 2)), (t := r.choice(FLOATS))),
            r.tensor((4,), t),
            of_ones(r, t),
            r.tensor((4,), t),
            r.tensor((4,), t),
            r.random() < 0.5,
        ),
        {},
    ),
)
calls(
    "torch.nn.functional.normalize torch.nn.functional.cosine_similarity",
    lambda r: ((r.tensor(r.full_shape(2), FLOATS),), {}),
)
CALLS["torch.nn.functional.cosine_similarity"] = lambda r: (
    ((x := r.tensor(r.full_shape(2), FLOATS)), r.tensor(x.size, x.dtype)),
    {},
)


def of_ones(r: Rng, dtype: torch.dtype) -> TensorSpec:
    return r.laid_out(torch.ones(4, dtype=dtype))


def loss(r: Rng) -> Arguments:
    x = r.tensor(dtype=FLOATS)
    return (x, r.tensor(x.size, x.dtype)), {"reduction": r.choice(("none", "mean", "sum"))}


calls("torch.nn.functional.mse_loss torch.nn.functional.l1_loss torch.nn.functional.smooth_l1_loss "
      "torch.nn.functional.huber_loss torch.nn.functional.soft_margin_loss torch.nn.functional.kl_div "
      "torch.nn.functional.binary_cross_entropy_with_logits", loss)  # fmt: skip
calls(
    "torch.nn.functional.cross_entropy",
    lambda r: (
        (r.tensor((n := r.size(), c := r.randint(1, 130)), FLOATS), r.index((n,), c)),
        {"reduction": r.choice(("none", "mean", "sum")), "label_smoothing": r.choice((0.0, 0.1))},
    ),
)
calls(
    "torch.nn.functional.embedding",
    lambda r: ((r.index(r.shape(0, 2), n := r.randint(1, 20)), r.tensor((n, r.size()), FLOATS)), {}),
)
calls(
    "torch.ops.aten.embedding_dense_backward",
    lambda r: (
        (r.tensor((n := r.size(), r.size()), FLOATS), r.index((n + (r.random() < 0.1),), 5), 5, -1, r.random() < 0.5),
        {},
    ),
)
calls(
    "torch.nn.functional.interpolate",
    lambda r: (
        (r.tensor((2, 3, r.randint(1, 9), r.randint(1, 9)), FLOATS),),
        {"size": (r.randint(1, 12), r.randint(1, 12)), "mode": r.choice(("nearest", "bilinear", "bicubic", "area"))},
    ),
)
calls(
    "torch.cdist",
    lambda r: (
        (r.tensor((r.size(), k := r.randint(1, 40)), torch.float32), r.tensor((r.size(), k), torch.float32)),
        {"p": r.choice((0.0, 1.0, 2.0, 3.0))},
    ),
)
calls(
    "torch.topk torch.kthvalue",
    lambda r: (((x := r.tensor(r.full_shape(1), REAL)), r.randint(0, x.size[-1] if r.random() < 0.95 else 200)), {}),
)
calls(
    "torch.linspace torch.logspace",
    lambda r: (
        (r.uniform(-5, 5), r.uniform(-5, 5), r.randint(0, 70)),
        {"dtype": r.choice((*FLOATS, *INTEGERS)), "device": torch.device("cpu")},
    ),
)
calls(
    "torch.arange",
    lambda r: (
        (r.randint(-9, 9), r.randint(-9, 90), r.choice((1, 2, 0.5, 7))),
        {"dtype": r.choice((*FLOATS, *INTEGERS)), "device": torch.device("cpu")},
    ),
)
calls(
    "torch.full",
    lambda r: (
        (r.shape(), r.choice((0.5, 2, True, 300, -1, 1e6))),
        {"dtype": r.choice(DTYPES), "device": torch.device("cpu")},
    ),
)
calls(
    "torch.repeat_interleave torch.tile torch.Tensor.repeat", lambda r: ((r.tensor(r.shape(1, 1)), r.randint(0, 4)), {})
)
calls("torch.Tensor.to", lambda r: ((r.tensor(), r.choice(DTYPES)), {}))
calls(
    "torch.Tensor.copy_",
    lambda r: ((r.laid_out(torch.zeros(s := r.shape(), dtype=r.choice(DTYPES)), False), r.tensor(r.broadcast(s))), {}),
)
calls("torch.Tensor.fill_", lambda r: (((x := r.tensor()), r.number(x.dtype)), {}))
calls(
    "torch.complex torch.polar", lambda r: ((r.tensor((s := r.shape()), torch.float32), r.tensor(s, torch.float32)), {})
)
calls("torch.view_as_real torch.Tensor.conj torch.real", unary((torch.complex64,)))
