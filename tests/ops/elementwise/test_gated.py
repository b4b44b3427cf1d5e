"""glu, prelu and rrelu: gradients and random slopes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tables import FLOAT

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("dim", [0, -1])
def test_glu_backward(dtype: torch.dtype, dim: int) -> None:
    x = torch.randn(4, 6, 8).to(dtype)
    leaf, wide = x.to("mpsx").requires_grad_(), x.double().requires_grad_()
    F.glu(leaf, dim).sum().backward()
    F.glu(wide, dim).sum().backward()
    torch.testing.assert_close(leaf.grad.cpu(), wide.grad.to(dtype))


@pytest.mark.parametrize("dtype", FLOAT)
def test_prelu_backward(dtype: torch.dtype) -> None:
    x, w = torch.randn(4, 6, 8).to(dtype), torch.rand(6).to(dtype)
    leaves = [t.to("mpsx").requires_grad_() for t in (x, w)]
    wide = [t.double().requires_grad_() for t in (x, w)]
    F.prelu(*leaves).sum().backward()
    F.prelu(*wide).sum().backward()
    torch.testing.assert_close(leaves[0].grad.cpu(), wide[0].grad.to(dtype))
    bounds = {} if dtype == torch.float32 else {"rtol": 3e-2, "atol": 3e-2}  # allow for the sum of 32 rounded products
    torch.testing.assert_close(leaves[1].grad.cpu(), wide[1].grad.to(dtype), **bounds)


def test_rrelu() -> None:
    x = torch.randn(10_000, device="mpsx", requires_grad=True)
    y = F.rrelu(x, 0.1, 0.3, training=True)
    slope = (y / x).detach().cpu()[x.detach().cpu() < 0]
    assert 0.0999 <= slope.min() < 0.11
    assert 0.29 < slope.max() <= 0.3001
    assert torch.equal(y.detach()[x > 0], x.detach()[x > 0])
    y.sum().backward()
    torch.testing.assert_close(x.grad[x < 0], (y / x).detach()[x < 0])
    torch.testing.assert_close(F.rrelu(x, 0.1, 0.3).cpu(), F.rrelu(x.cpu(), 0.1, 0.3))
    torch.manual_seed(3)
    first = F.rrelu(x, training=True)
    torch.manual_seed(3)
    assert torch.equal(first, F.rrelu(x, training=True))
