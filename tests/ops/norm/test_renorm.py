"""weight_norm, and embedding with max_norm."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_as_accurate
from layouts import on_device

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 2])
def test_weight_norm(dim: int, dtype: torch.dtype) -> None:
    v = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(1)).to(dtype)
    g = (v.float().norm(dim=[d for d in range(3) if d != dim], keepdim=True) + 1).to(dtype)

    def results(v: torch.Tensor, g: torch.Tensor) -> list[torch.Tensor]:
        leaves = [t.detach().requires_grad_() for t in (v, g)]
        weight = torch._weight_norm(*leaves, dim)
        return [weight, *torch.autograd.grad(weight.square().sum() + weight.sum(), leaves)]

    exact = results(v.double(), g.double())
    for ours, cpu, wide in zip(results(on_device(v), on_device(g)), results(v, g), exact, strict=True):
        assert_as_accurate(ours.detach(), cpu.detach(), wide.detach())


def test_embedding_max_norm() -> None:
    weight, index = torch.randn(10, 4) * 3, torch.tensor([1, 3, 3, 7])
    device = weight.to("mpsx")
    result = F.embedding(index.to("mpsx"), device, max_norm=1.0)
    expected = F.embedding(index, weight, max_norm=1.0)
    torch.testing.assert_close(result.cpu(), expected)
    torch.testing.assert_close(device.cpu(), weight)
