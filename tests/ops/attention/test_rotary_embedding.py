"""torch.ops.mpsx.rotary_embedding: pairings, angle and head layouts, gradients and errors."""

from __future__ import annotations

import pytest
import torch
from layouts import on_device
from tables import FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

LAYOUTS = ("BHTD", "BTHD", "BTHD as BHTD", "qkv", "step")


def angles(time: int, features: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    frequency = 10000.0 ** (-torch.arange(0, features, 2) / features)
    angle = torch.arange(time)[:, None] * frequency
    return angle.cos().to(dtype), angle.sin().to(dtype)


def reference(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """Multiply each pair, taken as the complex number a + ib, by exp(i angle) in float64."""
    wide = x.double()
    if interleaved:
        a, b = wide[..., 0::2], wide[..., 1::2]
    else:
        a, b = wide.chunk(2, dim=-1)
    rotated = torch.complex(a, b) * torch.complex(cos.double(), sin.double())
    joined = torch.stack([rotated.real, rotated.imag], dim=-1 if interleaved else -2)
    return joined.flatten(-2)


def sample(layout: str, dtype: torch.dtype, time: int = 5) -> tuple[torch.Tensor, bool]:
    """Return an input, and whether its heads dimension comes after the time dimension."""
    batch, heads, features = 2, 3, 16
    if layout == "BHTD":
        return torch.randn(batch, heads, time, features).to(dtype), False
    if layout == "BTHD":
        return torch.randn(batch, time, heads, features).to(dtype), True
    if layout == "BTHD as BHTD":
        return torch.randn(batch, time, heads, features).to(dtype).transpose(1, 2), False
    if layout == "qkv":  # the K part of a packed QKV projection
        return torch.randn(batch, time, 3, heads, features).to(dtype)[:, :, 1].transpose(1, 2), False
    return torch.randn(batch, heads, time, 2 * features).to(dtype)[..., ::2], False


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("device", ["mpsx", "cpu"])
def test_values(device: str, layout: str, interleaved: bool, dtype: torch.dtype) -> None:
    x, heads_last = sample(layout, dtype)
    for angle_dtype in {torch.float32, dtype}:
        cos, sin = angles(5, 16, angle_dtype)
        if heads_last:
            cos, sin = cos[:, None], sin[:, None]
        expected = reference(x, cos, sin, interleaved).to(dtype)
        result = mpsx.ops.rotary_embedding(*(on_device(t, device) for t in (x, cos, sin)), interleaved)
        assert result.device.type == device
        assert result.dtype == dtype
        torch.testing.assert_close(result.cpu(), expected)
        # As in transformers, pass one angle per element.
        if interleaved:
            cos, sin = cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)
        else:
            cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
        result = mpsx.ops.rotary_embedding(*(on_device(t, device) for t in (x, cos, sin)), interleaved)
        torch.testing.assert_close(result.cpu(), expected)


def test_result_keeps_the_layout() -> None:
    x = torch.randn(2, 5, 3, 16, device="mpsx").transpose(1, 2)
    cos, sin = (t.to("mpsx") for t in angles(5, 16))
    assert mpsx.ops.rotary_embedding(x, cos, sin).stride() == x.stride()


def test_batched_positions() -> None:
    """Use different angles for each sequence, as with left padding. Their shape is [B, 1, T, D/2]."""
    x = torch.randn(2, 3, 5, 16)
    cos, sin = (torch.stack([t[:5], t[3:8]])[:, None] for t in angles(8, 16))
    result = mpsx.ops.rotary_embedding(x, cos, sin)
    torch.testing.assert_close(result, reference(x, cos, sin, False).float())


@pytest.mark.parametrize("shape", [(16,), (5, 16), (2, 2, 2, 3, 2, 5, 16), (2, 0, 5, 16)])
def test_any_number_of_dimensions(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    if x.dim() == 7:
        x = x.transpose(0, 3).transpose(1, 4)
    cos, sin = angles(5, 16)
    if x.dim() == 1:
        cos, sin = cos[3], sin[3]
    torch.testing.assert_close(mpsx.ops.rotary_embedding(x, cos, sin), reference(x, cos, sin, False).float())


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("per_element", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("device", ["mpsx", "cpu"])
def test_gradient(device: str, interleaved: bool, per_element: bool, dtype: torch.dtype) -> None:
    x, _ = sample("BTHD as BHTD", dtype)
    cos, sin = angles(5, 16)
    weight = torch.randn(x.shape).to(dtype)
    wide = [t.double().requires_grad_() for t in (x, cos, sin)]
    reference(*wide, interleaved).backward(weight.double())
    if per_element:
        repeat = (lambda t: t.repeat_interleave(2, -1)) if interleaved else (lambda t: torch.cat([t, t], -1))
        cos, sin = repeat(cos), repeat(sin)
    device_x = on_device(x, device).detach().requires_grad_()
    out = mpsx.ops.rotary_embedding(device_x, on_device(cos, device), on_device(sin, device), interleaved)
    out.backward(weight.to(device))
    torch.testing.assert_close(device_x.grad.cpu(), wide[0].grad.to(dtype))


@pytest.mark.parametrize("per_element", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
def test_gradient_of_angles(interleaved: bool, per_element: bool) -> None:
    x = torch.randn(2, 3, 5, 16)
    cos, sin = angles(5, 16)
    wide = [t.double().requires_grad_() for t in (x, cos, sin)]
    reference(*wide, interleaved).sum().backward()
    leaves = [t.to("mpsx").requires_grad_() for t in (x, cos, sin)]
    cos_sin = leaves[1:]
    if per_element:
        cos_sin = [t.repeat_interleave(2, -1) if interleaved else torch.cat([t, t], -1) for t in cos_sin]
    with mpsx.fallback.using_mode("silent"):  # the reference calls repeat_interleave
        out = mpsx.ops.rotary_embedding(leaves[0], *cos_sin, interleaved)
        out.backward(torch.ones(out.shape, device="mpsx"))
    for leaf, exact in zip(leaves, wide, strict=True):
        torch.testing.assert_close(leaf.grad.cpu(), exact.grad.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOAT)
def test_kernel_ran(dtype: torch.dtype) -> None:
    x, _ = sample("BHTD", dtype)
    cos, sin = angles(5, 16)
    for interleaved, stem in ((False, "halves"), (True, "interleaved")):
        with mpsx.profiler.launch_log() as log:
            mpsx.ops.rotary_embedding(x, cos, sin, interleaved)
        assert list(log) == [f"kernel:rotary_embedding_{stem}_{TAGS[dtype]}_f32"]


def test_errors() -> None:
    x = torch.randn(2, 3, 5, 16, device="mpsx")
    cos, sin = (t.to("mpsx") for t in angles(5, 16))
    with pytest.raises(RuntimeError, match=r"rotary_embedding: expected an input whose last dimension is even"):
        mpsx.ops.rotary_embedding(x[..., :15], cos, sin)
    with pytest.raises(RuntimeError, match=r"rotary_embedding: expected cos and sin with a last dimension of 8 or 16"):
        mpsx.ops.rotary_embedding(x, cos[:, :6], sin[:, :6])
    with pytest.raises(RuntimeError, match=r"rotary_embedding: expected cos and sin of the same shape and type"):
        mpsx.ops.rotary_embedding(x, cos, sin[:4])
    with pytest.raises(RuntimeError, match=r"rotary_embedding: expected cos and sin that broadcast"):
        mpsx.ops.rotary_embedding(x, cos[:4], sin[:4])
    with pytest.raises(RuntimeError, match=r"float32 or the input's type Half, got BFloat16"):
        mpsx.ops.rotary_embedding(x.half(), cos.bfloat16(), sin.bfloat16())
