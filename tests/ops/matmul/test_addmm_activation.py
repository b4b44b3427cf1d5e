"""mpsx::addmm_activation, which compiled graphs call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from accuracy import assert_as_accurate
from layouts import on_device
from torch import Tensor
from torch.nn import functional as F

op = torch.ops.mpsx.addmm_activation
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}
FLOAT = (torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize("dtype", FLOAT, ids=str)
@pytest.mark.parametrize(("name", "function"), ACTIVATIONS.items(), ids=ACTIVATIONS)
def test_matches_the_cpu(name: str, function: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    for m, k, n in ((70, 50, 37), (1, 64, 300), (33, 17, 1), (130, 2, 130), (4, 0, 5), (0, 3, 5)):
        a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype).t()
        for c in (None, torch.randn(n).to(dtype), torch.randn(n, m).to(dtype).t(), torch.randn(m, 1).to(dtype)):
            got = op(*(None if x is None else on_device(x) for x in (c, a, b)), name)
            exact, cpu = (function(z + x @ y) for x, y, z in
                          ([torch.zeros(1, dtype=t) if x is None else x.to(t) for x in (a, b, c)]
                           for t in (torch.float64, dtype)))  # fmt: skip
            assert got.is_contiguous()
            assert_as_accurate(got, cpu, exact)


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh"])
def test_same_bits_as_the_activation(name: str) -> None:
    """In float32, a fused activation returns the same as a separate one."""
    a, b, c = torch.randn(70, 50), torch.randn(50, 40), 4 * torch.randn(70, 40)
    c[0, :4] = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0])
    c, a, b = (x.to("mpsx") for x in (c, a, b))
    layer = op(c, a, b, "relu"), op(-c, -a, b, "relu")  # not addmm, which may call a CPU library
    sums = torch.where(c.isnan(), c, layer[0] - layer[1])
    torch.testing.assert_close(op(c, a, b, name), ACTIVATIONS[name](sums), rtol=0, atol=0, equal_nan=True)


def test_cpu_tensors_and_meta() -> None:
    a, b, c = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)
    torch.testing.assert_close(op(c, a, b, "relu"), F.relu(torch.addmm(c, a, b)))
    got = op(*(x.to("meta") for x in (c, a, b)), "relu")
    assert got.shape == (3, 5) and got.stride() == (5, 1) and got.device.type == "meta"


@pytest.mark.parametrize("device", ["mpsx", "meta"])
def test_errors(device: str) -> None:
    a, b = torch.ones(3, 4, device=device), torch.ones(4, 5, device=device)
    with pytest.raises(ValueError, match="addmm_activation: expected relu, gelu, gelu_tanh or silu, got tanh"):
        op(None, a, b, "tanh")
    with pytest.raises(RuntimeError, match=r"expected matrices of sizes \[M, K\] and \[K, N\], got \[3, 4\]"):
        op(None, a, a, "relu")
    with pytest.raises(RuntimeError, match="addmm_activation: expected tensors of one dtype, got Float and BFloat16"):
        op(None, a, b.bfloat16(), "relu")
    with pytest.raises(RuntimeError, match="addmm_activation: expected tensors of one dtype, got Float and Half"):
        op(torch.ones(5, device=device).half(), a, b, "relu")
    with pytest.raises(RuntimeError, match="expand"):
        op(torch.ones(6, device=device), a, b, "relu")
    with pytest.raises(RuntimeError, match="addmm_activation is not implemented"):
        op(None, a.requires_grad_(), b, "relu").sum().backward()
