"""Compare parameters and state after several steps with the CPU, for every optimizer and configuration in optim_db."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.testing._internal.common_optimizers import OptimizerInfo, OptimizerInput, optim_db

from .common import DEVICE

pytestmark = [pytest.mark.usefixtures("silent_fallback"), pytest.mark.filterwarnings("ignore")]

STEPS = 5
SHAPES = ((7, 5), (11,), (3, 4, 2), ())


def implementations(info: OptimizerInfo) -> list[dict[str, bool]]:
    """Return the options that select each implementation. An empty dict selects the for-loop."""
    found: list[dict[str, bool]] = [{}]
    for flag in info.supported_impls:
        if flag != "fused" or "cpu" in info.supports_fused_on:
            found.append({flag: True})
    return found + ([{"capturable": True}] if info.has_capturable_arg else [])


def configurations() -> list[object]:
    found = []
    for info in optim_db:
        for inputs in info.optim_inputs_func("cpu"):
            for implementation in implementations(info):
                # Skip inputs that already select an implementation.
                if any(inputs.kwargs.get(flag) for flag in ("foreach", "fused", "differentiable", "capturable")):
                    continue
                name = f"{info.optim_cls.__name__}-{inputs.desc or 'default'}-{next(iter(implementation), 'loop')}"
                found.append(pytest.param(info, inputs, implementation, id=name.replace(" ", "_")))
    return found


def parameters(info: OptimizerInfo, device: str) -> list[torch.Tensor]:
    """Return random parameters with the same values on every device."""
    generator = torch.Generator().manual_seed(0)
    name = info.optim_cls.__name__
    shapes = [s for s in SHAPES if len(s) == 2] if name == "Muon" else SHAPES[:3] if name == "SparseAdam" else SHAPES
    # LBFGS amplifies rounding errors from earlier steps.
    dtype = torch.float64 if name == "LBFGS" else torch.float32
    return [torch.randn(s, generator=generator).to(device, dtype).requires_grad_() for s in shapes]


def trained(
    info: OptimizerInfo, inputs: OptimizerInput, implementation: dict[str, bool], device: str
) -> list[torch.Tensor]:
    """Take several steps toward targets that are the same on every device. Return the parameters and optimizer
    state."""
    params = parameters(info, device)
    options = inputs.kwargs | implementation
    if options.get("differentiable"):
        params = [p.clone() for p in params]  # leaves that require grad cannot be modified in place
    groups: object = params
    if inputs.params is not None:
        groups = [dict(group, params=[p]) for group, p in zip(inputs.params, params, strict=False)]
    optimizer = info.optim_cls(groups, **options)
    generator = torch.Generator().manual_seed(1)
    wanted = [torch.randn(p.shape, generator=generator).to(device, p.dtype) for p in params]

    def set_gradients() -> torch.Tensor:
        loss = sum(((p - w) ** 2).sum() for p, w in zip(params, wanted, strict=True))
        for p, grad in zip(params, torch.autograd.grad(loss, params), strict=True):
            p.grad = grad.to_sparse() if info.only_supports_sparse_grads else grad
        return loss.detach()

    for _ in range(STEPS):
        closure: Callable[[], torch.Tensor] | None = set_gradients if info.step_requires_closure else None
        set_gradients()
        optimizer.step(closure) if closure else optimizer.step()
    state = [v for p in params for _, v in sorted(optimizer.state[p].items()) if isinstance(v, torch.Tensor)]
    return [*params, *state]


@pytest.mark.parametrize(("info", "inputs", "implementation"), configurations())
def test_optimizer(info: OptimizerInfo, inputs: OptimizerInput, implementation: dict[str, bool]) -> None:
    if info.only_supports_sparse_grads and implementation:
        pytest.skip("SparseAdam has one implementation")
    on_cpu = {} if "capturable" in implementation else implementation  # the CPU has no capturable implementation
    expected = trained(info, inputs, on_cpu, "cpu")
    got = trained(info, inputs, implementation, DEVICE)
    assert len(got) == len(expected)
    for have, want in zip(got, expected, strict=True):
        torch.testing.assert_close(have.detach().cpu(), want.detach())
