"""torch.compile with Inductor: run the generated Metal kernels through mpsx.compile_shader, and compare with eager mode
on the CPU."""

from __future__ import annotations

import sys

import pytest
import torch
from inductor_graphs import GRAPHS
from torch import nn

import mpsx

pytestmark = pytest.mark.usefixtures("silent_fallback")


@pytest.fixture(autouse=True)
def reset_dynamo():
    """Discard Dynamo state from earlier tests."""
    torch._dynamo.reset()


def inputs_of(specification):
    generator = torch.Generator().manual_seed(0)
    return [x if isinstance(x, torch.Tensor) else torch.randn(x, generator=generator) for x in specification]


def generated(log):
    return [name for name in log if name.startswith("kernel:generated_kernel_")]


def assert_same(found, expected):
    if isinstance(expected, tuple | list):
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)
        return
    assert found.device.type == "mpsx"
    # Compiled code computes half and bfloat in float and rounds once. The CPU rounds after every operator.
    loose = {torch.float16: {"atol": 5e-3, "rtol": 5e-3}, torch.bfloat16: {"atol": 5e-2, "rtol": 2e-2}}
    float32 = {"atol": 2e-5, "rtol": 2e-5}
    tolerance = loose.get(expected.dtype, float32 if expected.dtype == torch.float32 else {})
    torch.testing.assert_close(found.cpu(), expected, **tolerance)


# PyTorch's 64-bit simd_sum (c10/metal/reduction_utils.h) shuffles from lanes that have left the branch. Metal leaves
# this undefined, and the emulation rejects it.
IDLE_LANES = {"many_outputs"}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name):
    if name in IDLE_LANES and mpsx.driver()["name"] == "metal" and sys.platform != "darwin":
        function, specification = GRAPHS[name]
        with pytest.raises(RuntimeError, match="which is not active here"):
            torch.compile(function, backend="inductor")(*(x.to("mpsx") for x in inputs_of(specification)))
            torch.mpsx.synchronize()
        return
    function, specification = GRAPHS[name]
    inputs = inputs_of(specification)
    expected = function(*inputs)
    compiled = torch.compile(function, backend="inductor", fullgraph=True)
    with mpsx.profiler.launch_log() as log:
        found = compiled(*(x.to("mpsx") for x in inputs))
    assert generated(log), f"nothing was generated: {log}"
    assert_same(found, expected)


def test_number_of_graphs():
    assert len(GRAPHS) >= 60


@pytest.mark.parametrize("name", ["pointwise_gelu", "reduce_softmax", "reduce_var", "reduce_sum", "index_select"])
def test_dynamic_shapes(name):
    function, specification = GRAPHS[name]
    compiled = torch.compile(function, backend="inductor", dynamic=True)
    for extra in (0, 5):
        inputs = inputs_of([x if isinstance(x, torch.Tensor) else (x[0] + extra, x[1] + extra) for x in specification])
        assert_same(compiled(*(x.to("mpsx") for x in inputs)), function(*inputs))


def test_out_of_range_index_raises():
    @torch.compile(backend="inductor")
    def take(x, i):
        return x[i] * 2

    x = torch.rand(10)
    assert_same(take(x.to("mpsx"), torch.tensor([1, 9, -10]).to("mpsx")), x[[1, 9, 0]] * 2)
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        take(x.to("mpsx"), torch.tensor([1, 10, 2]).to("mpsx")).cpu()


def test_random_numbers():
    @torch.compile(backend="inductor")
    def noise(x):
        return torch.rand_like(x), torch.randn_like(x), F_dropout(x)

    def F_dropout(x):
        return nn.functional.dropout(x, 0.25)

    x = torch.ones(200, 200, device="mpsx")
    torch.manual_seed(3)
    uniform, normal, kept = noise(x)
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.mean().item() - 0.5) < 0.01 and abs(uniform.var().item() - 1 / 12) < 0.005
    # Before torch 2.13, c10/metal/random.h swaps the halves of Philox products. This shifts the mean of normal numbers
    # to -0.08.
    assert torch.__version__ < "2.13" or abs(normal.mean().item()) < 0.02
    assert abs(normal.std().item() - 1) < 0.02
    assert set(kept.unique().cpu().tolist()) <= {0.0, torch.tensor(4 / 3).item()}
    assert abs((kept == 0).float().mean().item() - 0.25) < 0.02
    torch.manual_seed(3)
    again = noise(x)
    assert torch.equal(again[0].cpu(), uniform.cpu()) and torch.equal(again[1].cpu(), normal.cpu())
    assert not torch.equal(noise(x)[0].cpu(), uniform.cpu())


def test_training():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.0), nn.Linear(32, 5))
    x, target = torch.randn(16, 20), torch.randint(0, 5, (16,))

    def step(model, x, target):
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        return loss

    on_mpsx = nn.Sequential(nn.Linear(20, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.0), nn.Linear(32, 5))
    on_mpsx.load_state_dict(model.state_dict())
    on_mpsx.to("mpsx")
    compiled = torch.compile(on_mpsx, backend="inductor")
    assert_same(step(compiled, x.to("mpsx"), target.to("mpsx")).detach(), step(model, x, target).detach())
    for a, b in zip(on_mpsx.parameters(), model.parameters(), strict=True):
        assert_same(a.grad, b.grad)
