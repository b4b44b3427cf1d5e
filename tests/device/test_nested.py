"""Strided and jagged nested tensors: operators that fall back, attention, and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

pytestmark = [pytest.mark.usefixtures("silent_fallback"), pytest.mark.filterwarnings("ignore")]

LENGTHS = (2, 5, 1)
Forward = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def parts(width: int, d: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(n, width, generator=generator).to(d) for n in LENGTHS]


def flat(x: torch.Tensor) -> torch.Tensor:
    """Concatenate all elements of a strided, jagged or dense tensor."""
    if not x.is_nested:
        return x.reshape(-1)
    if x.layout == torch.jagged:
        return x.contiguous().values().reshape(-1) if x._ragged_idx == 1 else flat(x.transpose(1, x._ragged_idx))
    return torch.cat([t.reshape(-1) for t in x.unbind()])


def heads(x: torch.Tensor) -> torch.Tensor:
    """Reshape (batch, length, 8) to (batch, 2, length, 4)."""
    return (x.unflatten(-1, (2, 4)) if x.layout == torch.jagged else x.reshape(x.size(0), -1, 2, 4)).transpose(1, 2)


FORWARDS: dict[str, Forward] = {
    "matmul": lambda x, w: (x * 2) @ x.transpose(1, 2),
    "linear": lambda x, w: F.linear(x * 2, w),
    "linear_bias": lambda x, w: F.linear(x * 2, w, w[:, 0]),
    "chain": lambda x, w: F.gelu(F.linear(torch.relu(x + x), w)) * 3 - 1,
    "unbind": lambda x, w: torch.cat([t * (i + 1) for i, t in enumerate((x * 2).unbind())]),
    "select": lambda x, w: (x * 2)[1] @ w,
    "softmax": lambda x, w: torch.softmax(x * 2, -1),
    "layer_norm": lambda x, w: F.layer_norm(x * 2, (8,), w[0], w[1]),
    "attention": lambda x, w: F.scaled_dot_product_attention(heads(x), heads(x * 2), heads(F.linear(x, w))),
    "attention_causal": lambda x, w: F.scaled_dot_product_attention(heads(x), heads(x), heads(x), is_causal=True),
    "attention_scale": lambda x, w: F.scaled_dot_product_attention(heads(x * 2), heads(x), heads(x), scale=0.3),
    "padded": lambda x, w: torch.nested.to_padded_tensor(x * 2, 0.0) @ w,
    "transpose": lambda x, w: (x * 2).transpose(1, 2) * 3,
    "dropout": lambda x, w: F.dropout(x * 2, 0.0),
    "clone": lambda x, w: (x * 2).clone() * x,
    "in_place": lambda x, w: (x * 2).mul_(3),
}


def run(forward: Forward, layout: torch.layout, d: str, grad: bool) -> list[torch.Tensor] | Exception:
    leaves = [p.requires_grad_(grad) for p in parts(8, d)]
    w = (torch.arange(64.0).view(8, 8).sin()).to(d).requires_grad_(grad)
    try:
        x = torch.nested.as_nested_tensor(leaves, layout=layout)
        result = flat(forward(x, w))
        if not grad:
            return [result.detach().cpu()]
        result.mul(torch.arange(result.numel(), device=d).cos()).sum().backward()
        return [t.detach().cpu() for t in (result, *(t.grad for t in (*leaves, w)))  if t is not None]  # fmt: skip
    except (RuntimeError, NotImplementedError, ValueError) as error:
        return error


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.parametrize("name", FORWARDS)
def test_forward_and_gradient(name: str, layout: torch.layout, grad: bool) -> None:
    want, got = (run(FORWARDS[name], layout, d, grad) for d in ("cpu", "mpsx"))
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert isinstance(want, Exception) and isinstance(got, Exception), f"got {got!r}, expected {want!r}"
        return
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other)


def test_transformer_encoder_uses_nested_tensors() -> None:
    """In evaluation mode, nn.TransformerEncoder converts a padded input to a nested tensor."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x, mask = torch.randn(3, 5, 8), torch.tensor([[0, 0, 1, 1, 1], [0] * 5, [0, 1, 1, 1, 1]]).bool()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            want = model.cpu()(x, src_key_padding_mask=mask)
            got = model.to("mpsx")(x.to("mpsx"), src_key_padding_mask=mask.to("mpsx"))
        torch.testing.assert_close(got.cpu(), want)
