"""nn.TransformerEncoder and nn.MultiheadAttention call operators of their own for inference."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import mpsx

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def masks(kind: str) -> dict[str, torch.Tensor]:
    """Return the masks of 3 sequences of 9 elements."""
    causal, padding = torch.ones(9, 9).triu(1).bool(), torch.arange(9) >= torch.tensor([[9], [6], [4]])
    return {"none": {}, "causal": {"mask": causal}, "padding": {"padding": padding},
            "both": {"mask": causal, "padding": padding}}[kind]  # fmt: skip


@pytest.mark.parametrize("kind", ["none", "causal", "padding", "both"])
@pytest.mark.parametrize(("norm_first", "activation"), [(False, "gelu"), (True, "relu")])
def test_encoder(norm_first, activation, kind):
    """Inference equals the training path on the CPU without dropout, and nothing falls back."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, 0.0, activation, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    x, given = torch.randn(3, 9, 32), masks(kind)
    expected = encoder.train()(x, given.get("mask"), given.get("padding"))
    encoder.eval().to("mpsx")
    moved = {name: mask.to("mpsx") for name, mask in given.items()}
    with torch.no_grad(), mpsx.profiler.profile() as profile:
        found = encoder(x.to("mpsx"), moved.get("mask"), moved.get("padding"))
    torch.testing.assert_close(found.cpu(), expected, **TOLERANCE)
    assert profile.calls("fallback") == 0


@pytest.mark.parametrize("kind", ["none", "causal", "padding", "both"])
@pytest.mark.parametrize("averaged", [None, False, True])
def test_multi_head_attention(averaged, kind):
    """Inference equals the training path on the CPU, with and without weights."""
    torch.manual_seed(1)
    attention = nn.MultiheadAttention(32, 4, batch_first=True)
    nn.init.normal_(attention.in_proj_bias)
    x, given = torch.randn(3, 9, 32), masks(kind)

    def run(device: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        moved = {name: mask.to(device) for name, mask in given.items()}
        y = x.to(device)
        return attention.to(device)(y, y, y, attn_mask=moved.get("mask"), key_padding_mask=moved.get("padding"),
                                    need_weights=averaged is not None,
                                    average_attn_weights=bool(averaged))  # fmt: skip

    expected = run("cpu")
    attention.eval()
    with torch.no_grad(), mpsx.profiler.profile() as profile:
        found = run("mpsx")
    torch.testing.assert_close(found[0].cpu(), expected[0], **TOLERANCE)
    assert (found[1] is None) == (averaged is None)
    if averaged is not None:
        torch.testing.assert_close(found[1].cpu(), expected[1], **TOLERANCE)
    assert profile.calls("fallback") == 0


def test_wrong_mask():
    """A mask that does not fit its type is rejected with both."""
    x, weight, bias = torch.randn(2, 5, 8, device="mpsx"), torch.randn(24, 8, device="mpsx"), torch.zeros(24).to("mpsx")
    arguments = (x, x, x, 8, 2, weight, bias, weight[:8], bias[:8])
    with pytest.raises(RuntimeError, match="_native_multi_head_attention: expected a mask of 2 dimensions"):
        torch._native_multi_head_attention(*arguments, mask=torch.zeros(5, device="mpsx"), mask_type=0)
    with pytest.raises(RuntimeError, match="mask_type: expected 0, 1 or 2, got None"):
        torch._native_multi_head_attention(*arguments, mask=torch.zeros(5, 5, device="mpsx"))
