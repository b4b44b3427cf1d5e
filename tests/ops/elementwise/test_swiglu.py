"""torch.ops.mpsx.swiglu: values, layouts, packed inputs, gradients and errors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from layouts import LAYOUTS, make, on_device
from tables import FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


def reference(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Compute the result in float64, and round once."""
    return (x.double() * F.silu(gate.double())).to(x.dtype)


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(layout: str, dtype: torch.dtype) -> None:
    x, gate = make(layout, dtype, low=-8, high=8), make(layout, dtype, seed=1, low=-8, high=8)
    result = mpsx.ops.swiglu(on_device(x), on_device(gate))
    assert result.device.type == "mpsx"
    assert result.dtype == dtype
    torch.testing.assert_close(result.cpu(), reference(x, gate))
    torch.testing.assert_close(mpsx.ops.swiglu(x, gate), reference(x, gate))


def test_mixed_layouts() -> None:
    x, gate = make("contiguous", torch.float32), make("transposed", torch.float32, seed=1)
    torch.testing.assert_close(mpsx.ops.swiglu(on_device(x), on_device(gate)).cpu(), reference(x, gate))


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("shape", [(6, 10), (2, 3, 14), (4,), (2, 0, 6), (2, 3, 2, 3, 2, 6)])
def test_packed(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    packed = torch.randn(shape).to(dtype)
    x, gate = packed.chunk(2, dim=-1)
    device = packed.to("mpsx").requires_grad_()
    result = mpsx.ops.swiglu(device)
    torch.testing.assert_close(result.detach().cpu(), reference(x, gate))
    weight = torch.randn(x.shape).to(dtype)
    result.backward(weight.to("mpsx"))
    wide = packed.double().requires_grad_()
    a, b = wide.chunk(2, dim=-1)
    (a * F.silu(b)).backward(weight.double())
    torch.testing.assert_close(device.grad.cpu(), wide.grad.to(dtype))


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "slice", "step", "expanded", "channels_last", "scalar"])
@pytest.mark.parametrize("device", ["mpsx", "cpu"])
def test_gradient(device: str, layout: str, dtype: torch.dtype) -> None:
    x, gate = make(layout, dtype), make(layout, dtype, seed=1)
    weight = torch.randn(x.shape).to(dtype)
    a, b = (on_device(t, device).detach().requires_grad_() for t in (x, gate))
    mpsx.ops.swiglu(a, b).backward(weight.to(device))
    wide = [t.double().requires_grad_() for t in (x, gate)]
    (wide[0] * F.silu(wide[1])).backward(weight.double())
    torch.testing.assert_close(a.grad.cpu(), wide[0].grad.to(dtype))
    torch.testing.assert_close(b.grad.cpu(), wide[1].grad.to(dtype))


def test_six_dimensions() -> None:
    x = torch.randn(2, 3, 2, 3, 2, 4).permute(5, 3, 1, 0, 4, 2)
    gate = torch.randn(4, 3, 3, 2, 2, 2)
    a, b = on_device(x).requires_grad_(), on_device(gate).requires_grad_()
    out = mpsx.ops.swiglu(a, b)
    torch.testing.assert_close(out.detach().cpu(), reference(x, gate))
    out.backward(torch.ones(out.shape, device="mpsx"))
    torch.testing.assert_close(a.grad.cpu(), F.silu(gate))


@pytest.mark.parametrize("dtype", FLOAT)
def test_kernels_ran(dtype: torch.dtype) -> None:
    x, gate = (torch.randn(64).to(dtype).requires_grad_() for _ in range(2))
    with mpsx.profiler.launch_log() as log:
        out = mpsx.ops.swiglu(x, gate)
    assert list(log) == [f"kernel:swiglu_dense_{TAGS[dtype]}"]
    with mpsx.profiler.launch_log() as log:
        out.backward(torch.ones(64, dtype=dtype))
    assert f"kernel:swiglu_backward_dense_{TAGS[dtype]}" in log


def test_extremes() -> None:
    gate = torch.tensor([100.0, -100.0, float("inf"), float("nan"), 0.0, -0.0, 1e-30])
    x = torch.full((7,), 2.0)
    torch.testing.assert_close(mpsx.ops.swiglu(x, gate), x * F.silu(gate), equal_nan=True)


def test_errors() -> None:
    x = torch.randn(4, 6, device="mpsx")
    with pytest.raises(RuntimeError, match=r"expected input and gate of the same shape, got \[4, 6\] and \[4, 3\]"):
        mpsx.ops.swiglu(x, x[:, :3])
    with pytest.raises(RuntimeError, match="swiglu: expected input and gate of the same type, got Float and Half"):
        mpsx.ops.swiglu(x, x.half())
    with pytest.raises(RuntimeError, match=r"swiglu: expected a last dimension of even size.* \[4, 5\]"):
        mpsx.ops.swiglu(x[:, :5])
    with pytest.raises(RuntimeError, match="mpsx::swiglu: expected float32, float16 or bfloat16, got Long"):
        mpsx.ops.swiglu(x.long(), x.long())
