"""Compiled torch._foreach_* functions and optimizers match the eager list kernels bit for bit."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from compiled_cases import edges
from torch import nn

import mpsx
from mpsx.inductor import foreach, lowerings, tables

Lists = list[list[torch.Tensor]]


def assert_same_bits(found: list[torch.Tensor], expected: list[torch.Tensor], what: str) -> None:
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.dtype == b.dtype, what
        same = (a == b) & (a.signbit() == b.signbit()) | (a.isnan() & b.isnan())
        assert same.all(), f"{what}: tensor {i}: {a[~same][:4].tolist()}, eager {b[~same][:4].tolist()}"


def assert_close(found: list[torch.Tensor], expected: list[torch.Tensor], what: str) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7, msg=lambda text: f"{what}: {text}")


def edge_lists(dtype: torch.dtype) -> Lists:
    """Return three lists of two tensors that together cover many combinations of edge values."""
    values = edges(dtype)
    generator = torch.Generator().manual_seed(1)
    order = [torch.randperm(len(values), generator=generator) for _ in range(6)]
    flat = [values[i].to("mpsx") for i in order]
    return [flat[:2], flat[2:4], flat[4:]]


Call = Callable[..., list[torch.Tensor]]  # x, y, z -> results


def calls() -> dict[str, Call]:
    """Return one call for each form of each row in foreach.def, plus the operators that have no row."""
    found: dict[str, Call] = {}
    for row in tables.rows().values():
        if row.table != "foreach":
            continue
        operator = getattr(torch, f"_{row.name}")
        scaled = {"alpha": 0.3} if row.name in ("foreach_add", "foreach_sub") else {}
        if len(row.operands) == 1:
            found[row.name] = lambda x, y, z, f=operator: f(x)
        elif len(row.operands) == 2:
            found[row.name] = lambda x, y, z, f=operator, k=scaled: f(x, y, **k)
            found[f"{row.name}.Scalar"] = lambda x, y, z, f=operator: f(x, 0.3)
            found[f"{row.name}.ScalarList"] = lambda x, y, z, f=operator: f(x, [0.3, -1.7])
        else:
            found[row.name] = lambda x, y, z, f=operator: f(x, y, z, value=0.3)
            found[f"{row.name}.ScalarList"] = lambda x, y, z, f=operator: f(x, y, z, [0.3, -1.7])
    found["lerp 0.3"] = lambda x, y, z: torch._foreach_lerp(x, y, 0.3)
    found["lerp 0.9"] = lambda x, y, z: torch._foreach_lerp(x, y, 0.9)
    found["lerp list"] = lambda x, y, z: torch._foreach_lerp(x, y, z)  # noqa: PLW0108
    found["mul value"] = lambda x, y, z: torch._foreach_mul(x, y[0][3])
    found["power of a number"] = lambda x, y, z: torch._foreach_pow(0.9, x)
    return found


@pytest.mark.parametrize("dtype", [
    torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.sweep),
    pytest.param(torch.float16, marks=pytest.mark.sweep),
], ids=str)  # fmt: skip
def test_rows(dtype: torch.dtype) -> None:
    lists, functions = edge_lists(dtype), calls()
    eager = [f(*lists) for f in functions.values()]
    order = [*functions.values()]

    @torch.compile(fullgraph=True)
    def run(x: list[torch.Tensor], y: list[torch.Tensor], z: list[torch.Tensor]) -> list[list[torch.Tensor]]:
        return [f(x, y, z) for f in order]

    torch._dynamo.reset()
    with mpsx.profiler.launch_log() as log:
        compiled = run(*lists)
    assert not any("foreach" in name for name in log), log
    for name, found, expected in zip(functions, compiled, eager, strict=True):
        assert_same_bits(found, expected, name)


def test_lists_of_integers_use_the_lowerings_of_inductor() -> None:
    """There are no list kernels for integers. Eager mode runs the operator once per tensor."""
    xs = [torch.tensor([1, -7, 2**62], device="mpsx"), torch.tensor([3], device="mpsx")]
    found = torch.compile(lambda xs: torch._foreach_add(torch._foreach_mul(xs, 3), xs, alpha=2))(xs)
    for a, b in zip(found, torch._foreach_add(torch._foreach_mul(xs, 3), xs, alpha=2), strict=True):
        assert torch.equal(a, b)


def test_every_row_has_a_lowering() -> None:
    covered = {op._schema.name.partition("::")[2] for op in foreach.signatures()}
    assert covered >= {f"_{row.name}" for row in tables.rows().values() if row.table == "foreach"}
    assert set(foreach.signatures()) <= set(lowerings.signatures())


OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    "AdamW": (torch.optim.AdamW, {"capturable": True}),  # compiled steps always behave as if this were set
    "Adam": (torch.optim.Adam, {"capturable": True, "amsgrad": True, "weight_decay": 0.01}),
    "RMSprop": (torch.optim.RMSprop, {"capturable": True, "momentum": 0.9, "centered": True}),
    "Adagrad": (torch.optim.Adagrad, {}),
    "Adamax": (torch.optim.Adamax, {"capturable": True}),
    "NAdam": (torch.optim.NAdam, {"capturable": True}),
}
DEFAULT = ("SGD", "AdamW")


@pytest.mark.parametrize("name", [n if n in DEFAULT else pytest.param(n, marks=pytest.mark.sweep) for n in OPTIMIZERS])
def test_compiled_optimizer_equals_eager(name: str) -> None:
    kind, options = OPTIMIZERS[name]
    # Before PyTorch 2.13, Dynamo replaces _foreach_lerp_ with three operators, which round differently.
    compare = assert_close if torch.__version__ < "2.13" and name not in ("SGD", "Adagrad") else assert_same_bits
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3)).to("mpsx")
    twin = copy.deepcopy(model)
    eager, compiled = (kind(m.parameters(), 1e-2, foreach=True, **options) for m in (model, twin))
    torch._dynamo.reset()
    step = torch.compile(compiled.step)
    for _ in range(3):
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        eager.step()
        step()
        compare([*twin.parameters()], [*model.parameters()], name)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        states = eager.state[a], compiled.state[b]
        tensors = [[v for v in state.values() if isinstance(v, torch.Tensor)] for state in states]
        compare(tensors[1], [x.to(y.device) for x, y in zip(tensors[0], tensors[1], strict=True)], name)
