"""Attention, and rotary embeddings with every pairing and angle layout."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from tables import FLOAT, TAGS

from kernel_cases import Case, case, values


def rotary_embedding(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """Call the operator on the device. On the CPU, compute its formula."""
    if x.device.type != "cpu":
        return torch.ops.mpsx.rotary_embedding(x, cos, sin, interleaved)

    def pair(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (t[..., 0::2], t[..., 1::2]) if interleaved else t.chunk(2, -1)

    a, b = pair(x)
    (cos_a, cos_b), (sin_a, sin_b) = (pair(t) if t.shape[-1] == x.shape[-1] else (t, t) for t in (cos, sin))
    turned = [a * cos_a - b * sin_a, b * cos_b + a * sin_b]
    return torch.stack(turned, -1 if interleaved else -2).flatten(-2)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, g: torch.Tensor) -> tuple:
    """Return the output and the gradients of Q, K and V."""
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    if q.device.type == "cpu":
        y = F.scaled_dot_product_attention(*leaves, attn_mask=mask, enable_gqa=True)
    else:
        y = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(*leaves, mask)[0]
    return y, *torch.autograd.grad(y, leaves, g)


def attention_error(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, g: torch.Tensor
) -> list[torch.Tensor]:
    """Return first-order error bounds for rounding P, dS and the outputs to 16 bits.

    Each rounding adds at most one unit of the rounded value. A matmul sums these errors.
    """
    group, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    keys, rows = (t.repeat_interleave(group, 1) for t in (k, v))
    P = torch.softmax(scale * q @ keys.mT + mask, -1)
    y = P @ rows
    # dS is rounded, and delta contains the rounding error of the output.
    dS = (P * (g @ rows.mT - (g * y).sum(-1, True))).abs() + P * (g * y).abs().sum(-1, True)
    dK, dV = (t.unflatten(1, (-1, group)).sum(2)
                        for t in (scale * dS.mT @ q.abs(), P.mT @ g.abs()))  # fmt: skip
    # Double the bounds to cover the rounding of the outputs, which are no larger than the sums of magnitudes.
    return [2 * e for e in (P @ rows.abs(), scale * dS @ keys.abs(), dK, dV)]


def cases() -> Iterator[Case]:
    for dtype in FLOAT:
        q = values(1, 4, 21, 40, dtype=dtype, low=-1, high=1)
        # With a small output gradient, the rounding error of the output is negligible.
        g = values(1, 4, 21, 40, dtype=dtype, low=-0.1, high=0.1, seed=1)
        k, v = (values(1, 2, 150, 40, dtype=dtype, low=-1, high=1, seed=s) for s in (2, 3))
        error = {} if dtype == torch.float32 else {"error": attention_error}
        mask = values(21, 150, dtype=dtype, seed=4)  # two tiles
        yield case(f"attention {TAGS[dtype]}", attention, q, k, v, mask, g, **error)
        for size in (100, 200):
            q, k, v = (values(1, 1, n, size, dtype=dtype, low=-1, high=1, seed=n) for n in (12, 20, 20))
            g = values(1, 1, 12, size, dtype=dtype, low=-0.1, high=0.1, seed=1)
            mask = values(12, 20, dtype=dtype, seed=4)
            yield case(f"attention of {size} {TAGS[dtype]}", attention, q, k, v, mask, g, **error)
        for size in (40, 100) if dtype != torch.float32 else ():
            q, g = (values(1, 2, 21, size, dtype=dtype, low=-b, high=b, seed=size) for b in (1, 0.1))
            k, v = (values(1, 1, 70, size, dtype=dtype, low=-1, high=1, seed=s) for s in (2, 3))
            mask = values(21, 70, dtype=dtype, seed=4)
            yield case(f"tensor tier: attention of {size} {TAGS[dtype]}", attention, q, k, v, mask, g, **error)
            q, g = (values(1, 2, 140, size, dtype=dtype, low=-b, high=b, seed=size) for b in (1, 0.1))
            mask = values(140, 70, dtype=dtype, seed=4)
            yield case(f"tensor tier: tiles of attention of {size} {TAGS[dtype]}", attention, q, k, v, mask, g, **error)
    q, g = (values(1, 4, 130, 72, dtype=torch.float32, low=-b, high=b, seed=b) for b in (1, 2))
    k, v = (values(1, 2, 135, 72, dtype=torch.float32, low=-1, high=1, seed=s) for s in (2, 3))
    mask = values(130, 135, dtype=torch.float32, seed=4)
    yield case("tensor tier: unfused attention f32", attention, q, k, v, mask, g)
    for dtype in FLOAT:
        for angle in dict.fromkeys([dtype, torch.float32]):
            x = values(2, 3, 5, 16, dtype=dtype)
            tag = f"{TAGS[dtype]} {TAGS[angle]}"
            for interleaved in (False, True):
                for width in (8, 16):
                    cos, sin = (values(5, width, dtype=angle, low=0, high=1, seed=s) for s in (1, 2))
                    label = f"rotary_embedding{' interleaved' if interleaved else ''} by {width} angles {tag}"
                    yield case(label, rotary_embedding, x, cos, sin, interleaved)
