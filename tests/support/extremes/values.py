"""Operands at the limits of a dtype's range."""

from __future__ import annotations

import math

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INF, NAN = math.inf, math.nan
EXPONENTS = {torch.float32: 128, torch.bfloat16: 128, torch.float16: 16}


def pool(dtype: torch.dtype) -> torch.Tensor:
    """Return distinct positive and negative values for which naive formulas fail."""
    f = torch.finfo(dtype)
    top = EXPONENTS[dtype]
    limits = [f.max, f.max / 2, f.max / 3, f.max * (1 - 4 * f.eps), f.tiny, f.tiny * 1.5, f.smallest_normal / 2]
    limits += [f.tiny * f.eps, f.tiny * f.eps * 3, f.eps, math.sqrt(f.max) * 1.5, math.sqrt(f.tiny) / 1.5]
    powers = [2.0**k for k in range(-top, top, top // 8)]
    thresholds = [top * math.log(2) * s for s in (0.499, 0.501, 0.999, 1.001)] + [104.5, 20.5, 10.5, 9.0, 3.0, 2.0]
    near_integers = [n + s for n in (0.5, 1, 1.5, 2, 3, 10, 33) for s in (0, f.eps * n, -f.eps * n / 2, 1e-3)]
    positive = limits + powers + thresholds + near_integers + [0.0, 0.1, 0.7, math.pi / 2, math.pi, INF]
    values = torch.tensor([*positive, *(-v for v in positive), NAN], dtype=torch.float64).to(dtype)
    bits = values.view(torch.int32 if dtype == torch.float32 else torch.int16)
    return bits.unique().view(dtype)


def picked(dtype: torch.dtype, shape: tuple[int, ...], g: torch.Generator, ordinary: float = 0.4) -> torch.Tensor:
    """Sample special values from the pool, and mix them with ordinary values."""
    values = pool(dtype)
    special = values[torch.randint(len(values), shape, generator=g)]
    plain = torch.randn(shape, generator=g).to(dtype)
    return torch.where(torch.rand(shape, generator=g) < ordinary, plain, special)


def regime(name: str, dtype: torch.dtype, shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    """Return a tensor of one kind of difficult values."""
    f = torch.finfo(dtype)
    normal = torch.randn(shape, generator=g, dtype=torch.float64)
    if name == "ordinary":
        x = normal
    elif name == "large":  # squares overflow, and sums may overflow as well
        x = normal.clamp(-4, 4) * (f.max / 8)
    elif name == "limit":
        x = normal.sign() * f.max
    elif name == "square":  # squares are near the limit
        x = normal * math.sqrt(f.max)
    elif name == "small":  # squares underflow
        x = normal * math.sqrt(f.tiny) / 4
    elif name == "subnormal":
        x = normal * f.tiny
    elif name == "constant":
        x = torch.full(shape, pool(dtype)[torch.randint(len(pool(dtype)), (), generator=g)].item(), dtype=torch.float64)
    elif name == "one":  # a single special value among ordinary ones
        x = normal.clone()
        special = pool(dtype)[torch.randint(len(pool(dtype)), (), generator=g)].double()
        if x.numel():
            x.view(-1)[torch.randint(x.numel(), (), generator=g)] = special
    elif name == "rows":  # each row has a different scale
        x = normal * torch.exp2(torch.randint(-EXPONENTS[dtype], EXPONENTS[dtype], (*shape[:-1], 1), generator=g))
    elif name == "infinite":
        x = torch.where(torch.rand(shape, generator=g) < 0.2, normal.sign() * INF, normal)
    elif name == "mixed":
        return picked(dtype, shape, g)
    else:
        raise ValueError(f"unknown regime {name!r}")
    return x.clamp(-f.max, f.max).where(x.isfinite(), x).to(dtype)


REGIMES = ("ordinary", "large", "limit", "square", "small", "subnormal", "constant", "one", "rows", "infinite", "mixed")


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """Copy a tensor to the given layout."""
    if layout == "contiguous":
        return x.contiguous()
    if layout == "transposed" and x.dim() > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "channels_last" and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    wide = torch.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype) if x.dim() else x
    if not x.dim():
        return x
    view = wide[..., ::2]
    view.copy_(x)
    return view


def some_layout(t: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    """Return a copy with a random layout."""
    layouts = ("contiguous", "transposed", "step", "channels_last")
    return laid_out(t, layouts[int(torch.randint(4, (), generator=g))])
