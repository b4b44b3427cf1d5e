"""Operators for the section "breadth" of tools/bench.py, each in a single layout.

Each entry is a function of a dense matrix that has at least four times as many columns as rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

from bench.cases import Run, backward, columns_order, images, like, pool_backward, positions

BREADTH: dict[str, Callable[[torch.Tensor], Run]] = {}


def positive(x: torch.Tensor) -> torch.Tensor:
    """Map x to positive numbers of the same dtype."""
    return x.abs() + 0.5 if x.is_floating_point() else x.abs().clamp(1, 100)


def unit(x: torch.Tensor) -> torch.Tensor:
    """Map x to numbers between 0 and 1."""
    return x.float().sigmoid().to(x.dtype)


def volumes(x: torch.Tensor) -> torch.Tensor:
    """Return about x.numel() elements as volumes of 8 x 8 x 8 with 2 channels."""
    batch = max(1, x.numel() // 1024)
    return x.reshape(-1).repeat(2)[: batch * 1024].reshape(batch, 2, 8, 8, 8)


def signals(x: torch.Tensor) -> torch.Tensor:
    """Return about x.numel() elements as signals of length 64 with 4 channels."""
    batch = x.numel() // 256
    return x.reshape(-1)[: batch * 256].reshape(batch, 4, 64)


def small_matrices(x: torch.Tensor) -> torch.Tensor:
    """Return about x.numel() elements as 32 x 32 matrices."""
    return x.reshape(-1).repeat(2)[: max(1, x.numel() // 1024) * 1024].reshape(-1, 32, 32)


def short_rows(x: torch.Tensor) -> torch.Tensor:
    """Return x's elements in rows of 32."""
    return x.reshape(-1)[: x.numel() // 32 * 32].reshape(-1, 32)


def targets(x: torch.Tensor) -> torch.Tensor:
    """Return one class index per row."""
    return positions(x) % x.shape[1]


def grid_of(x: torch.Tensor) -> torch.Tensor:
    """Return a sampling grid with one point per pixel of each image."""
    n, _, h, w = x.shape
    theta = torch.tensor([[0.9, 0.1, 0.0], [-0.1, 0.9, 0.1]]).expand(n, 2, 3)
    return F.affine_grid(theta, (n, 1, h, w), align_corners=False).to(x.dtype).to(x.device)


def no_arguments(p: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return no extra arguments."""
    return ()


def both(name: str, function: Callable[..., torch.Tensor], prepare: Callable[[torch.Tensor], torch.Tensor],
         *rest: object, given: Callable[[torch.Tensor], tuple[torch.Tensor, ...]] = no_arguments,
         **named: object) -> None:  # fmt: skip
    """Register benchmarks for a function and its gradient. `given` creates extra arguments outside the timed call."""

    def run(x: torch.Tensor) -> Run:
        p = prepare(x)
        return partial(function, p, *given(p), *rest, **named)

    BREADTH[name] = run
    BREADTH[f"{name}_bwd"] = lambda x: backward(prepare(x), lambda p: function(p, *given(p), *rest, **named))


def others(p: torch.Tensor) -> tuple[torch.Tensor]:
    """Return a second operand of the same shape as p."""
    return (like(p),)


def same(x: torch.Tensor) -> torch.Tensor:
    """Return x unchanged."""
    return x


def whole(x: torch.Tensor) -> torch.Tensor:
    """Return x, which must have an integer dtype. Other dtypes have separate benchmarks."""
    if x.is_floating_point():
        raise TypeError("integers only")
    return x


def divisor(x: torch.Tensor) -> torch.Tensor:
    """Return positive integers in the shape of x."""
    return whole(x).flip(0).clamp(1, 100)


def pairs(x: torch.Tensor) -> torch.Tensor:
    """Return x as a matrix with two columns."""
    return x.reshape(-1)[: x.numel() // 2 * 2].view(-1, 2)


def complex_of(x: torch.Tensor) -> torch.Tensor:
    """Return x, which must be float32, as x.numel() / 2 complex numbers."""
    if x.dtype != torch.float32:
        raise TypeError("float32 only")
    return torch.view_as_complex(pairs(x))


def thirds(x: torch.Tensor) -> torch.Tensor:
    """Return the lengths of three segments that together cover the rows of x."""
    each = x.shape[0] // 3
    return torch.tensor([each, each, x.shape[0] - 2 * each]).to(x.device)


def targets_of(x: torch.Tensor) -> torch.Tensor:
    """Return one index below ten for each element of x."""
    return (torch.arange(x.numel()) * 7919 % 10).to(x.device)


# Elementwise functions
for name in ("sin", "cos", "tan", "asinh", "atan", "sinh", "log1p", "expm1", "erfc", "rsqrt", "round", "sign", "isnan",
             "logical_not", "square", "reciprocal"):  # fmt: skip
    BREADTH[name] = lambda x, name=name: partial(getattr(torch, name), positive(x))
for name in ("asin", "acos", "atanh", "erfinv", "logit"):
    BREADTH[name] = lambda x, name=name: partial(getattr(torch, name), unit(x))
for name in ("lgamma", "digamma", "i0", "log", "log2", "log10", "acosh"):
    BREADTH[name] = lambda x, name=name: partial(getattr(torch, name), positive(x) + 1)
for name in ("i0e", "i1", "ndtri", "log_ndtr", "entr", "bessel_j0", "erfcx"):
    BREADTH[f"special.{name}"] = lambda x, name=name: partial(getattr(torch.special, name), unit(x))
for name in ("atan2", "fmod", "remainder", "hypot", "logaddexp", "pow", "floor_divide", "xlogy", "copysign",
             "nextafter", "fmin", "eq"):  # fmt: skip
    BREADTH[name] = lambda x, name=name: partial(getattr(torch, name), positive(x), positive(x.flip(0)))
BREADTH["pow_scalar"] = lambda x: partial(torch.pow, positive(x), 2.5)
BREADTH["lerp"] = lambda x: partial(torch.lerp, x, like(x), 0.3)
BREADTH["addcmul"] = lambda x: partial(torch.addcmul, x, like(x), like(x))
BREADTH["masked_fill"] = lambda x: partial(torch.masked_fill, x, x > 0, 1.0)
BREADTH["nan_to_num"] = lambda x: partial(torch.nan_to_num, x)
for name in ("gelu", "silu", "mish", "elu", "hardswish", "softplus", "leaky_relu", "hardtanh", "logsigmoid", "glu"):
    both(name, getattr(F, name), same)
both("prelu", F.prelu, same, given=lambda p: (like(p)[0],))

for name in ("floor_divide", "remainder", "fmod"):
    BREADTH[f"{name}_whole"] = lambda x, name=name: partial(getattr(torch, name), whole(x), divisor(x))
BREADTH["div_trunc_whole"] = lambda x: partial(torch.div, whole(x), divisor(x), rounding_mode="trunc")
BREADTH["remainder_number_whole"] = lambda x: partial(torch.remainder, whole(x), 7)
for name in ("neg", "abs", "angle", "reciprocal", "sgn", "square", "sum", "mean", "exp", "sqrt"):
    BREADTH[f"complex_{name}"] = lambda x, name=name: partial(getattr(torch, name), complex_of(x))
for name in ("add", "sub", "mul", "div", "eq"):
    BREADTH[f"complex_{name}"] = lambda x, name=name: partial(getattr(torch, name), *2 * [complex_of(x)])
BREADTH["complex_mul_number"] = lambda x: partial(torch.mul, complex_of(x), 2.5)
BREADTH["complex"] = lambda x: partial(torch.complex, x, like(x))
BREADTH["polar"] = lambda x: partial(torch.polar, positive(x), like(x))
BREADTH["addcdiv"] = lambda x: partial(torch.addcdiv, x, like(x), positive(x))
BREADTH["special.zeta"] = lambda x: partial(torch.special.zeta, positive(x) + 1, positive(x))

# Reductions and scans
for name in ("prod", "logsumexp", "std", "all", "median", "cumsum", "cumprod", "logcumsumexp", "cummax", "sort",
             "argsort", "nansum"):  # fmt: skip
    BREADTH[f"{name}_rows"] = lambda x, name=name: partial(getattr(torch, name), x, -1)
for name in ("prod", "logsumexp", "std", "cumsum", "cummax", "sort"):
    BREADTH[f"{name}_columns"] = lambda x, name=name: partial(getattr(torch, name), x, 0)
for name in ("argmax", "median", "any", "aminmax", "count_nonzero"):
    BREADTH[f"{name}_all"] = lambda x, name=name: partial(getattr(torch, name), x)
BREADTH["norm1_rows"] = lambda x: partial(torch.linalg.vector_norm, x, 1, -1)
for name in ("sum", "amax", "argmax", "cumsum", "std"):  # fewer columns than vector lanes
    BREADTH[f"{name}_pairs"] = lambda x, name=name: partial(getattr(torch, name), pairs(x), 0)
BREADTH["mode"] = lambda x: partial(torch.mode, x.round(), -1)
BREADTH["segment_reduce"] = lambda x: partial(torch.segment_reduce, x, "max", lengths=thirds(x), unsafe=True)
BREADTH["topk"] = lambda x: partial(torch.topk, x, 8)
BREADTH["kthvalue"] = lambda x: partial(torch.kthvalue, x, 8)
BREADTH["quantile"] = lambda x: partial(torch.quantile, x.float(), 0.3, -1)
BREADTH["sort_all"] = lambda x: x.reshape(-1).sort
BREADTH["unique"] = lambda x: partial(torch.unique, (x * 100).long())
BREADTH["histc"] = lambda x: partial(torch.histc, x, 64)
BREADTH["bincount"] = lambda x: partial(torch.bincount, (positive(x) * 100).long().reshape(-1))
BREADTH["searchsorted"] = lambda x: partial(torch.searchsorted, x.sort(-1)[0], x)
BREADTH["bucketize"] = lambda x: partial(torch.bucketize, x, torch.linspace(-3, 3, 33).to(x))
BREADTH["nonzero"] = lambda x: (x > 0).nonzero
BREADTH["masked_select"] = lambda x: partial(torch.masked_select, x, x > 0)

# Indexing and data movement
BREADTH["index_add_"] = lambda x: partial(like(x).index_add_, 0, positions(x), x)
BREADTH["index_add_numbers"] = lambda x: partial(like(x).view(-1).index_add_, 0, targets_of(x), x.reshape(-1))
BREADTH["put_accumulate"] = lambda x: partial(like(x).put_, targets_of(x), x.reshape(-1), accumulate=True)
BREADTH["index_reduce_amax"] = lambda x: partial(like(x).index_reduce_, 0, positions(x), x, "amax")
BREADTH["masked_scatter"] = lambda x: partial(torch.masked_scatter, x, x > 0, like(x))
BREADTH["channel_shuffle"] = lambda x: partial(F.channel_shuffle, images(x), 4)
BREADTH["isin"] = lambda x: partial(torch.isin, positions(x), torch.arange(64, device=x.device))
BREADTH["trace"] = lambda x: partial(torch.trace, x)
BREADTH["index_copy_"] = lambda x: partial(like(x).index_copy_, 0, positions(x), x)
BREADTH["index_fill_"] = lambda x: partial(like(x).index_fill_, 0, positions(x), 2.0)
BREADTH["index_pairs"] = lambda x: partial(torch.ops.aten.index, x, [positions(x), positions(x)])
BREADTH["take_along_dim"] = lambda x: partial(torch.take_along_dim, x, columns_order(x), 1)
BREADTH["take"] = lambda x: partial(torch.take, x, columns_order(x))
# Use the out-of-place form. Repeated in-place calls would change nothing, and the CPU only stores elements that change.
BREADTH["scatter_reduce_amax"] = lambda x: partial(like(x).scatter_reduce, 1, columns_order(x), x, "amax")
BREADTH["roll"] = lambda x: partial(torch.roll, x, (3, 5), (0, 1))
BREADTH["tril"] = lambda x: partial(torch.tril, x)
BREADTH["repeat_interleave"] = lambda x: partial(torch.repeat_interleave, x, 2, 0)
BREADTH["repeat"] = lambda x: partial(x.repeat, 2, 2)
BREADTH["stack"] = lambda x: partial(torch.stack, [x, x], -1)
BREADTH["diag_embed"] = lambda x: partial(torch.diag_embed, short_rows(x)[:1024])
BREADTH["embedding_bwd"] = lambda x: backward(x, lambda p: F.embedding(positions(p), p))
for mode in ("sum", "mean", "max"):
    BREADTH[f"embedding_bag_{mode}"] = lambda x, mode=mode: partial(
        F.embedding_bag,
        positions(x),
        short_rows(x)[: x.shape[0]],
        positions(x[: x.shape[0] // 4]).sort()[0] * 4,
        mode=mode,
    )
for mode in ("constant", "reflect", "replicate", "circular"):
    both(f"pad_{mode}", F.pad, images, (1, 1, 1, 1), mode)

# Images, signals, and volumes
for mode in ("nearest", "bilinear", "bicubic"):
    both(f"upsample_{mode}", F.interpolate, images, scale_factor=2, mode=mode)
both("interpolate_area_half", F.interpolate, images, scale_factor=0.5, mode="area")
both("upsample_linear", F.interpolate, signals, scale_factor=2, mode="linear")
both("upsample_trilinear", F.interpolate, volumes, scale_factor=2, mode="trilinear")
for mode in ("bilinear", "nearest", "bicubic"):
    both(f"grid_sample_{mode}", F.grid_sample, images, mode, given=lambda p: (grid_of(p),), align_corners=False)
both("pixel_shuffle", F.pixel_shuffle, images, 2)
both("unfold", F.unfold, images, 3, padding=1)
both("fold", lambda p: F.fold(F.unfold(p, 2), 4 if p.shape[-1] == 4 else p.shape[-1], 2), images)
both("avg_pool1d", F.avg_pool1d, signals, 2)
both("max_pool1d", F.max_pool1d, signals, 2)
both("avg_pool3d", F.avg_pool3d, volumes, 2)
both("max_pool3d", F.max_pool3d, volumes, 2)
both("adaptive_max_pool2d", F.adaptive_max_pool2d, images, 3)
both("adaptive_avg_pool3d", F.adaptive_avg_pool3d, volumes, 3)
both("lp_pool2d", F.lp_pool2d, images, 2, 2)
both("local_response_norm", F.local_response_norm, images, 3)
BREADTH["max_pool2d_last"] = lambda x: partial(F.max_pool2d, images(x).contiguous(memory_format=torch.channels_last), 2)
BREADTH["max_pool2d_last_bwd"] = lambda x: pool_backward(
    images(x).contiguous(memory_format=torch.channels_last), F.max_pool2d, 2
)

# Normalization and its gradients
both("softmax_", F.softmax, same, -1)
both("log_softmax_", F.log_softmax, same, -1)
both("softmax_columns", F.softmax, same, 0)
both("layer_norm_", lambda p: F.layer_norm(p, p.shape[-1:]), same)
both("rms_norm_", lambda p: F.rms_norm(p, p.shape[-1:]), same)
both("group_norm_", F.group_norm, images, 4)
both("batch_norm_", lambda p: F.batch_norm(p, None, None, training=True), images)
both("normalize", F.normalize, same)
both("cosine_similarity", F.cosine_similarity, same, given=others)
both("renorm", lambda p: torch.renorm(p, 2, 0, 1.0), same)

# Losses
for name in ("l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss", "soft_margin_loss",
             "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "hinge_embedding_loss"):  # fmt: skip
    both(name, getattr(F, name), same, given=others)
both("binary_cross_entropy", F.binary_cross_entropy, unit, given=others)
both("cross_entropy_", F.cross_entropy, same, given=lambda p: (targets(p),))
both("multi_margin_loss", F.multi_margin_loss, same, given=lambda p: (targets(p),))
both("cosine_embedding_loss", F.cosine_embedding_loss, same, given=lambda p: (like(p), like(p)[:, 0]))
both("triplet_margin_loss", F.triplet_margin_loss, short_rows, given=lambda p: (like(p), p.detach().flip(0)))

# Distances and matmul
both("cdist", lambda p: torch.cdist(short_rows(p)[:256], short_rows(p)[-256:]), same)
both("cdist_1", lambda p: torch.cdist(short_rows(p)[:256], short_rows(p)[-256:], p=1), same)
both("pdist", lambda p: F.pdist(short_rows(p)[:256]), same)
BREADTH["dot"] = lambda x: partial(torch.dot, x.reshape(-1), like(x).reshape(-1))
BREADTH["mv"] = lambda x: partial(torch.mv, x, like(x)[0])
BREADTH["addr"] = lambda x: partial(torch.addr, x, like(x)[:, 0], like(x)[0])
BREADTH["bmm_small"] = lambda x: partial(torch.bmm, *2 * [small_matrices(x)])
BREADTH["cross"] = lambda x: partial(torch.linalg.cross, *2 * [x.reshape(-1)[: x.numel() // 3 * 3].reshape(-1, 3)])
BREADTH["outer"] = lambda x: partial(torch.outer, like(x)[:, 0], like(x)[0])

# Random numbers
for name in ("exponential_", "cauchy_", "log_normal_", "geometric_"):
    BREADTH[name] = lambda x, name=name: partial(getattr(like(x), name), *((0.5,) if name == "geometric_" else ()))
BREADTH["randperm"] = lambda x: partial(torch.randperm, x.numel(), device=x.device)
BREADTH["multinomial"] = lambda x: partial(torch.multinomial, unit(x), 4, replacement=True)
BREADTH["poisson"] = lambda x: partial(torch.poisson, positive(x))

# RNN cells and tensor lists
for kind, cell in (("lstm", torch.nn.LSTMCell), ("gru", torch.nn.GRUCell)):
    BREADTH[f"{kind}_cell"] = lambda x, cell=cell: partial(cell(32, 32).to(x), short_rows(x)[:256].detach())
BREADTH["foreach_add"] = lambda x: partial(torch._foreach_add, list(x.chunk(8)), 1.0)
BREADTH["foreach_norm"] = lambda x: partial(torch._foreach_norm, list(x.chunk(8)))
