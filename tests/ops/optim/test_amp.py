"""torch.amp.GradScaler on mpsx."""

from __future__ import annotations

import pytest
import torch
from tables import FLOAT

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("bad", [None, float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("inverse", [1.0, 1 / 1024])
def test_unscale(dtype: torch.dtype, bad: float | None, inverse: float) -> None:
    values = [
        torch.randn(shape).to(dtype) for shape in [(3, 4), (), (0,), (9000,), (8192,), *[(k,) for k in range(40)]]
    ]
    if bad is not None:
        values[3][8500] = bad
    device = [v.to("mpsx") for v in values]
    found, scale = torch.zeros(1).to("mpsx"), torch.tensor([inverse]).to("mpsx")
    torch._amp_foreach_non_finite_check_and_unscale_(device, found, scale)
    assert found.item() == float(bad is not None)
    for got, value in zip(device, values, strict=True):
        expected = (value.float() * inverse).to(dtype)
        torch.testing.assert_close(got.cpu(), expected, equal_nan=True)


def test_unscale_mixed_dtypes_and_layouts() -> None:
    values = [torch.randn(6, 8), torch.randn(5).half(), torch.randn(4, 4).bfloat16(), torch.randn(3)]
    device = [v.to("mpsx") for v in values]
    device[0] = device[0][::2, ::3]
    device.append(torch.ones(3, 4).to("mpsx").t())
    found, scale = torch.zeros(1).to("mpsx"), torch.tensor([0.5]).to("mpsx")
    torch._amp_foreach_non_finite_check_and_unscale_(device, found, scale)
    assert found.item() == 0
    torch.testing.assert_close(device[0].cpu(), values[0][::2, ::3] / 2)
    for got, value in zip(device[1:4], values[1:], strict=True):
        torch.testing.assert_close(got.cpu(), value / 2)
    assert torch.equal(device[4].cpu(), torch.full((4, 3), 0.5))


@pytest.mark.parametrize(
    ("scale", "tracker", "found"),
    [(1024.0, 0, 0.0), (1024.0, 3, 0.0), (1024.0, 4, 0.0), (1024.0, 3, 1.0), (3e38, 4, 0.0), (1e-30, 2, 1.0)],
)
def test_update_scale(scale: float, tracker: int, found: float) -> None:
    def update(device: str) -> tuple[float, int]:
        current = torch.tensor([scale]).to(device)
        growth = torch.tensor([tracker], dtype=torch.int32).to(device)
        returned = torch._amp_update_scale_(current, growth, torch.tensor([found]).to(device), 2.0, 0.5, 5)
        assert returned is current
        return current.item(), growth.item()

    assert update("mpsx") == update("cpu")


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_training(dtype: torch.dtype, fused: bool) -> None:
    """A scaled step gives the same result as an unscaled step. An overflow skips the step and lowers the scale."""
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(64, 10, generator=generator), torch.randn(64, 1, generator=generator)

    def train(device: str, scale: float | None) -> tuple[list[torch.Tensor], list[float]]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
        optim = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused)
        scaler = torch.amp.GradScaler(device, init_scale=scale or 1.0, enabled=scale is not None, growth_interval=4)
        losses = []
        for _ in range(12):
            optim.zero_grad()
            with torch.autocast(device, dtype):
                loss = torch.nn.functional.mse_loss(model(x.to(device)).float(), y.to(device))
            scaler.scale(loss).backward()
            scaler.step(optim)
            scaler.update()
            losses.append(loss.item())
        return [p.detach().cpu() for p in model.parameters()], [*losses, scaler.get_scale()]

    with mpsx.fallback.using_mode("silent"):
        scaled, history = train("mpsx", 256.0)
        plain, plain_history = train("mpsx", None)
    assert history[-1] == 256.0 * 2**3  # the scale doubles after every 4 of the 12 finite steps
    assert history[-2] < 0.8 * history[0]
    torch.testing.assert_close(history[:-1], plain_history[:-1], rtol=2e-2, atol=2e-2)
    for s, p in zip(scaled, plain, strict=True):
        torch.testing.assert_close(s, p, rtol=0.1, atol=0.02)


@pytest.mark.parametrize("fused", [False, True])
def test_overflow_is_skipped(fused: bool) -> None:
    p = torch.nn.Parameter(torch.ones(5).to("mpsx"))
    optim = torch.optim.SGD([p], lr=1.0, fused=fused)
    scaler = torch.amp.GradScaler("mpsx", init_scale=8.0)
    with mpsx.fallback.using_mode("silent"):
        scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(optim)
    scaler.update()
    assert torch.equal(p.detach().cpu(), torch.ones(5))
    assert scaler.get_scale() == 4.0


def test_errors() -> None:
    grads, one = [torch.ones(3).to("mpsx")], torch.ones(1).to("mpsx")
    with pytest.raises(RuntimeError, match="expected inv_scale to be one float on mpsx, got 2"):
        torch._amp_foreach_non_finite_check_and_unscale_(grads, one, torch.ones(2).to("mpsx"))
    with pytest.raises(RuntimeError, match="expected growth_tracker to be one int, got 1 of type Float"):
        torch._amp_update_scale_(one, torch.ones(1).to("mpsx"), one, 2.0, 0.5, 5)
    with pytest.raises(RuntimeError, match="floating-point gradients on mpsx:0, got Long"):
        torch._amp_foreach_non_finite_check_and_unscale_([torch.ones(3).long().to("mpsx")], one, one)
