"""Operators on functions: control flow, and regions that are compiled once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._C import DispatchKey
from torch._higher_order_ops import while_loop
from torch._inductor.utils import fresh_inductor_cache, run_and_get_code
from torch._ops import HigherOrderOperator
from torch.utils.checkpoint import checkpoint

from mpsx.inductor.kernels import Kernels


def branches(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: 3 * layer(x), lambda x: 2 * layer(x), (x,))


def loop(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    start = torch.zeros((), dtype=torch.int64, device=x.device)
    return while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, layer(x).float()), (start, x))[1]


def recompute(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return checkpoint(layer, x, use_reentrant=False)


@pytest.mark.parametrize("function", [branches, loop, recompute])
@pytest.mark.parametrize("autocast", [False, True])
def test_control_flow(function: Callable[..., torch.Tensor], autocast: bool) -> None:
    """Autocast reaches the inner functions."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer, x = nn.Linear(16, 16).to("mpsx"), torch.randn(4, 16, device="mpsx")
    with torch.no_grad(), torch.autocast("mpsx", torch.bfloat16, enabled=autocast):
        found = torch.compile(lambda x: function(layer, x))(x)
        expected = x
        for _ in range(3 if function is loop else 1):
            expected = layer(expected)
        if function is branches:
            expected = (3 if x.sum() > 0 else 2) * expected
    assert function is loop or found.dtype == (torch.bfloat16 if autocast else torch.float32)
    torch.testing.assert_close(found, expected.to(found.dtype))


class Twice(HigherOrderOperator):
    def __init__(self) -> None:
        super().__init__("mpsx_test_twice")

    def __call__(self, function: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return super().__call__(function, x)


def test_operators_defined_later_ignore_autocast() -> None:
    twice = Twice()
    for key in (DispatchKey.Autograd, DispatchKey.CompositeExplicitAutograd):
        twice.py_impl(key)(lambda function, x: function(function(x)))
    x = torch.ones(3, 3, device="mpsx")
    with torch.no_grad(), torch.autocast("mpsx", torch.bfloat16):
        assert twice(lambda x: x @ x, x).dtype == torch.bfloat16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    @torch.compiler.nested_compile_region
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


@pytest.mark.parametrize("autocast", [False, True])
def test_regions_are_compiled_once(autocast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More layers need no more kernels. The results and gradients are those of eager mode."""
    added: list[str] = []
    real_add = Kernels.add
    monkeypatch.setattr(Kernels, "add", lambda self, name, *rest: (added.append(name), real_add(self, name, *rest))[1])
    counts = []
    for layers in (3, 5):
        torch._dynamo.reset()
        torch.manual_seed(0)
        added.clear()
        model, x = nn.Sequential(*(Block() for _ in range(layers))).to("mpsx"), torch.randn(8, 16, device="mpsx")
        results = []
        for call in (model, torch.compile(model, fullgraph=True)):
            model.zero_grad()
            with torch.autocast("mpsx", torch.bfloat16, enabled=autocast):
                y = call(x)
            y.square().sum().backward()
            results.append([y, *(p.grad for p in model.parameters())])
        tolerance = {"atol": 0.05, "rtol": 0.05} if autocast else {}  # Inductor fuses without rounding to bfloat16
        torch.testing.assert_close(*results, **tolerance)
        counts.append(len(added))
    assert counts[0] == counts[1] > 0


def test_regions_allocate_as_graphs_do() -> None:
    """The code of a region uses the functions that replace slower ones of PyTorch, and its kernels are in the same
    libraries as those of the graph."""
    torch._dynamo.reset()
    model, x = nn.Sequential(Block(), Block()).to("mpsx"), torch.randn(8, 16, device="mpsx")
    with torch.no_grad(), fresh_inductor_cache():
        _, (code,) = run_and_get_code(torch.compile(model), x)
    assert "empty_strided_mpsx(" in code
    assert "= empty_strided(" not in code
    assert code.count("Kernels(globals())") == 1


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_dropout_equals_eager(reentrant: bool) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 64), nn.Dropout(0.3)).to("mpsx")
    x = torch.randn(30, 4, device="mpsx", requires_grad=True)

    def run(function: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
        torch.manual_seed(1)
        y = function(x)
        return [y, *torch.autograd.grad(y.square().sum(), x), torch.rand(3, device="mpsx")]

    with torch._inductor.config.patch(fallback_random=True):
        found = run(torch.compile(lambda x: checkpoint(model, x, use_reentrant=reentrant)))
    for got, want in zip(found, run(model), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
