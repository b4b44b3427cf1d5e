"""Attention with masks that hide whole tiles, add nothing in others, and are mixed elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_as_accurate

pytestmark = pytest.mark.usefixtures("only_kernels")

BATCH, HEADS, KV_HEADS, QUERIES, KEYS = 2, 4, 2, 200, 330  # two by three tiles of 128 queries and keys
fused = torch.ops.aten._scaled_dot_product_fused_attention_overrideable


def additive(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return 0 for visible keys and -inf for hidden ones."""
    return torch.zeros(visible.shape, dtype=dtype).masked_fill(~visible, -math.inf)


def causal(queries: int, keys: int) -> torch.Tensor:
    return torch.ones(queries, keys, dtype=torch.bool).tril()


def lengths(start: bool) -> torch.Tensor:
    """Return a padding mask. The first batch element has 100 keys, at the start or at the end."""
    visible = torch.ones(BATCH, 1, 1, KEYS, dtype=torch.bool)
    visible[0, ..., 100 if start else 0 : None if start else -100] = False
    return visible


def blocks() -> torch.Tensor:
    """Return a block-diagonal mask of 70 queries and 110 keys per block."""
    return torch.arange(QUERIES)[:, None] // 70 == torch.arange(KEYS) // 110


def few_rows() -> torch.Tensor:
    """Return a mask in which a whole tile of queries, and half of another, attend to no key."""
    visible = torch.rand(BATCH, 1, QUERIES, KEYS) > 0.5
    visible[0, :, :128] = False
    visible[1, :, 50:120] = False
    return visible


def one_corner(dtype: torch.dtype) -> torch.Tensor:
    """Return a bias that is 0 except in a quarter of one tile."""
    bias = torch.zeros(1, HEADS, QUERIES, KEYS)
    bias[:, 1, 70:90, 200:250] = torch.randn(20, 50)
    return bias.to(dtype)


def finite(dtype: torch.dtype) -> torch.Tensor:
    """Return a causal mask with the lowest finite number."""
    return torch.zeros(QUERIES, KEYS, dtype=dtype).masked_fill(~causal(QUERIES, KEYS), torch.finfo(dtype).min)


MASKS: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "causal booleans": lambda _: causal(QUERIES, KEYS),
    "causal": lambda t: additive(causal(QUERIES, KEYS), t).expand(BATCH, 1, -1, -1),
    "causal per batch element": lambda t: additive(causal(QUERIES, KEYS), t).repeat(BATCH, 1, 1, 1),
    "blocks": lambda t: additive(blocks(), t),
    "right padding": lambda t: additive(lengths(True), t),
    "left padding, booleans": lambda _: lengths(False).expand(-1, -1, QUERIES, -1),
    "queries without keys": lambda t: additive(few_rows(), t),
    "random booleans per head": lambda _: torch.rand(HEADS, QUERIES, KEYS) > 0.5,
    "one corner": one_corner,
    "finite": finite,
    "float32": lambda _: torch.randn(QUERIES, KEYS).masked_fill(~blocks(), -math.inf),
    "transposed": lambda t: additive(torch.ones(KEYS, QUERIES, dtype=torch.bool).triu().mT, t),
    "every other key": lambda t: additive(torch.arange(2 * KEYS).expand(QUERIES, -1) < 250, t)[:, ::2],
    "aligned": lambda t: torch.randn(HEADS, QUERIES, KEYS + 6).to(t)[..., :KEYS],
    "aligned, float32": lambda _: torch.randn(QUERIES, KEYS + 6)[:, :KEYS],
    "unaligned": lambda t: additive(causal(QUERIES, KEYS + 1), t)[:, 1:],
    "one number per query": lambda t: torch.randn(BATCH, 1, QUERIES, 1).to(t),
}  # fmt: skip


def operands(dtype: torch.dtype, dim: int) -> list[torch.Tensor]:
    """Return Q, K, V and the gradient of the result."""
    return [torch.randn(BATCH, n, heads, dim).to(dtype).transpose(1, 2)
            for n, heads in ((QUERIES, HEADS), (KEYS, KV_HEADS), (KEYS, KV_HEADS), (QUERIES, HEADS))]  # fmt: skip


def formula(tensors: list[torch.Tensor], mask: torch.Tensor, dtype: torch.dtype) -> list[torch.Tensor]:
    """Compute the result, its gradients, and the logsumexp on the CPU."""
    *leaves, g = (t.to(dtype) for t in tensors)
    leaves = [t.detach().requires_grad_() for t in leaves]
    q, k, v = (t.repeat_interleave(HEADS // t.shape[1], 1) for t in leaves)
    bias = additive(mask, dtype) if mask.dtype == torch.bool else mask.to(dtype)
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + bias
    no_keys = (scores == -math.inf).all(-1, keepdim=True)
    probs = torch.softmax(scores.masked_fill(no_keys, 0), -1).masked_fill(no_keys, 0)
    y = probs @ v
    return [y.detach(), *torch.autograd.grad(y, leaves, g), scores.logsumexp(-1)]


def on_device(tensors: list[torch.Tensor], mask: torch.Tensor | None, dropout: float = 0.0,
              is_causal: bool = False) -> list[torch.Tensor]:  # fmt: skip
    """Compute the same with the fused operator."""
    *leaves, g = (t.to("mpsx") for t in tensors)
    leaves = [t.requires_grad_() for t in leaves]
    torch.mpsx.manual_seed(5)
    y, lse, *_ = fused(*leaves, mask, dropout, is_causal)
    return [t.cpu() for t in (y.detach(), *torch.autograd.grad(y, leaves, g), lse)]


def to_device(mask: torch.Tensor) -> torch.Tensor:
    """Copy a mask with its strides."""
    if not mask._is_view():
        return mask.to("mpsx")
    base = mask._base
    return base.to("mpsx").as_strided(mask.size(), mask.stride(), mask.storage_offset())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_mask(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    head_dim = 128 if name in ("blocks", "causal", "float32", "aligned") else 64
    mask, tensors = MASKS[name](dtype), operands(dtype, head_dim)
    with_strides = to_device(mask)
    assert with_strides.stride() == mask.stride()
    with torch.no_grad():
        same = with_strides.cpu()
    assert torch.equal(same, mask)
    *got, lse = on_device(tensors, with_strides)
    *cpu, _ = formula(tensors, mask, dtype)
    *exact, exact_lse = formula(tensors, mask, torch.float64)
    for results in zip(got, cpu, exact, strict=True):
        assert_as_accurate(*results, 3)
    torch.testing.assert_close(lse, exact_lse.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_same_as_causal(dropout: float) -> None:
    """A causal mask gives the numbers of is_causal, and dropout drops the same probabilities."""
    torch.manual_seed(0)
    tensors = operands(torch.float32, 64)
    mask = additive(causal(QUERIES, KEYS), torch.float32).to("mpsx")
    masked, implied = on_device(tensors, mask, dropout), on_device(tensors, None, dropout, True)
    for a, b in zip(masked, implied, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)  # in float32, some tiers store all scores
def test_hidden_tiles_are_not_read(dtype: torch.dtype) -> None:
    """NaN in keys and queries that meet only in hidden tiles does not spread."""
    torch.manual_seed(0)
    tensors = operands(dtype, 64)
    halves = torch.arange(QUERIES)[:, None] // 128 == torch.arange(KEYS) // 128
    tensors[1][:, :, 150] = math.nan  # only seen by the queries from 128 on
    y, dq, dk, dv, _ = on_device(tensors, additive(halves, dtype).to("mpsx"))
    for t in (y[:, :, :128], dq[:, :, :128], dk[:, :, :128], dv[:, :, :128]):
        assert bool(t.isfinite().all())
    for t in (y[:, :, 128:], dq[:, :, 128:]):
        assert bool(t.isnan().all())


def test_public_function() -> None:
    """PyTorch converts a mask of booleans, and selects the kernels."""
    torch.manual_seed(0)
    q, k, v, _ = operands(torch.bfloat16, 64)
    mask = lengths(True)
    got = F.scaled_dot_product_attention(q.to("mpsx"), k.to("mpsx"), v.to("mpsx"), mask.to("mpsx"), enable_gqa=True)
    cpu, exact = (F.scaled_dot_product_attention(q.to(t), k.to(t), v.to(t), mask, enable_gqa=True)
                  for t in (torch.bfloat16, torch.float64))  # fmt: skip
    assert_as_accurate(got, cpu, exact)
