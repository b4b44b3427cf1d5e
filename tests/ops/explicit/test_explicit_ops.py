"""torch.ops.mpsx: values and gradients compared with PyTorch on both devices, torch.library.opcheck, and transforms."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from explicit_cases import (
    BINARY,
    COMPARE,
    DEVICES,
    IMAGE,
    LABELS,
    NN,
    UNARY,
    Case,
    X,
    each,
    leaves,
    overload,
    randn,
    tensors,
)
from layouts import on_device
from tables import FLOAT

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("device", DEVICES)
@each
def test_values_and_gradients(c: Case, device: str) -> None:
    expected_arguments, arguments = leaves(c, "cpu"), leaves(c, device)
    expected = c.reference(*expected_arguments, **c.keywords)
    result = getattr(mpsx.ops, c.name)(*arguments, **c.keywords)
    assert result.device.type == device
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-5)
    if not expected.requires_grad:
        return
    assert result.requires_grad
    weight = torch.randn(expected.shape)
    expected.backward(weight)
    result.backward(weight.to(device))
    for a, b in zip(tensors(expected_arguments), tensors(arguments), strict=True):
        if a.requires_grad:
            torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", FLOAT[1:])
@pytest.mark.parametrize("c", NN, ids=LABELS[: len(NN)])
def test_half_precision(c: Case, dtype: torch.dtype) -> None:
    """Compare with float64 results for the rounded arguments. Allow an error of a few epsilons."""
    exact_arguments = [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
                       for a in leaves(c, "cpu", dtype, grad=False)]  # fmt: skip
    keywords = {k: v for k, v in c.keywords.items() if k != "dtype"}
    exact = c.reference(*exact_arguments, **keywords)
    for device in DEVICES:
        result = getattr(mpsx.ops, c.name)(*leaves(c, device, dtype, grad=False), **keywords)
        assert result.dtype == dtype
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(result.cpu().double(), exact, rtol=4 * eps, atol=8 * eps)


@pytest.mark.parametrize("device", DEVICES)
@each
def test_opcheck(c: Case, device: str) -> None:
    expected = c.reference(*leaves(c, "cpu"), **c.keywords)
    arguments = leaves(c, device, grad=expected.requires_grad)
    op = overload(c)
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if device == "cpu" and any(t.requires_grad for t in tensors(arguments)):
        # opcheck's registration test does not support mpsx, so the lines below check the registration.
        checks.append("test_autograd_registration")
    keys = ("Autograd", "CompositeImplicitAutograd")
    assert not expected.requires_grad or any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), k) for k in keys)
    torch.library.opcheck(op, tuple(arguments), c.keywords, test_utils=checks)


def test_every_table_row_is_an_operator() -> None:
    names = set(dir(mpsx.ops))
    for c in UNARY + BINARY + COMPARE:
        assert c.name in names
    for name in mpsx.ops.__all__:
        assert callable(getattr(mpsx.ops, name)), name


@pytest.mark.parametrize("c", NN, ids=LABELS[: len(NN)])
def test_cpu_tensors_are_not_copied(c: Case) -> None:
    """CPU tensors and mpsx tensors use the same kernels, so the results are bitwise equal."""
    with mpsx.profiler.launch_log() as on_cpu:
        a = getattr(mpsx.ops, c.name)(*leaves(c, "cpu", grad=False), **c.keywords)
    with mpsx.profiler.launch_log() as on_mpsx:
        b = getattr(mpsx.ops, c.name)(*leaves(c, "mpsx", grad=False), **c.keywords)
    assert len(list(on_cpu)) > 0
    copies = ("kernel:copy", "kernel:fill")  # for CPU tensors, the CPU creates the temporaries of composite operators
    assert [r for r in on_cpu if not r.startswith(copies)] == [r for r in on_mpsx if not r.startswith(copies)]
    assert torch.equal(a, b.cpu())


def test_results_own_their_memory() -> None:
    x = torch.randn(1000)
    before = x.data_ptr()
    y = torch.ops.mpsx.exp(x)
    del x
    assert y.data_ptr() != before
    assert y.is_cpu
    y.resize_(2000)[:] = 1
    assert y.sum().item() == 2000
    assert y.numpy().shape == (2000,)


@pytest.mark.parametrize("device", DEVICES)
def test_fused_adamw(device: str) -> None:
    values = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.01, "eps": 1e-8}
    for amsgrad in (False, True):
        model = [randn(5, 3), randn(7, seed=1)]
        exact = [p.clone().requires_grad_() for p in model]
        optimizer = torch.optim.AdamW(exact, lr=0.1, betas=(0.9, 0.99), weight_decay=0.01, amsgrad=amsgrad)
        params = [p.to(device).clone() for p in model]
        state = [[torch.zeros_like(p) for p in params] for _ in range(3)]
        for step in range(1, 4):
            grads = [randn(*p.shape, seed=step) for p in model]
            for p, g in zip(exact, grads, strict=True):
                p.grad = g
            optimizer.step()
            steps = [torch.tensor(float(step), device=device) for _ in params]
            mpsx.ops.fused_adamw_(params, [g.to(device) for g in grads], state[0], state[1],
                                  state[2] if amsgrad else [], steps, amsgrad=amsgrad, **values)  # fmt: skip
        for p, e in zip(params, exact, strict=True):
            torch.testing.assert_close(p.cpu(), e.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck_fused_adamw(device: str) -> None:
    lists = [[randn(4, 3, seed=k).abs().to(device), randn(5, seed=k).abs().to(device)] for k in range(4)]
    steps = [torch.ones((), device=device) for _ in range(2)]
    values = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.01, "eps": 1e-8, "amsgrad": False,
              "maximize": False}  # fmt: skip
    torch.library.opcheck(torch.ops.mpsx.fused_adamw_.default, (*lists, [], steps), values)


@pytest.mark.parametrize("device", DEVICES)
def test_attention_dropout(device: str) -> None:
    """With a single key, dropout either drops the value or scales it."""
    query, value = torch.zeros(64, 4, 1, 8, device=device), torch.ones(64, 4, 1, 8, device=device, requires_grad=True)
    out = mpsx.ops.scaled_dot_product_attention(query, query, value, dropout_p=0.75)
    assert set(out.detach().flatten().tolist()) == {0.0, 4.0}
    assert 0.15 < (out[..., 0] > 0).float().mean().item() < 0.35
    out.backward(torch.ones_like(out))
    assert torch.equal(value.grad.cpu(), out.detach().cpu())


@pytest.mark.parametrize("layout", ["BTHE", "qkv", "expanded", "step"])
def test_attention_layouts(layout: str) -> None:
    shapes = {"BTHE": (2, 5, 4, 8), "qkv": (2, 5, 3, 4, 8), "expanded": (1, 4, 5, 8), "step": (2, 4, 5, 16)}
    views = {"BTHE": lambda t, _: t.transpose(1, 2), "qkv": lambda t, k: t[:, :, k].transpose(1, 2),
             "expanded": lambda t, _: t.expand(2, 4, 5, 8), "step": lambda t, _: t[..., ::2]}  # fmt: skip
    inputs = [views[layout](randn(*shapes[layout], seed=k), k) for k in range(3)]
    expected = F.scaled_dot_product_attention(*inputs)
    for device in DEVICES:
        result = mpsx.ops.scaled_dot_product_attention(*[on_device(t, device) for t in inputs])
        torch.testing.assert_close(result.cpu(), expected)
    meta = mpsx.ops.scaled_dot_product_attention(*[on_meta(t) for t in inputs])
    assert meta.stride() == result.stride()


def test_in_place_bumps_versions() -> None:
    params = [torch.zeros(3, device="mpsx")]
    other = [[torch.ones(3, device="mpsx")] for _ in range(3)]
    before = params[0]._version
    mpsx.ops.fused_adamw_(params, *other, [], [torch.ones((), device="mpsx")], lr=0.1, beta1=0.9, beta2=0.9,
                          weight_decay=0.0, eps=1e-8)  # fmt: skip
    assert params[0]._version > before


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("padding", ["same", "valid", 1, (2, 0)])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 4)])
@pytest.mark.filterwarnings("ignore:Using padding:UserWarning")
def test_conv2d_padding(kernel: tuple[int, int], padding: object, device: str) -> None:
    weight = randn(3, 4, *kernel)
    with mpsx.fallback.using_mode("silent"):  # asymmetric padding calls F.pad, which may fall back
        result = mpsx.ops.conv2d(IMAGE.to(device), weight.to(device), padding=padding)
    torch.testing.assert_close(result.cpu(), F.conv2d(IMAGE, weight, padding=padding))


# Transforms


@pytest.mark.parametrize("device", DEVICES)
def test_compile(device: str) -> None:
    def block(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        y = mpsx.ops.rms_norm(x, [6], scale)
        y = mpsx.ops.swiglu(mpsx.ops.linear(y, w))
        y = mpsx.ops.softmax(torch.ops.mpsx.exp(y), -1)
        return torch.ops.mpsx.mul(y, y)

    inputs = [X, randn(8, 6, seed=1), randn(6, seed=2)]
    eager, compiled = ([t.to(device).clone().requires_grad_() for t in inputs] for _ in range(2))
    expected = block(*eager)
    result = torch.compile(block, backend="aot_eager", fullgraph=True)(*compiled)
    assert torch.equal(result.cpu(), expected.cpu())
    expected.sum().backward()
    result.sum().backward()
    for a, b in zip(compiled, eager, strict=True):
        assert torch.equal(a.grad.cpu(), b.grad.cpu())


@pytest.mark.parametrize("device", DEVICES)
def test_compile_keeps_the_operators(device: str) -> None:
    """The graph contains the explicit operators, not decompositions of them."""
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    from torch._dynamo.backends.common import aot_autograd

    x = X.to(device)
    torch.compile(lambda x: mpsx.ops.softmax(mpsx.ops.swiglu(x, x), -1), backend=aot_autograd(fw_compiler=backend))(x)
    assert seen == ["mpsx.swiglu.default", "mpsx.softmax.default"]


@each
def test_meta(c: Case) -> None:
    """Results for meta tensors have the same shape, dtype and strides as real results."""
    real = getattr(mpsx.ops, c.name)(*leaves(c, "mpsx", grad=False), **c.keywords)
    meta = getattr(mpsx.ops, c.name)(*[on_meta(a) for a in leaves(c, "cpu", grad=False)], **c.keywords)
    assert meta.device.type == "meta"
    assert (meta.shape, meta.dtype, meta.stride()) == (real.shape, real.dtype, real.stride())


def on_meta(a: object) -> object:
    if not isinstance(a, torch.Tensor):
        return a
    return torch.empty_strided(a.shape, a.stride(), dtype=a.dtype, device="meta")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_vmap(device: str) -> None:
    x, gate = randn(3, 4, 6).to(device), randn(3, 4, 6, seed=1).to(device)
    for f in (mpsx.ops.swiglu, lambda a, b: torch.ops.mpsx.mul(torch.ops.mpsx.exp(a), b),
              lambda a, b: mpsx.ops.softmax(a, -1) - b):  # fmt: skip
        torch.testing.assert_close(torch.vmap(f)(x, gate), f(x, gate))


@pytest.mark.parametrize("device", DEVICES)
def test_second_derivatives(device: str) -> None:
    """Gradients of elementwise operators are differentiable. Second derivatives of all other operators raise an
    error."""
    x = X.to(device, copy=True).requires_grad_()
    (first,) = torch.autograd.grad(torch.ops.mpsx.exp(x * 2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second.cpu(), 4 * torch.exp(2 * X))
    (first,) = torch.autograd.grad(mpsx.ops.swiglu(x, x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="mpsx::swiglu_backward is not implemented"):
        first.sum().backward()


def test_modified_saved_tensors_raise() -> None:
    x = torch.randn(5, device="mpsx", requires_grad=True)
    y = torch.ops.mpsx.exp(x)
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = torch.ops.mpsx.exp(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


def test_forward_mode_raises() -> None:
    import torch.autograd.forward_ad as fwad

    with fwad.dual_level(), pytest.raises(NotImplementedError, match="mpsx::exp: forward-mode"):
        torch.ops.mpsx.exp(fwad.make_dual(torch.randn(3), torch.randn(3)))


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_lerp_mm_and_cat(device: str) -> None:
    """Call these operators directly, because mpsx.ops does not export them."""
    calls = {
        "lerp": lambda op, x, y: op(x, y, 0.3),
        "mm": lambda op, x, y: op(x, y.t()),
        "cat": lambda op, x, y: op([x, y[:, 1:]], -1),
    }
    for name, call in calls.items():
        x, y = (torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)).requires_grad_() for seed in (0, 1))
        dx, dy = (t.detach().to(device).requires_grad_() for t in (x, y))
        expected, got = call(getattr(torch, name), x, y), call(getattr(torch.ops.mpsx, name), dx, dy)
        weight = torch.randn(expected.shape)
        expected.backward(weight)
        got.backward(weight.to(device))
        for ours, theirs in ((got, expected), (dx.grad, x.grad), (dy.grad, y.grad)):
            torch.testing.assert_close(ours.detach().cpu(), theirs.detach())
