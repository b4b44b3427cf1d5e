"""Compare the forward and backward attention kernels with float64 and the CPU."""

from __future__ import annotations

import math
import random

import pytest
import torch
import torch.nn.attention
import torch.nn.functional as F
from accuracy import assert_as_accurate
from layouts import on_device
from tables import FLOAT
from torch._subclasses import FakeTensorMode

pytestmark = pytest.mark.usefixtures("only_kernels")

aten = torch.ops.aten
fused = aten._scaled_dot_product_fused_attention_overrideable
OVERRIDEABLE = torch.nn.attention.SDPBackend.OVERRIDEABLE
CASES = [  # (batch, query heads, KV heads, queries, keys, head dim, value dim, causal, mask)
    (2, 3, 3, 70, 33, 32, 32, False, None),
    (1, 2, 2, 40, 40, 64, 64, True, None),
    (2, 4, 2, 17, 150, 40, 40, False, "float"),
    (1, 6, 1, 9, 70, 72, 72, True, None),
    (2, 2, 2, 33, 20, 256, 256, False, "bool"),
    (1, 1, 1, 1, 1, 1, 1, False, None),
    (1, 2, 2, 20, 37, 24, 50, False, "row"),
    (1, 1, 1, 5, 300, 128, 128, False, None),
    (2, 2, 1, 50, 30, 100, 100, True, "float"),
    # Several tiles of rows and of columns, because a kernel can be right for the first tile alone.
    (1, 2, 1, 140, 200, 64, 64, False, None),
    (1, 1, 1, 200, 140, 128, 128, True, None),
]


def make_mask(kind: str | None, batch: int, heads: int, queries: int, keys: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a mask or an attention bias. Its shape depends on `kind` and broadcasts to the shape of the scores."""
    if kind == "float":
        return torch.randn(batch, 1, queries, keys).to(dtype)
    if kind == "bool":
        return torch.rand(heads, queries, keys) < 0.7
    return torch.randn(1, keys).to(dtype) if kind else None


def formula(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, causal: bool, scale: float,
            dropout: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Compute the result and the logsumexp with basic operators. The probabilities are multiplied by `dropout`."""
    gqa_factor = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(gqa_factor, 1), v.repeat_interleave(gqa_factor, 1)
    scores = q @ k.transpose(-1, -2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    probs = torch.softmax(scores, -1).nan_to_num()
    if dropout is not None:
        probs = probs * dropout
    return probs @ v, scores.logsumexp(-1)


def inputs(case: tuple, dtype: torch.dtype) -> tuple:
    """Return Q, K and V in the layout that models use (adjacent heads), the mask, and the gradient of the result."""
    batch, heads, key_heads, queries, keys, size, value_size, _, mask = case
    q, k, v, g = (
        torch.randn(batch, n, h, e).to(dtype).transpose(1, 2)
        for n, h, e in ((queries, heads, size), (keys, key_heads, size), (keys, key_heads, value_size),
                        (queries, heads, value_size))
    )  # fmt: skip
    return q, k, v, make_mask(mask, batch, heads, queries, keys, dtype), g


def check(case: tuple, dtype: torch.dtype) -> None:
    """Compare the result, the gradients and the logsumexp."""
    q, k, v, mask, g = inputs(case, dtype)
    causal, scale = case[7], 0.7 / math.sqrt(case[5])
    results = []
    for kind in ("kernel", "same", "exact"):
        leaves = [on_device(t) if kind == "kernel" else t.double() if kind == "exact" else t.clone() for t in (q, k, v)]
        leaves = [t.detach().requires_grad_() for t in leaves]
        if kind == "kernel":
            attn_bias = None if mask is None else mask.to("mpsx")
            y, lse, *_ = fused(*leaves, attn_bias, 0.0, causal, scale=scale)
        elif kind == "same" and not (causal and mask is not None):  # PyTorch accepts is_causal or a mask, but not both
            y = F.scaled_dot_product_attention(*leaves, mask, is_causal=causal, scale=scale, enable_gqa=True)
        else:
            attn_bias = mask if mask is None or mask.dtype == torch.bool else mask.to(leaves[0].dtype)
            y, lse = formula(*leaves, attn_bias, causal, scale)
        grads = torch.autograd.grad(y, leaves, g.to("mpsx") if kind == "kernel" else g.to(y.dtype))
        results.append([y.detach(), *grads])
        if kind == "kernel":
            kernel_lse = lse
        elif kind == "exact":
            torch.testing.assert_close(kernel_lse.cpu(), lse.float(), rtol=1e-5, atol=1e-5)
    for got, cpu, exact in zip(*results, strict=True):
        assert_as_accurate(got, cpu, exact)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention(case: tuple) -> None:
    for dtype in FLOAT:
        check(case, dtype)


@pytest.mark.parametrize("dtype", FLOAT, ids=str)
def test_scaled_dot_product_attention(dtype: torch.dtype) -> None:
    """PyTorch's public function selects the right kernels."""
    q, k, v = (torch.randn(2, h, 20, 16).to(dtype) for h in (4, 2, 2))
    mask = torch.rand(20, 20) < 0.6
    mask[3] = False  # a query without keys, for which the result is zero
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}, {"scale": 0.3}):
        device_options = {n: o.to("mpsx") if isinstance(o, torch.Tensor) else o for n, o in options.items()}
        inputs_on_device = (t.to("mpsx") for t in (q, k, v))
        got = F.scaled_dot_product_attention(*inputs_on_device, enable_gqa=True, **device_options)
        cpu = F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)
        exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), enable_gqa=True, **options)
        assert_as_accurate(got, cpu, exact)
    assert aten._fused_sdp_choice(q.to("mpsx"), k.to("mpsx"), v.to("mpsx"), enable_gqa=True) == int(OVERRIDEABLE)


def test_dropout() -> None:
    """Forward and backward drop the same probabilities. With V = I, the result is the matrix of probabilities after
    dropout."""
    torch.manual_seed(3)
    n, p = 64, 0.3
    q, k = torch.randn(2, 2, n, 16), torch.randn(2, 2, n, 16)
    v = torch.eye(n).expand(2, 2, n, n)

    def run(value: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        torch.manual_seed(7)
        leaves = [t.to("mpsx").requires_grad_() for t in (q, k, value)]
        return F.scaled_dot_product_attention(*leaves, dropout_p=p), leaves

    probs_after_dropout, _ = run(v)
    probs = formula(q.double(), k.double(), v.double(), None, False, 0.25)[0]
    kept = probs_after_dropout.cpu() != 0
    assert abs(kept.double().mean().item() - (1 - p)) < 0.02
    torch.testing.assert_close(probs_after_dropout.detach().cpu(), (probs * kept / (1 - p)).float())
    v = torch.randn(2, 2, n, n)
    y, leaves = run(v)
    exact = [t.double().requires_grad_() for t in (q, k, v)]
    z, _ = formula(*exact, None, False, 0.25, kept / (1 - p))
    torch.testing.assert_close(y.cpu(), z.float())
    g = torch.randn(z.shape)
    ours, theirs = torch.autograd.grad(y, leaves, g.to("mpsx")), torch.autograd.grad(z, exact, g.double())
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.cpu(), b.float(), rtol=1e-4, atol=1e-5)


def test_random_state() -> None:
    """The random state is on the device, as PyTorch's fake kernel says. The backward pass accepts no other."""
    x = torch.randn(1, 1, 4, 8, device="mpsx")
    out, lse, *_, seed, offset, _ = fused(x, x, x, None, 0.3)
    with FakeTensorMode() as mode:
        *_, fake_seed, fake_offset, _ = fused(*[mode.from_tensor(x)] * 3, None, 0.3)
    for real, fake in ((seed, fake_seed), (offset, fake_offset)):
        assert (real.device, real.dtype, real.shape) == (fake.device, fake.dtype, fake.shape)
    for state in ((seed.cpu(), offset), (seed, offset.int()), (seed, None)):
        with pytest.raises(RuntimeError, match="expected int64 scalars on mpsx:0 as the seed and offset of dropout"):
            aten._scaled_dot_product_fused_attention_overrideable_backward(
                out, x, x, x, None, [True] * 3 + [False], out, lse, None, None, 4, 4, 0.3, False, *state)


def test_unsupported_cases_are_decomposed() -> None:
    q = torch.randn(1, 2, 5, 300)
    got = F.scaled_dot_product_attention(q.to("mpsx"), q.to("mpsx"), q.to("mpsx"))
    torch.testing.assert_close(got.cpu(), F.scaled_dot_product_attention(q, q, q))
    mask = torch.randn(5, 5, device="mpsx", requires_grad=True)
    small = q[..., :8].to("mpsx")
    F.scaled_dot_product_attention(small, small, small, attn_mask=mask).sum().backward()
    assert mask.grad is not None


def test_nan_stays_in_its_row() -> None:
    q, k, v = (torch.randn(1, 1, 40, 16) for _ in range(3))
    q[0, 0, 3, 2] = math.nan
    got = F.scaled_dot_product_attention(q.to("mpsx"), k.to("mpsx"), v.to("mpsx")).cpu()
    assert got[0, 0, 3].isnan().all()
    assert not got[0, 0, [*range(3), *range(4, 40)]].isnan().any()


@pytest.mark.sweep
def test_random_cases() -> None:
    n = random.Random(0)
    for _ in range(60):
        heads = n.choice([1, 2, 3])
        size = n.choice([n.randint(1, 256), 32, 64])
        check((n.randint(1, 2), heads * n.choice([1, 2]), heads, n.randint(1, 200), n.randint(1, 200), size,
               n.choice([size, n.randint(1, 256)]), n.random() < 0.5, n.choice([None, "float", "bool", "row"])),
              n.choice(FLOAT))  # fmt: skip
