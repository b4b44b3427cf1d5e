"""Dropout, forward and backward."""

from __future__ import annotations

import pytest
import torch
from layouts import LAYOUTS, make, on_device
from scipy import stats
from tables import FLOAT

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_forward_and_backward(layout: str, dtype: torch.dtype) -> None:
    x = make(layout, dtype)
    device = on_device(x)
    out, mask = torch.native_dropout(device, 0.3, True)
    assert mask.dtype == torch.bool
    assert out.shape == mask.shape == x.shape
    expected = x.float() * mask.cpu() * (1 / 0.7)
    torch.testing.assert_close(out.cpu(), expected.to(dtype))
    grad = torch.randn(x.shape).to(dtype)
    backward = torch.ops.aten.native_dropout_backward(grad.to("mpsx"), mask, 1 / 0.7)
    torch.testing.assert_close(backward.cpu(), (grad.float() * mask.cpu() * (1 / 0.7)).to(dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_keeps_the_strides_of_the_incoming_gradient(layout: str) -> None:
    grad = make(layout, torch.float32)
    mask = torch.rand(grad.shape) < 0.5
    backward = torch.ops.aten.native_dropout_backward
    want, got = backward(grad, mask, 2.0), backward(on_device(grad), mask.to("mpsx"), 2.0)
    assert got.stride() == want.stride()
    assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 1023, 1025, 3000])
def test_every_length(n: int) -> None:
    x = torch.arange(1.0, n + 1)
    out, mask = torch.native_dropout(x.to("mpsx"), 0.5, True)
    torch.testing.assert_close(out.cpu(), x * mask.cpu() * 2)


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
def test_rate(p: float) -> None:
    n = 200_000
    kept = torch.nn.functional.dropout(torch.full((n,), 1.0, device="mpsx"), p).cpu()
    assert stats.binomtest(int((kept != 0).sum()), n, 1 - p).pvalue > 1e-4
    torch.testing.assert_close(kept[kept != 0], torch.full((int((kept != 0).sum()),), 1 / (1 - p)))


def test_probabilities_0_and_1_and_nan() -> None:
    x = torch.randn(50).to("mpsx")
    out, mask = torch.native_dropout(x, 0.0, True)
    assert torch.equal(out.cpu(), x.cpu())
    assert mask.cpu().all()
    out, mask = torch.native_dropout(x, 0.5, False)
    assert torch.equal(out.cpu(), x.cpu())
    assert mask.cpu().all()
    out, mask = torch.native_dropout(x, 1.0, True)
    assert not out.cpu().any()
    assert not mask.cpu().any()
    layer = torch.nn.Dropout(1.0)
    assert not layer(x).cpu().any()
    assert torch.equal(layer.eval()(x).cpu(), x.cpu())
    bad = torch.tensor([float("nan"), float("inf")]).repeat(500).to("mpsx")
    assert torch.native_dropout(bad, 0.5, True)[0].cpu().isnan()[::2].all()  # a dropped NaN is still NaN
    with pytest.raises(RuntimeError, match=r"native_dropout: expected a probability in \[0, 1\], got 1.5"):
        torch.native_dropout(x, 1.5, True)


def test_layer() -> None:
    x = torch.randn(300, 70).to("mpsx").requires_grad_()
    torch.manual_seed(4)
    with mpsx.profiler.launch_log() as log:
        y = torch.nn.Dropout(0.2)(x)
    assert list(log) == ["kernel:dropout_f32"]
    upstream = torch.randn(300, 70)
    y.backward(upstream.to("mpsx"))
    kept = (y != 0).cpu()
    torch.testing.assert_close(x.grad.cpu(), upstream * kept * 1.25)
    torch.manual_seed(4)
    assert torch.equal(torch.nn.Dropout(0.2)(x).cpu(), y.cpu())


@pytest.mark.parametrize("layer", [torch.nn.Dropout1d, torch.nn.AlphaDropout, torch.nn.FeatureAlphaDropout])
def test_other_dropout_layers(layer: type[torch.nn.Module]) -> None:
    x = torch.randn(40, 30, 5).to("mpsx")
    y = layer(0.4)(x)
    assert y.shape == x.shape
    assert not torch.equal(y.cpu(), x.cpu())
    assert torch.equal(layer(0.4).eval()(x).cpu(), x.cpu())
