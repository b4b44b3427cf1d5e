"""torch.ops.mpsx: values and gradients against PyTorch, both devices, torch.library.opcheck, transforms, errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from layouts import make, on_device
from tables import FLOAT, rows

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

DEVICES = ("mpsx", "cpu")


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@dataclass
class Case:
    """An explicit operator, what PyTorch calls it, and arguments (tensors in float32; leaves if they are floats)."""

    name: str
    reference: Callable[..., torch.Tensor]
    arguments: tuple
    keywords: dict

    def __str__(self) -> str:
        return self.name


def case(name: str, reference: Callable[..., torch.Tensor], *arguments: object, **keywords: object) -> Case:
    return Case(name, reference, arguments, keywords)


X, MASK = randn(4, 6), randn(4, 6, seed=1) > 0
IMAGE, QUERY, KEY, VALUE = randn(2, 4, 7, 5), randn(2, 4, 5, 8), randn(2, 4, 6, 8, seed=1), randn(2, 4, 6, 8, seed=2)
CLASSES = torch.tensor([1, 0, 5, 3])
NN = [
    case("softmax", F.softmax, X, -1),
    case("softmax", F.softmax, X, 0, dtype=torch.float32),
    case("log_softmax", F.log_softmax, X, 1),
    case("layer_norm", F.layer_norm, X, [6], randn(6, seed=1), randn(6, seed=2), 1e-3),
    case("layer_norm", F.layer_norm, X, [4, 6]),
    case("rms_norm", F.rms_norm, X, [6], randn(6, seed=1), 1e-3),
    case("rms_norm", F.rms_norm, X, [6]),
    case("group_norm", F.group_norm, IMAGE, 2, randn(4, seed=1), randn(4, seed=2), 1e-3),
    case("gelu", F.gelu, X),
    case("gelu", F.gelu, X, approximate="tanh"),
    case("silu", F.silu, X),
    case("swiglu", lambda x, gate: x * F.silu(gate), X, randn(4, 6, seed=1)),
    case("linear", F.linear, randn(2, 4, 6), randn(3, 6, seed=1), randn(3, seed=2)),
    case("linear", F.linear, X, randn(3, 6, seed=1)),
    case("conv2d", F.conv2d, IMAGE, randn(6, 2, 3, 3, seed=1), randn(6, seed=2), [2, 1], [1, 0], [1, 1], 2),
    case("conv2d", F.conv2d, IMAGE[0], randn(3, 4, 3, 3, seed=1)),
    case("cross_entropy", F.cross_entropy, X, CLASSES),
    case("cross_entropy", F.cross_entropy, X, CLASSES, randn(6, seed=3).abs(), reduction="none"),
    case("cross_entropy", F.cross_entropy, X, CLASSES, randn(6, seed=3).abs(), ignore_index=3, label_smoothing=0.1),
    case("cross_entropy", F.cross_entropy, X, randn(4, 6, seed=3).softmax(-1), reduction="sum", label_smoothing=0.2),
    case("cross_entropy", F.cross_entropy, randn(2, 6, 3, 2), torch.randint(0, 6, (2, 3, 2)), reduction="none"),
    case("embedding", F.embedding, torch.tensor([[1, 3], [3, 0]]), X),
    case("embedding", F.embedding, torch.tensor([[1, 3], [3, 0]]), X, padding_idx=-1),
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, QUERY, KEY, VALUE),
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, KEY, KEY, VALUE, is_causal=True, scale=0.5),
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, QUERY, KEY, VALUE, randn(5, 6, seed=5) > -1),
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, QUERY[0], KEY[0], VALUE[0], randn(5, 6)),
    case("scaled_dot_product_attention", F.scaled_dot_product_attention, QUERY, KEY[:, :2], VALUE[:, :2],
         enable_gqa=True),
]  # fmt: skip

DOMAIN = {"sqrt": (0.1, 9), "rsqrt": (0.1, 9), "log": (0.1, 9), "log2": (0.1, 9), "log10": (0.1, 9), "log1p": (-0.9, 9),
          "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atanh": (-0.9, 0.9), "acosh": (1.1, 9), "tan": (-1, 1)}  # fmt: skip


def operand(types: str, layout: str = "contiguous", seed: int = 0, low: float = -3, high: float = 3) -> torch.Tensor:
    dtype = torch.int32 if types in ("INT", "BITS") else torch.float32
    return make(layout, dtype, seed=seed, low=low, high=high)


UNARY = [
    case(name, getattr(torch, name), operand(types, "slice", 0, *DOMAIN.get(name, (-3, 3))))
    for name, types in rows("elementwise/unary.def", "MPSX_UNARY", 2)
]
BINARY = [
    case(name, getattr(torch, name), operand(types, "transposed"), operand(types, seed=1))
    for name, _, types in rows("elementwise/binary.def", "MPSX_BINARY", 3)
]
COMPARE = [
    case(name, getattr(torch, name), operand("ALL"), operand("ALL", seed=1))
    for name, _ in rows("elementwise/compare.def", "MPSX_COMPARE", 2)
]
POSITIVE = X.abs() + 0.5
OTHER = [
    case("add", torch.add, X, randn(6, seed=1), alpha=2),
    case("mul", torch.mul, X, 2.5),
    case("sub", torch.sub, randn(6), randn(4, 1), alpha=0.5),
    case("pow", torch.pow, POSITIVE, randn(4, 6, seed=1)),
    case("pow", torch.pow, X, 3),
    case("remainder", torch.remainder, X, POSITIVE),
    case("fmod", torch.fmod, X, POSITIVE),
    case("floor_divide", torch.floor_divide, X, POSITIVE),
    case("where", torch.where, MASK, X, randn(6)),
    case("masked_fill", torch.masked_fill, X, MASK, 7.0),
    case("clamp", torch.clamp, X, -0.5, 0.4),
    case("clamp", torch.clamp, X, max=0.4),
    case("addcmul", torch.addcmul, X, randn(6), randn(4, 1, seed=1), value=0.5),
    case("addcdiv", torch.addcdiv, X, randn(4, 6, seed=1), POSITIVE, value=0.5),
    case("lerp", torch.lerp, X, randn(4, 6, seed=1), randn(4, 6, seed=2)),
    case("leaky_relu", F.leaky_relu, X, 0.2),
    case("elu", F.elu, X, 0.7),
    case("hardtanh", F.hardtanh, X, -0.5, 0.8),
    case("hardswish", F.hardswish, X),
    case("hardsigmoid", F.hardsigmoid, X),
    case("softplus", F.softplus, X, 2.0, 5.0),
    case("mish", F.mish, X),
]
ELEMENTWISE = UNARY + BINARY + COMPARE + OTHER
ALL = NN + ELEMENTWISE
LABELS = [f"{c}-{k}" for k, c in enumerate(ALL)]
each = pytest.mark.parametrize("c", ALL, ids=LABELS)


def overload(c: Case) -> torch._ops.OpOverload:
    return getattr(torch.ops.mpsx, c.name).default


def leaves(c: Case, device: str, dtype: torch.dtype = torch.float32, grad: bool = True) -> list[object]:
    """The case's arguments on a device: fresh leaves in the same layout."""
    placed = []
    for a in c.arguments:
        if isinstance(a, torch.Tensor):
            b = a.to(dtype) if a.is_floating_point() and dtype != torch.float32 else a
            a = on_device(b.clone() if device == "cpu" else b, device).detach()
            if grad and a.is_floating_point():
                a.requires_grad_()
        placed.append(a)
    return placed


def tensors(values: list[object]) -> list[torch.Tensor]:
    return [v for v in values if isinstance(v, torch.Tensor)]


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
def test_half_types(c: Case, dtype: torch.dtype) -> None:
    """Against float64 results of the rounded arguments: as near as the type allows."""
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
    arguments = leaves(c, device, grad=c.reference(*leaves(c, "cpu"), **c.keywords).requires_grad)
    arguments = [torch.tensor(a) if k and c in ELEMENTWISE and c.name in ("mul", "pow") and isinstance(a, float) else a
                 for k, a in enumerate(arguments)]  # fmt: skip
    if c.name in ("mul", "pow") and not isinstance(arguments[1], torch.Tensor):
        pytest.skip("opcheck fakes every tensor argument, and this one is a Python number")
    torch.library.opcheck(overload(c), tuple(arguments), c.keywords)


def test_every_row_is_an_operator() -> None:
    names = set(dir(mpsx.ops))
    for c in UNARY + BINARY + COMPARE:
        assert c.name in names
    for name in mpsx.ops.__all__:
        assert callable(getattr(mpsx.ops, name)), name


@pytest.mark.parametrize("c", NN, ids=LABELS[: len(NN)])
def test_cpu_tensors_are_not_copied(c: Case) -> None:
    """What runs on CPU tensors is what runs on mpsx: the same kernels, the same bits."""
    with mpsx.profiler.launch_log() as on_cpu:
        a = getattr(mpsx.ops, c.name)(*leaves(c, "cpu", grad=False), **c.keywords)
    with mpsx.profiler.launch_log() as on_mpsx:
        b = getattr(mpsx.ops, c.name)(*leaves(c, "mpsx", grad=False), **c.keywords)
    assert len(list(on_cpu)) > 0
    copies = ("kernel:copy", "kernel:fill")  # made by composites for themselves, on the CPU by the CPU
    assert [r for r in on_cpu if not r.startswith(copies)] == [r for r in on_mpsx if not r.startswith(copies)]
    assert torch.equal(a, b.cpu())


def test_memory_of_a_result_is_the_kernels() -> None:
    x = torch.randn(1000)
    before = x.data_ptr()
    y = torch.ops.mpsx.exp(x)
    del x
    assert y.data_ptr() != before
    assert y.is_cpu
    assert y.numpy().shape == (1000,)
    y.resize_(2000)[:] = 1
    assert y.sum().item() == 2000


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
def test_conv2d_padding(kernel: tuple[int, int], padding: object, device: str) -> None:
    weight = randn(3, 4, *kernel)
    with mpsx.fallback.using_mode("silent"):  # an uneven padding is F.pad's
        result = mpsx.ops.conv2d(IMAGE.to(device), weight.to(device), padding=padding)
    torch.testing.assert_close(result.cpu(), F.conv2d(IMAGE, weight, padding=padding))


# ---- transforms


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
    assert torch.equal(result, expected)
    expected.sum().backward()
    result.sum().backward()
    for a, b in zip(compiled, eager, strict=True):
        assert torch.equal(a.grad, b.grad)


@pytest.mark.parametrize("device", DEVICES)
def test_compile_keeps_the_operators(device: str) -> None:
    """The graph names our operators: nothing is decomposed behind the compiler's back."""
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
    """On meta tensors: shape, type and strides of the real result."""
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
    for f in (lambda a, b: mpsx.ops.swiglu(a, b), lambda a, b: torch.ops.mpsx.mul(torch.ops.mpsx.exp(a), b),
              lambda a, b: mpsx.ops.softmax(a, -1) - b):  # fmt: skip
        torch.testing.assert_close(torch.vmap(f)(x, gate), f(x, gate))


@pytest.mark.parametrize("device", DEVICES)
def test_second_derivatives(device: str) -> None:
    """Formulas are explicit operators themselves, so the elementwise family can be derived again; others say no."""
    x = X.to(device).requires_grad_()
    (first,) = torch.autograd.grad(torch.ops.mpsx.exp(x * 2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second.cpu(), 4 * torch.exp(2 * X))
    (first,) = torch.autograd.grad(mpsx.ops.swiglu(x, x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="mpsx::swiglu_backward is not implemented"):
        first.sum().backward()


def test_saved_tensors_are_guarded() -> None:
    x = torch.randn(5, device="mpsx", requires_grad=True)
    y = torch.ops.mpsx.exp(x)
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = torch.ops.mpsx.exp(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


def test_forward_mode_is_refused() -> None:
    import torch.autograd.forward_ad as fwad

    with fwad.dual_level(), pytest.raises(NotImplementedError, match="mpsx::exp: forward-mode"):
        torch.ops.mpsx.exp(fwad.make_dual(torch.randn(3), torch.randn(3)))


# ---- errors


MIXED = [c for c in ALL if len([a for a in c.arguments if isinstance(a, torch.Tensor)]) > 1]


@pytest.mark.parametrize("c", MIXED, ids=[f"{c}-{k}" for k, c in enumerate(MIXED)])
def test_mixed_devices(c: Case) -> None:
    on_mpsx, on_cpu = leaves(c, "mpsx", grad=False), leaves(c, "cpu", grad=False)
    first, second = itertools.islice((k for k, a in enumerate(on_cpu) if isinstance(a, torch.Tensor)), 2)
    on_mpsx[second] = on_cpu[second]
    with pytest.raises(RuntimeError, match=f"mpsx::{c.name}: expected all tensors on mpsx or all on cpu, got mpsx and cpu"):
        overload(c)(*on_mpsx, **c.keywords)
    on_mpsx = leaves(c, "mpsx", grad=False)
    on_mpsx[first] = on_cpu[first]
    with pytest.raises(RuntimeError, match=f"mpsx::{c.name}: expected all tensors on mpsx or all on cpu, got cpu and mpsx"):
        overload(c)(*on_mpsx, **c.keywords)


@pytest.mark.parametrize("device", DEVICES)
@each
def test_float64_is_refused(c: Case, device: str) -> None:
    arguments = leaves(c, device, torch.float64, grad=False)
    if all(a.dtype != torch.float64 for a in tensors(arguments)):
        arguments = [a.double() if isinstance(a, torch.Tensor) else a for a in leaves(c, "cpu", grad=False)]
        arguments = [a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments]
    if c.name in ("embedding", "cross_entropy", "scaled_dot_product_attention", *NORMS):
        name = "mpsx::"  # composites: the operator below says so
    else:
        name = f"mpsx::{c.name}"
    with pytest.raises(RuntimeError, match=rf"{name}\w*: expected float32, float16(,| or) bfloat16.*, got Double"):
        overload(c)(*arguments, **c.keywords)


NORMS = ("layer_norm", "rms_norm", "group_norm")


def test_other_errors() -> None:
    x = torch.randn(2, 6, device="mpsx")
    with pytest.raises(RuntimeError, match="mpsx::softmax: expected float32, float16 or bfloat16, got Long"):
        mpsx.ops.softmax(x.long(), -1)
    with pytest.raises(RuntimeError, match="mpsx::exp: expected all tensors on mpsx or all on cpu, got Sparse on cpu"):
        torch.ops.mpsx.exp(torch.eye(3).to_sparse())
    with pytest.raises(RuntimeError, match=r"mpsx::layer_norm: expected an input whose last dimensions are \[5\]"):
        mpsx.ops.layer_norm(x, [5])
    with pytest.raises(RuntimeError, match="mpsx::group_norm: expected a number of channels divisible by 4 groups, got 6"):
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
        mpsx.ops.embedding(bad, weight)
    with pytest.raises(IndexError):
        mpsx.ops.cross_entropy(weight[:2], bad)
