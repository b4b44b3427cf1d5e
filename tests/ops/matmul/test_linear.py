"""Linear layers, which are one node of the autograd graph: forward, gradients, and what may intercept them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo import compiled_autograd
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("no_fallback")

SHAPES = [(5, 7), (2, 5, 7), (2, 3, 5, 7), (7,), (0, 7), (2, 0, 7)]
Tensors = list[torch.Tensor | None]


def operands(shape: tuple[int, ...], bias: bool = True, dtype: torch.dtype = torch.float32) -> Tensors:
    """Return the input, weight and bias of a layer with 7 inputs and 4 outputs. They are small integers, so that all
    results are exact."""
    torch.manual_seed(0)
    sizes = [shape, (4, 7), *([(4,)] if bias else [])]
    found: Tensors = [torch.randint(-1, 2, size).to(dtype) for size in sizes]
    return found if bias else [*found, None]


def copies(tensors: Tensors, device: str, wanted: tuple[bool, ...]) -> Tensors:
    """Copy the tensors to a device, and require the gradients of the wanted ones."""
    pairs = zip(tensors, wanted, strict=True)
    return [None if t is None else t.detach().to(device).requires_grad_(w) for t, w in pairs]


def check(run: Callable[..., torch.Tensor], tensors: Tensors, wanted: tuple[bool, ...] = (True, True, True)) -> None:
    """Compare the result, the gradients and the gradients of their squares with the CPU's."""
    found = []
    for device in ("cpu", "mpsx"):
        inputs = copies(tensors, device, wanted)
        leaves = [t for t in inputs if t is not None and t.requires_grad]
        out = run(*inputs)
        grads = torch.autograd.grad(out.square().sum(), leaves, create_graph=True) if leaves else ()
        squares = sum((g.square().sum() for g in grads), start=torch.zeros((), device=device))
        twice = torch.autograd.grad(squares, leaves) if leaves else ()
        found.append([x.detach().cpu() for x in (out, *grads, *twice)])
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)


@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(shape: tuple[int, ...], bias: bool, wanted: tuple[bool, ...]) -> None:
    check(F.linear, operands(shape, bias), wanted)


@pytest.mark.parametrize("dims", [(0, 1), (0, 2), (1, 2)], ids=str)
def test_strided_operands(dims: tuple[int, int]) -> None:
    def run(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        y = F.linear(x.transpose(*dims).contiguous().transpose(*dims), w, b)
        return y + F.linear(x[:, ::2], w.t().contiguous().t(), b[::1])[:, :1]

    check(run, operands((2, 5, 7)))


def test_is_one_node() -> None:
    x, w, b = copies(operands((2, 5, 7)), "mpsx", (True, True, True))
    node = F.linear(x, w, b).grad_fn
    assert node.name() == "LinearBackward"
    assert [edge[0].name() for edge in node.next_functions] == ["torch::autograd::AccumulateGrad"] * 3


def test_gradients_have_the_layout_of_their_weights() -> None:
    w = torch.randn(7, 4, device="mpsx").t().requires_grad_()
    x = torch.randn(5, 7, device="mpsx")
    F.linear(x, w).sum().backward()
    assert w.grad.stride() == w.stride()
    torch.testing.assert_close(w.grad, x.sum(0).expand(4, 7))


def test_second_backward_needs_the_graph() -> None:
    x, w, b = copies(operands((5, 7)), "mpsx", (True, True, True))
    y = F.linear(x, w, b).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(b.grad, torch.full_like(b, 10))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


@pytest.mark.parametrize("changed", [0, 1])
def test_changed_operands_are_detected(changed: int) -> None:
    inputs = copies(operands((5, 7)), "mpsx", (True, True, True))
    y = F.linear(*inputs)
    with torch.no_grad():
        inputs[changed].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_see_the_saved_tensors_and_gradients() -> None:
    packed: list[torch.Size] = []
    seen: list[torch.dtype] = []
    x, w, b = copies(operands((2, 5, 7)), "mpsx", (True, True, True))
    w.register_hook(lambda g: seen.append(g.dtype))

    def pack(t: torch.Tensor) -> torch.Tensor:
        packed.append(t.shape)
        return t.cpu()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t.to("mpsx")):
        y = F.linear(x, w, b)
    y.sum().backward()
    assert sorted(packed) == [(2, 5, 7), (4, 7)]
    assert seen == [torch.float32]


def test_checkpoints_compute_the_saved_tensors_again() -> None:
    first, second = (nn.Linear(7, 7, device="mpsx") for _ in range(2))
    x = torch.randn(5, 7, device="mpsx", requires_grad=True)
    parameters = [x, *first.parameters(), *second.parameters()]
    found = []
    for again in (False, True):
        y = checkpoint(lambda x: second(first(x).relu()), x, use_reentrant=False) if again else second(first(x).relu())
        found.append(torch.autograd.grad(y.square().sum(), parameters))
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got, expected)


def test_mismatched_operands() -> None:
    x, w, _ = operands((5, 7))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        F.linear(x.to("mpsx"), w[:, :3].to("mpsx"))
    with pytest.raises(RuntimeError, match="dtype"):
        F.linear(x.to("mpsx"), w.bfloat16().to("mpsx"))


def test_transforms_and_modes_see_the_composition() -> None:
    x, w, b = copies(operands((2, 5, 7)), "mpsx", (False, False, False))
    tangent = torch.randn_like(w)
    _, got = torch.func.jvp(lambda w: F.linear(x, w, b), (w,), (tangent,))
    torch.testing.assert_close(got, F.linear(x, tangent))
    rows = torch.func.vmap(torch.func.grad(lambda w, x: F.linear(x, w, b).sum()), (None, 0))(w, x)
    torch.testing.assert_close(rows, x.sum(1)[:, None].expand(2, 4, 7))

    names: list[str] = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Names():
        F.linear(x, w.requires_grad_(), b)
    assert "addmm.default" in names


@pytest.mark.parametrize(("conv1d", "bias"), [(False, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_skips_the_casts_of_weights(dtype: torch.dtype, conv1d: bool, bias: bool) -> None:
    x, w, b = copies(operands((6, 7), bias), "mpsx", (True, True, True))
    narrow = [None if t is None else t.detach().to(dtype).requires_grad_() for t in (x, w, b)]
    with torch.autocast("mpsx", dtype):
        y = torch.addmm(b, x, w.t()) if conv1d else F.linear(x, w, b)
    assert y.dtype == dtype
    weight_node = y.grad_fn.next_functions[1][0].name()
    assert weight_node == ("TBackward0" if conv1d else "torch::autograd::AccumulateGrad")
    y.backward(torch.ones_like(y))
    F.linear(*narrow).backward(torch.ones_like(y))
    for wide, expected in zip((x, w, b), narrow, strict=True):
        if wide is not None:
            assert wide.grad.dtype == torch.float32
            torch.testing.assert_close(wide.grad, expected.grad.float())


def test_autocast_shares_the_cast_of_a_weight() -> None:
    layer = nn.Linear(7, 7, device="mpsx")
    x = torch.randn(5, 7, device="mpsx")
    with torch.autocast("mpsx", torch.bfloat16):
        (layer(layer(x)) + F.relu(x @ layer.weight)).sum().backward()
    got = layer.weight.grad
    layer.zero_grad()
    with torch.autocast("mpsx", torch.bfloat16, cache_enabled=False):
        (layer(layer(x)) + F.relu(x @ layer.weight)).sum().backward()
    torch.testing.assert_close(got, layer.weight.grad, rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
def test_compiled_autograd(bias: bool) -> None:
    leaves = [t for t in copies(operands((2, 5, 7), bias), "mpsx", (True, True, True)) if t is not None]
    found = []
    for compiler in (contextlib.nullcontext(), compiled_autograd._enable(torch.compile(backend="eager"))):
        y = F.linear(*leaves).square().sum()
        with compiler:
            y.backward()
        found.append([t.grad for t in leaves])
        for t in leaves:
            t.grad = None
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
