"""FakeTensor, torch.compile, vmap, functional transforms, and checkpointing."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from processes import run_compiled
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("silent_fallback")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 3))


def test_fake_tensors() -> None:
    with FakeTensorMode(), torch.device("mpsx"):
        out = network()(torch.empty(2, 6))
    assert out.shape == (2, 3)
    assert out.device.type == "mpsx"


def test_make_fx() -> None:
    graph = make_fx(lambda x: (x @ x).softmax(-1), tracing_mode="fake")(torch.rand(3, 3, device="mpsx"))
    x = torch.rand(3, 3, device="mpsx")
    torch.testing.assert_close(graph(x).cpu(), (x.cpu() @ x.cpu()).softmax(-1))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile(backend: str, dynamic: bool) -> None:
    model = network()
    twin = torch.compile(copy.deepcopy(model).to("mpsx"), backend=backend, dynamic=dynamic)
    for rows in (4, 7):
        x = torch.randn(rows, 6)
        on_mpsx = x.to("mpsx").requires_grad_()
        x.requires_grad_()
        out, out_there = model(x), twin(on_mpsx)
        torch.testing.assert_close(out_there.cpu(), out)
        out.square().sum().backward()
        out_there.square().sum().backward()
        torch.testing.assert_close(on_mpsx.grad.cpu(), x.grad)


def test_vmap() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(5, 3, 4), torch.randn(5, 4)
    batched = torch.vmap(torch.mv)(a.to("mpsx"), b.to("mpsx"))
    assert batched.device.type == "mpsx"
    torch.testing.assert_close(batched.cpu(), torch.vmap(torch.mv)(a, b))
    torch.testing.assert_close(
        torch.vmap(torch.linalg.det)(a[:, :, :3].to("mpsx")).cpu(), torch.vmap(torch.linalg.det)(a[:, :, :3])
    )


def test_functional_transforms() -> None:
    torch.manual_seed(0)
    x = torch.randn(4)

    def f(v: torch.Tensor) -> torch.Tensor:
        return (v.sin() * v.square()).sum()

    for transform in (torch.func.grad, torch.func.hessian, torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(f)(x.to("mpsx")).cpu(), transform(f)(x))
    out, tangent = torch.func.jvp(f, (x.to("mpsx"),), (torch.ones(4, device="mpsx"),))
    expected = torch.func.jvp(f, (x,), (torch.ones(4),))
    torch.testing.assert_close((out.cpu(), tangent.cpu()), expected)


def test_functional_call_with_batched_gradients() -> None:
    model = network().to("mpsx")
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(values: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, values, (x[None],)).square().sum()

    x = torch.randn(3, 6, device="mpsx")
    each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    total = torch.func.grad(lambda values: sum(loss(values, row) for row in x))(parameters)
    for name in parameters:
        torch.testing.assert_close(each[name].sum(0).cpu(), total[name].cpu())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_restores_random_state(reentrant: bool) -> None:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.ReLU()).to("mpsx")
    x = torch.randn(8, 16, device="mpsx", requires_grad=True)
    torch.manual_seed(7)
    plain = torch.autograd.grad(block(x).sum(), x)[0]
    torch.manual_seed(7)
    out = checkpoint(block, x, use_reentrant=reentrant)
    out.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), plain.cpu())


def test_inference_mode() -> None:
    model = network()
    x = torch.randn(2, 6)
    with torch.inference_mode():
        on_mpsx = copy.deepcopy(model).to("mpsx")(x.to("mpsx"))
        assert on_mpsx.is_inference()
        torch.testing.assert_close(on_mpsx.cpu(), model(x))
        torch.special.airy_ai(on_mpsx, out=on_mpsx)


def test_gradcheck_in_float64() -> None:
    x = torch.rand(3, 3, dtype=torch.float64, device="mpsx", requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: (v @ v).tanh(), (x,))
    assert torch.autograd.gradgradcheck(torch.sin, (x,))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize("explicit", [False, True])
def test_attention_under_transforms(explicit: bool) -> None:
    """Regression test: under vmap and torch.func.grad, tensors have no storage, and attention used to crash."""
    attend = attention
    if explicit:
        attend = lambda q, k, v: torch.ops.mpsx.scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
    inputs = [torch.randn(3, 2, 4, 5, 8) for _ in range(3)]
    on_mpsx = [x.to("mpsx") for x in inputs]
    gradient = torch.func.grad(lambda q, k, v: attend(q, k, v).square().sum())(*(x[0] for x in on_mpsx))
    expected = torch.func.grad(lambda q, k, v: attention(q, k, v).square().sum())(*(x[0] for x in inputs))
    torch.testing.assert_close(gradient.cpu(), expected)
    if not explicit:
        torch.testing.assert_close(torch.vmap(attend)(*on_mpsx).cpu(), attention(*inputs))
        both = torch.vmap(torch.func.grad(lambda q, k, v: attend(q, k, v).square().sum()))(*on_mpsx)
        torch.testing.assert_close(both[0].cpu(), expected)


def test_compiled_attention() -> None:
    compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
    inputs = [torch.randn(2, 4, 5, 8) for _ in range(3)]
    on_mpsx = [x.to("mpsx").requires_grad_() for x in inputs]
    on_cpu = [x.requires_grad_() for x in inputs]
    out, expected = compiled(*on_mpsx), attention(*on_cpu)
    torch.testing.assert_close(out.cpu(), expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    for a, b in zip(on_mpsx, on_cpu, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad)


BATCH_NORM = """
import copy
from collections.abc import Callable
for rows in (9, 70, 3000):
    eager = torch.nn.BatchNorm1d(3).to("mpsx").train()
    compiled = copy.deepcopy(eager)
    x = torch.randn(rows, 3, device="mpsx") * 2 + 1
    torch.testing.assert_close(torch.compile(compiled)(x), eager(x))
    for name, statistic in eager.named_buffers():
        torch.testing.assert_close(dict(compiled.named_buffers())[name], statistic)
"""


def test_running_statistics_on_simt(simt_library: object) -> None:
    """Regression test: the threads that computed a mean all updated the running mean, each from what others stored."""
    done = run_compiled(BATCH_NORM, MPSX_DRIVER="simt")
    assert done.returncode == 0, done.stderr


SYMBOLIC_ATTENTION = """
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounterWithBackend
for mask in ("none", "numbers", "booleans"):
    graphs = CompileCounterWithBackend("aot_eager")
    f = torch.compile(F.scaled_dot_product_attention, backend=graphs, dynamic=True, fullgraph=True)
    for batch, queries, keys in ((2, 5, 7), (3, 9, 4), (4, 16, 16)):
        q, k, v = (torch.randn(batch, 4, n, 8, device="mpsx") for n in (queries, keys, keys))
        m = None if mask == "none" else torch.randn(batch, 1, queries, keys, device="mpsx")
        m = m > 0 if mask == "booleans" else m
        assert torch.equal(f(q, k, v, m), F.scaled_dot_product_attention(q, k, v, m))
    assert graphs.frame_count == 1, (mask, graphs.frame_count)
    torch._dynamo.reset()
"""


def test_attention_with_symbolic_sizes() -> None:
    """Regression test: the choice of attention's kernel asked for concrete sizes, except with the CPU library."""
    done = run_compiled(SYMBOLIC_ATTENTION, MPSX_VENDOR="off")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("formats", ["contiguous", "input", "weight", "both"])
def test_fake_convolutions_have_the_real_strides(formats: str, transposed: bool) -> None:
    last = torch.channels_last

    def shown(tensors: tuple[torch.Tensor, ...]) -> list[tuple[torch.Size, tuple[int, ...]]]:
        return [(t.shape, t.stride()) for t in tensors]

    def strides() -> list:
        x, weight = torch.empty(2, 6, 9, 9, device="mpsx"), torch.empty(6, 6, 3, 3, device="mpsx")
        x = x.to(memory_format=last) if formats in ("input", "both") else x
        weight = weight.to(memory_format=last) if formats in ("weight", "both") else weight
        rest = ([1, 1], [1, 1], [1, 1], transposed, [0, 0], 1)
        out = torch.ops.aten.convolution(x, weight, None, *rest)
        return shown((out, *torch.ops.aten.convolution_backward(out, x, weight, [6], *rest, [True] * 3)))

    found = strides()
    with FakeTensorMode():
        assert strides() == found


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_statistics_of_norms_have_the_eager_dtypes(dtype: torch.dtype) -> None:
    aten = torch.ops.aten

    def statistics(x: torch.Tensor, scale: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> list[torch.Tensor]:
        return [
            *aten.native_layer_norm(x, [6], scale, None, 1e-5),
            *aten.native_group_norm(x, scale, scale, 4, 6, 6, 2, 1e-5),
            *aten._native_batch_norm_legit.no_stats(x, scale, scale, True, 0.1, 1e-5),
            *aten._batch_norm_with_update(x, scale, scale, mean, var, 0.1, 1e-5)[:3],
            *aten._batch_norm_no_update(x, scale, scale, mean, var, 0.1, 1e-5)[:3],
        ]

    def shown(function: Callable[..., list[torch.Tensor]]) -> list[tuple[torch.dtype, torch.Size]]:
        x, scale = torch.ones(4, 6, 6, dtype=torch.float16, device="mpsx"), torch.ones(6, dtype=dtype, device="mpsx")
        return [(t.dtype, t.shape) for t in function(x, scale, scale + 1, scale + 2)]

    wanted = shown(statistics)
    assert shown(torch.compile(statistics)) == wanted
    with FakeTensorMode():
        assert shown(statistics)[:3] == wanted[:3]  # PyTorch's fake kernels of the other operators differ


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3)])
def test_fake_attention_has_the_real_strides(order: tuple[int, ...]) -> None:
    shape = [(2, 3, 5, 8)[i] for i in order]

    def strides() -> list[tuple[int, ...]]:
        q, k, v = (torch.empty(shape, device="mpsx").permute(order).requires_grad_() for _ in range(3))
        out = attention(q, k, v)
        return [t.stride() for t in (out, *torch.autograd.grad(out.sum(), (q, k, v)))]

    found = strides()
    with FakeTensorMode():
        assert strides() == found


def test_graph_of_float64() -> None:
    x = torch.randn(5, 7, dtype=torch.float64)
    result = torch.compile(lambda v: (v.sin() * 2 + v.cos()).sum(-1), fullgraph=True)(x.to("mpsx"))
    assert result.device.type == "mpsx"
    torch.testing.assert_close(result.cpu(), (x.sin() * 2 + x.cos()).sum(-1))


def quantized(x: torch.Tensor, codes: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Quantize into a persistent tensor and read it back, as optimizers with quantized state do."""
    codes.copy_((x * 0.25).to(dtype))
    return codes.float() * 4, codes.view(-1)[::3], torch.zeros(3, dtype=dtype, device=x.device)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_graph_of_float8(dtype: torch.dtype) -> None:
    special = torch.tensor([0.0, -0.0, 1e-30, 0.01, 2000, -3e38, float("inf"), float("nan")])
    x = torch.cat([torch.randn(56) * 100, special]).view(4, 16).to("mpsx")
    codes = [torch.zeros(4, 16, dtype=dtype, device="mpsx") for _ in range(2)]
    eager = quantized(x, codes[0], dtype)
    compiled = torch.compile(quantized, fullgraph=True)(x, codes[1], dtype)
    for on_mpsx, expected in zip((*compiled, codes[1]), (*eager, codes[0]), strict=True):
        assert on_mpsx.dtype == expected.dtype
        torch.testing.assert_close(on_mpsx.cpu().float(), expected.cpu().float(), rtol=0, atol=0, equal_nan=True)
    on_cpu = (x.cpu() * 0.25).to(dtype)
    torch.testing.assert_close(codes[1].cpu().float(), on_cpu.float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_graph_of_unsigned_integers(dtype: torch.dtype) -> None:
    x = torch.arange(7.0, device="mpsx")
    assert torch.equal(torch.compile(lambda v: v.to(dtype).float() * 2, fullgraph=True)(x), x * 2)


@pytest.mark.sweep
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_flex_attention(dynamic: bool) -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = torch.randn(2, 4, 40, 16), torch.randn(2, 2, 40, 16), torch.randn(2, 2, 40, 16)
    bias = torch.randn(40)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 40, 40, device="mpsx")
    compiled = torch.compile(flex_attention, fullgraph=True, dynamic=dynamic)
    on_cpu = [t.clone().requires_grad_() for t in (q, k, v, bias)]
    on_mpsx = [t.to("mpsx").requires_grad_() for t in (q, k, v, bias)]
    causal = torch.ones(40, 40).tril().log() + on_cpu[3]
    expected = torch.nn.functional.scaled_dot_product_attention(*on_cpu[:3], attn_mask=causal, enable_gqa=True)

    def attend() -> torch.Tensor:
        return compiled(*on_mpsx[:3], lambda score, b, h, i, j: score + on_mpsx[3][j], block_mask=mask, enable_gqa=True)

    result = attend()
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)
    expected.square().sum().backward()
    result.square().sum().backward()
    for a, b in zip(on_mpsx, on_cpu, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        # Without gradients, FlexAttention runs the Metal kernel from PyTorch.
        torch.testing.assert_close(attend().cpu(), expected, rtol=1e-4, atol=1e-5)
        with torch.autocast("mpsx", dtype=torch.bfloat16):
            assert attend().dtype == torch.bfloat16


@pytest.mark.sweep
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_compiled_optimizer(kind: type) -> None:
    model = network()
    twin = copy.deepcopy(model).to("mpsx")
    plain, compiled = kind(model.parameters(), 1e-2), kind(twin.parameters(), 1e-2, foreach=True)
    step = torch.compile(compiled.step)
    for _ in range(3):
        x = torch.randn(5, 6)
        for parameters, optimizer, loss in ((model, plain.step, model(x)), (twin, step, twin(x.to("mpsx")))):
            parameters.zero_grad()
            loss.square().sum().backward()
            optimizer()
    for a, b in zip(twin.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_compiled_convolutions(memory_format: torch.memory_format) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval()
    twin = copy.deepcopy(model).to("mpsx", memory_format=memory_format)
    x = torch.randn(2, 3, 12, 12)
    with torch.no_grad():
        result = torch.compile(twin)(x.to("mpsx", memory_format=memory_format))
        torch.testing.assert_close(result.cpu(), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pool", [nn.functional.avg_pool1d, nn.functional.avg_pool2d, nn.functional.avg_pool3d])
def test_gradient_of_partial_pooling_windows(pool: Callable[..., torch.Tensor]) -> None:
    """With ceil_mode, the last window extends beyond the padding and has a smaller divisor."""
    gradients = []
    for function in (pool, torch.compile(pool, dynamic=False)):
        x = torch.ones(1, 2, *[9] * int(pool.__name__[-2]), device="mpsx", requires_grad=True)
        function(x, 4, 3, 1, ceil_mode=True).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)
