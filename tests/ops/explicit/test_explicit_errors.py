"""Errors and error messages of torch.ops.mpsx."""

from __future__ import annotations

import itertools

import pytest
import torch
from explicit_cases import ALL, DEVICES, Case, each, leaves, overload, tensors

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

MIXED = [c for c in ALL if len([a for a in c.arguments if isinstance(a, torch.Tensor)]) > 1]


@pytest.mark.parametrize("c", MIXED, ids=[f"{c}-{k}" for k, c in enumerate(MIXED)])
def test_mixed_devices(c: Case) -> None:
    on_mpsx, on_cpu = leaves(c, "mpsx", grad=False), leaves(c, "cpu", grad=False)
    first, second = itertools.islice((k for k, a in enumerate(on_cpu) if isinstance(a, torch.Tensor)), 2)
    on_mpsx[second] = on_cpu[second]
    expected = f"mpsx::{c.name}: expected all tensors on mpsx or all on cpu, got"
    with pytest.raises(RuntimeError, match=f"{expected} mpsx and cpu"):
        overload(c)(*on_mpsx, **c.keywords)
    on_mpsx = leaves(c, "mpsx", grad=False)
    on_mpsx[first] = on_cpu[first]
    with pytest.raises(RuntimeError, match=f"{expected} cpu and mpsx"):
        overload(c)(*on_mpsx, **c.keywords)


@pytest.mark.parametrize("device", DEVICES)
@each
def test_float64_raises(c: Case, device: str) -> None:
    arguments = leaves(c, device, torch.float64, grad=False)
    if all(a.dtype != torch.float64 for a in tensors(arguments)):
        arguments = [a.double() if isinstance(a, torch.Tensor) else a for a in leaves(c, "cpu", grad=False)]
        arguments = [a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments]
    if c.name in ("embedding", "cross_entropy", "scaled_dot_product_attention", *NORMS):
        name = "mpsx::"  # composite operators raise the errors of the operators that they call
    else:
        name = f"mpsx::{c.name}"
    with pytest.raises(RuntimeError, match=rf"{name}\w*: expected float32, float16(,| or) bfloat16.*, got Double"):
        overload(c)(*arguments, **c.keywords)


NORMS = ("layer_norm", "rms_norm", "group_norm")


def test_other_errors() -> None:
    x = torch.randn(2, 6, device="mpsx")
    with pytest.raises(RuntimeError, match="mpsx::softmax: expected float32, float16 or bfloat16, got Long"):
        mpsx.ops.softmax(x.long(), -1)
    with pytest.raises(RuntimeError, match="mpsx::softmax: expected a dtype for dtype, got 200"):
        torch.ops.mpsx.softmax(x, 0, 200)
    with pytest.raises(RuntimeError, match="mpsx::exp: expected all tensors on mpsx or all on cpu, got Sparse on cpu"):
        torch.ops.mpsx.exp(torch.eye(3).to_sparse())
    with pytest.raises(RuntimeError, match=r"mpsx::layer_norm: expected an input whose last dimensions are \[5\]"):
        mpsx.ops.layer_norm(x, [5])
    with pytest.raises(RuntimeError, match=r"mpsx::group_norm: .* channels divisible by 4 groups, got 6"):
        mpsx.ops.group_norm(x, 4)
    with pytest.raises(RuntimeError, match="mpsx::embedding: expected int64 or int32 indices as input, got Float"):
        mpsx.ops.embedding(x, torch.zeros(2, dtype=torch.long, device="mpsx"))
    with pytest.raises(RuntimeError, match="mpsx::cross_entropy: expected reduction"):
        mpsx.ops.cross_entropy(x, torch.zeros(2, dtype=torch.long, device="mpsx"), reduction="median")
    with pytest.raises(RuntimeError, match="mpsx::scaled_dot_product_attention: expected attn_mask or is_causal"):
        mpsx.ops.scaled_dot_product_attention(x, x, x, torch.ones(2, 2, device="mpsx"), is_causal=True)


@pytest.mark.parametrize("device", DEVICES)
def test_indices_out_of_range(device: str) -> None:
    weight, bad = torch.randn(4, 3, device=device), torch.tensor([0, 4], device=device)
    with pytest.raises(IndexError):
        mpsx.ops.embedding(bad, weight).cpu()  # GPUs raise the error at the next synchronization
    with pytest.raises(IndexError):
        mpsx.ops.cross_entropy(weight[:2], bad).cpu()
