"""Compare random attention, forward and backward, with float64: `python random_attention.py SEED [COUNT]`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import torch
import torch.nn.functional as F
from accuracy import assert_as_accurate
from tensor_tier import main

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def operand(batch: int, heads: int, length: int, dim: int, dtype: torch.dtype, choice: random.Random) -> torch.Tensor:
    """Return random numbers in a layout that models use: by head, by position, or a slice of either."""
    kind = choice.choice(["heads", "positions", "sliced"])
    if kind == "positions":
        return torch.randn(batch, length, heads, dim).transpose(1, 2).to(dtype)
    extra = choice.choice([1, 8]) if kind == "sliced" else 0
    return torch.randn(batch, heads, length, dim + extra).to(dtype)[..., extra:]


def random_mask(shape: tuple[int, ...], dtype: torch.dtype, choice: random.Random) -> torch.Tensor | None:
    """Return no mask, numbers, or booleans that hide all keys from one query."""
    batch, _, queries, keys = shape
    kind = choice.choice(["none", "none", "numbers", "keys", "booleans"])
    if kind == "none":
        return None
    if kind == "booleans":
        mask = torch.rand(batch, 1, queries, keys) > 0.3
        mask[:, :, queries // 2] = False
        return mask
    return torch.randn(shape if kind == "numbers" else (1, 1, 1, keys)).to(dtype)


def kept_by_dropout(shape: tuple[int, ...], probability: float, seed: int) -> torch.Tensor:
    """Return which probabilities dropout keeps: the result if all scores are equal and V is the identity matrix."""
    batch, heads, queries, keys = shape
    q, k = torch.zeros(batch, heads, queries, 8), torch.zeros(batch, heads, keys, 8)
    v = torch.eye(keys).expand(batch, heads, keys, keys)
    torch.mpsx.manual_seed(seed)
    out = F.scaled_dot_product_attention(*(t.to("mpsx") for t in (q, k, v)), dropout_p=probability)
    return out.cpu() != 0


def compare(choice: random.Random) -> str:
    """Check one random call, and return a description of it."""
    dtype = choice.choice(DTYPES)
    batch, kv_heads, group = choice.choice([(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 3), (1, 2, 2)])
    heads = kv_heads * group
    queries, keys = (choice.choice([33, 64, 130, 150]) for _ in range(2))
    if dtype == torch.float32 and choice.random() < 0.7:  # long enough for unfused attention
        queries, keys = (choice.choice([128, 131, 200]) for _ in range(2))
    dim, v_dim = (choice.choice([8, 33, 64, 72, 128]) for _ in range(2))
    if choice.random() < 0.6:
        v_dim = dim
    causal = choice.random() < 0.4
    q = operand(batch, heads, queries, dim, dtype, choice)
    k, v = (operand(batch, kv_heads, keys, d, dtype, choice) for d in (dim, v_dim))
    g = operand(batch, heads, queries, v_dim, dtype, choice)
    shape = (batch, heads, queries, keys)
    mask = None if causal else random_mask(shape, dtype, choice)
    dropout, seed = choice.choice([0.0, 0.0, 0.3]), choice.randrange(1000)
    kept = kept_by_dropout(shape, dropout, seed) if dropout else None
    text = f"{dtype} {shape}, {kv_heads} KV heads, head_dim {dim} and {v_dim}, causal {causal}, " \
           f"mask {None if mask is None else (mask.dtype, tuple(mask.shape))}, dropout {dropout}"  # fmt: skip

    def on_cpu(dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [t.to(dtype).detach().requires_grad_() for t in (q, k, v)]
        rows, columns, values = leaves[0], *(t.repeat_interleave(group, 1) for t in leaves[1:])
        scores = rows @ columns.mT * dim**-0.5
        hidden = torch.ones(queries, keys, dtype=torch.bool).triu(1) if causal else torch.zeros(1, dtype=torch.bool)
        if mask is not None and mask.dtype == torch.bool:
            hidden = ~mask
        elif mask is not None:
            scores = scores + mask.to(dtype)
        probs = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1).nan_to_num(0)  # a query may see no key
        y = (probs if kept is None else probs * kept / (1 - dropout)) @ values
        return [y.detach(), *torch.autograd.grad(y, leaves, g.to(dtype))]

    def on_device() -> list[torch.Tensor]:
        leaves = [t.to("mpsx").detach().requires_grad_() for t in (q, k, v)]
        torch.mpsx.manual_seed(seed)
        y = F.scaled_dot_product_attention(*leaves, attn_mask=None if mask is None else mask.to("mpsx"),
                                           dropout_p=dropout, is_causal=causal, enable_gqa=group > 1)  # fmt: skip
        return [y.detach(), *torch.autograd.grad(y, leaves, g.to("mpsx"))]

    try:
        for got, cpu, exact in zip(on_device(), on_cpu(dtype), on_cpu(torch.float64), strict=True):
            assert_as_accurate(got, cpu, exact, 3)
    except Exception as error:
        raise AssertionError(text) from error
    return text


if __name__ == "__main__":
    main(compare, ["attention_tensor_"], 6)
