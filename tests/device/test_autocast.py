"""Mixed precision: torch.autocast and GradScaler."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("silent_fallback")

HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])


@HALVES
def test_autocast_op_lists(dtype: torch.dtype) -> None:
    a = torch.rand(4, 4, device="mpsx")
    with torch.autocast("mpsx", dtype=dtype):
        assert torch.is_autocast_enabled("mpsx")
        assert torch.mm(a, a).dtype == dtype
        assert nn.functional.linear(a, a).dtype == dtype
        assert nn.functional.softmax(torch.mm(a, a), -1).dtype == torch.float32
        assert torch.mm(a, a).sum().dtype == torch.float32
        assert torch.cat([a, torch.mm(a, a)]).dtype == torch.float32
        with torch.autocast("mpsx", enabled=False):
            assert torch.mm(a, a).dtype == torch.float32
    assert torch.mm(a, a).dtype == torch.float32


def test_unsupported_dtype_warns_and_disables_autocast() -> None:
    with pytest.warns(UserWarning, match="not support"), torch.autocast("mpsx", dtype=torch.float64):
        assert not torch.is_autocast_enabled("mpsx")


@HALVES
def test_training_with_grad_scaler(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 1)).to("mpsx")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scaler = torch.amp.GradScaler("mpsx", init_scale=256.0)
    x = torch.randn(64, 8, device="mpsx")
    target = x[:, :1] * x[:, 1:2]
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        with torch.autocast("mpsx", dtype=dtype):
            loss = nn.functional.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3
    assert scaler.get_scale() == 256.0


def test_overflow_skips_the_step() -> None:
    weight = nn.Parameter(torch.ones(3, device="mpsx"))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("mpsx", init_scale=1024.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1, 1, 1]
    assert scaler.get_scale() == 512.0
    optimizer.zero_grad()
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    assert weight.tolist() == [0, 0, 0]
    loaded = torch.amp.GradScaler("mpsx")
    loaded.load_state_dict(copy.deepcopy(scaler.state_dict()))
    assert loaded.state_dict() == scaler.state_dict()


def test_parameters_keep_their_dtype() -> None:
    layer = nn.Linear(4, 4, device="mpsx")
    with torch.autocast("mpsx", dtype=torch.bfloat16):
        layer(torch.ones(1, 4, device="mpsx")).sum().backward()
    assert layer.weight.grad.dtype == torch.float32
