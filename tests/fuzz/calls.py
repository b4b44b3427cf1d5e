"""Hand-written calls. Each entry generates random arguments for one function."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .tensor_spec import DTYPES, FLOATS, INTEGERS, Rng, TensorSpec

Arguments = tuple[tuple, dict]
REAL = (*FLOATS, *INTEGERS)
INDEX = (torch.int64, torch.int64, torch.int32)
CALLS: dict[str, Callable[[Rng], Arguments]] = {}


def calls(names: str, generator: Callable[[Rng], Arguments]) -> None:
    for name in names.split():
        CALLS[name] = generator


def unary(types: tuple[torch.dtype, ...] = DTYPES) -> Callable[[Rng], Arguments]:
    return lambda r: ((r.tensor(dtype=types),), {})


def binary(types: tuple[torch.dtype, ...] = DTYPES, scalar: bool = True) -> Callable[[Rng], Arguments]:
    def generate(r: Rng) -> Arguments:
        a = r.tensor(dtype=types)
        if scalar and r.random() < 0.25:
            return (a, r.number(a.dtype)), {}
        b = r.tensor(r.broadcast(a.size), a.dtype if r.random() < 0.6 else types)
        return ((a, b) if r.random() < 0.8 else (b, a)), {}

    return generate


calls(
    "torch.neg torch.abs torch.sign torch.sgn torch.floor torch.ceil torch.round torch.trunc torch.square torch.sqrt "
    "torch.rsqrt torch.reciprocal torch.exp torch.exp2 torch.expm1 torch.log torch.log2 torch.log10 torch.log1p "
    "torch.sin torch.cos torch.tan torch.asin torch.acos torch.atan torch.sinh torch.cosh torch.tanh torch.asinh "
    "torch.acosh torch.atanh torch.sigmoid torch.isnan torch.isinf torch.isfinite torch.logical_not torch.signbit "
    "torch.nonzero torch.count_nonzero torch.erf torch.erfc torch.frac torch.isposinf torch.isneginf torch.angle "
    "torch.special.entr torch.special.i0 torch.special.i1e torch.special.log_ndtr torch.nan_to_num",
    unary(),
)
calls(
    "torch.nn.functional.relu torch.nn.functional.gelu torch.nn.functional.silu torch.nn.functional.mish "
    "torch.nn.functional.hardswish torch.nn.functional.hardsigmoid torch.nn.functional.softplus torch.special.digamma "
    "torch.nn.functional.logsigmoid torch.nn.functional.elu torch.nn.functional.selu torch.nn.functional.softsign "
    "torch.erfinv torch.lgamma torch.special.ndtri torch.logit",
    unary(FLOATS),
)
calls(
    "torch.add torch.sub torch.mul torch.div torch.eq torch.ne torch.lt torch.le torch.gt torch.ge torch.pow "
    "torch.remainder torch.fmod torch.floor_divide torch.true_divide torch.logical_and torch.logical_or "
    "torch.logical_xor torch.float_power torch.xlogy",
    binary(),
)
calls(
    "torch.maximum torch.minimum torch.fmax torch.fmin torch.atan2 torch.hypot torch.copysign torch.logaddexp "
    "torch.logaddexp2 torch.heaviside torch.nextafter torch.gcd torch.lcm torch.rsub torch.ldexp "
    "torch.special.xlog1py torch.special.zeta torch.igamma",
    binary(REAL, scalar=False),
)
calls("torch.bitwise_and torch.bitwise_or torch.bitwise_xor torch.bitwise_left_shift torch.bitwise_right_shift",
      binary((*INTEGERS, torch.bool)))  # fmt: skip


def scaled(r: Rng) -> Arguments:
    a = r.tensor()
    return (a, r.tensor(r.broadcast(a.size), a.dtype)), {"alpha": r.number(a.dtype)}


def ternary(r: Rng) -> Arguments:
    a = r.tensor()
    return (a, r.tensor(r.broadcast(a.size), a.dtype), r.tensor(r.broadcast(a.size), a.dtype)), {}


def clamp(r: Rng) -> Arguments:
    a = r.tensor(dtype=REAL)
    limits = [r.choice((None, r.number(a.dtype))), r.number(a.dtype)]
    return (a, *r.sample(limits, 2)), {}


calls("torch.Tensor.add torch.Tensor.sub", scaled)
calls("torch.addcmul torch.addcdiv torch.lerp", ternary)
calls("torch.clamp torch.nn.functional.hardtanh torch.nn.functional.threshold", clamp)
calls(
    "torch.where",
    lambda r: (
        (
            r.tensor((s := r.shape()), torch.bool),
            r.tensor(r.broadcast(s)),
            r.tensor(r.broadcast(s)) if r.random() < 0.7 else r.choice((0, 2.5, True)),
        ),
        {},
    ),
)
calls(
    "torch.masked_fill torch.Tensor.masked_fill_",
    lambda r: (((a := r.tensor()), r.tensor(r.broadcast(a.size), torch.bool), r.number(a.dtype)), {}),
)
calls("torch.masked_select", lambda r: (((a := r.tensor()), r.tensor(r.broadcast(a.size), torch.bool)), {}))


def reduction(types: tuple[torch.dtype, ...] = DTYPES, one: bool = False) -> Callable[[Rng], Arguments]:
    def generate(r: Rng) -> Arguments:
        x = r.tensor(dtype=types)
        keywords = {} if r.random() < 0.2 else {"dim": r.dim(x.size) if one or r.random() < 0.5 else r.dims(x.size)}
        if keywords and r.random() < 0.4:
            keywords["keepdim"] = True
        return (x,), keywords

    return generate


calls(
    "torch.sum torch.mean torch.amax torch.amin torch.nansum torch.any torch.all torch.var torch.std torch.logsumexp "
    "torch.linalg.vector_norm torch.var_mean torch.std_mean torch.nanmean",
    reduction(),
)
calls("torch.prod torch.max torch.min torch.argmax torch.argmin torch.median torch.nanmedian torch.mode",
      reduction(one=True))  # fmt: skip


def along(
    *more: Callable[[Rng, TensorSpec], object], types: tuple[torch.dtype, ...] = DTYPES
) -> Callable[[Rng], Arguments]:
    """Generate a tensor, a dimension, and further arguments that depend on both."""

    def generate(r: Rng) -> Arguments:
        x = r.tensor(dtype=types)
        return (x, r.dim(x.size), *(make(r, x) for make in more)), {}

    return generate


calls("torch.cumsum torch.cumprod torch.cummax torch.cummin torch.logcumsumexp torch.unbind", along())
calls("torch.softmax torch.log_softmax torch.nn.functional.softmin torch.nn.functional.glu", along(types=FLOATS))
calls(
    "torch.sort torch.argsort",
    lambda r: (((x := r.tensor()),), {"dim": r.dim(x.size), "stable": True, "descending": r.random() < 0.5}),
)
calls(
    "torch.diff torch.roll torch.flip torch.tril torch.triu torch.diagonal torch.rot90",
    lambda r: ((r.tensor(r.shape(2)), *((1, 0) if r.random() < 0.5 else (1,))), {}),
)


def indexed(r: Rng, shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return tuple(r.randint(0, 6) if d == dim % max(len(shape), 1) else r.randint(min(n, 1), n)
                 for d, n in enumerate(shape)) or r.choice(((), (3,)))  # fmt: skip


def gather(r: Rng) -> Arguments:
    x = r.tensor()
    dim = r.dim(x.size)
    return (x, dim, r.index(indexed(r, x.size, dim), x.size[dim] if x.size else 1, r.choice(INDEX))), {}


def scatter(*more: object, types: tuple[torch.dtype, ...] = DTYPES) -> Callable[[Rng], Arguments]:
    def generate(r: Rng) -> Arguments:
        x = r.tensor(dtype=types)
        dim = r.dim(x.size)
        index = r.index(indexed(r, x.size, dim), x.size[dim] if x.size else 1)
        source = r.tensor(tuple(n + r.randint(0, 1) for n in index.size), x.dtype)
        return (x, dim, index, source, *more), {}

    return generate


def by_row(*more: object, source: bool = True) -> Callable[[Rng], Arguments]:
    def generate(r: Rng) -> Arguments:
        x = r.tensor()
        dim = r.dim(x.size)
        index = r.index((r.randint(0, 9),) if x.size or r.random() < 0.5 else (), x.size[dim] if x.size else 1)
        count = index.size[0] if index.size else 1
        shape = tuple(count if d == dim % len(x.size) else n for d, n in enumerate(x.size)) or index.size
        rest = (r.tensor(shape, x.dtype),) if source else ()
        return (x, dim, index, *rest, *more), {}

    return generate


calls("torch.gather", gather)
CALLS["torch.take_along_dim"] = lambda r: (((g := gather(r)[0])[0], g[2]), {"dim": g[1]})
calls("torch.scatter torch.scatter_add", scatter())
for kind in ("sum", "prod", "mean", "amax", "amin"):
    CALLS[f"torch.scatter_reduce#{kind}"] = scatter(kind, types=REAL)
    if kind != "sum":
        CALLS[f"torch.index_reduce#{kind}"] = by_row(kind)
calls("torch.index_add torch.index_copy", by_row())
calls("torch.index_select", by_row(source=False))
calls("torch.index_fill", lambda r: ((*(a := by_row(source=False)(r)[0]), r.number(a[0].dtype)), {}))
calls("torch.index_add#alpha", lambda r: ((a := by_row()(r)[0]), {"alpha": r.number(a[0].dtype)}))
calls("torch.take", lambda r: (((x := r.tensor()), r.index(r.shape(0, 2), torch.Size(x.size).numel())), {}))


def indices(r: Rng, x: TensorSpec) -> tuple:
    shape = r.shape(0, 2)
    return tuple(r.choice((slice(None), r.index(r.broadcast(shape), n))) for n in x.size[: r.randint(1, 3)])


def item(r: Rng) -> Arguments:
    x = r.tensor(r.full_shape(1))
    return (x, indices(r, x)), {}


def set_item(r: Rng) -> Arguments:
    x = r.tensor(r.full_shape(1))
    if r.random() < 0.3:
        return (x, r.tensor(x.size[: r.randint(1, len(x.size))], torch.bool), r.number(x.dtype)), {}
    return (x, indices(r, x), r.tensor((), x.dtype)), {}


CALLS["torch.Tensor.__getitem__"] = item
CALLS["torch.Tensor.__setitem__"] = set_item
calls(
    "torch.cat torch.hstack torch.vstack",
    lambda r: (([r.tensor((r.size() % 9, *s)) for s in [r.shape(1, 2)] * 3],), {}),
)
calls("torch.stack", lambda r: (([r.tensor(s, t) for s in [r.shape(0, 3)] for t in [r.choice(DTYPES)] * 3],), {}))
calls("torch.isin", lambda r: ((r.tensor(dtype=(t := r.choice(REAL))), r.tensor(r.shape(1, 2), t)), {}))
calls(
    "torch.searchsorted torch.bucketize",
    lambda r: ((r.tensor(r.full_shape(1, 1), torch.float32), r.tensor(r.shape(1, 2), torch.float32)), {}),
)
CALLS["torch.bucketize"] = lambda r: ((r.tensor(), r.tensor((r.randint(0, 40),), torch.float32)), {})
calls("torch.bincount", lambda r: ((r.index((r.size(),), 20),), {"minlength": r.randint(0, 30)}))
calls("torch.unique", lambda r: ((r.tensor(dtype=REAL),), {"return_inverse": True, "return_counts": True}))
