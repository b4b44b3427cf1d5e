"""Test calls for every torch.Tensor method without an OpInfo (see public_calls.py)."""

from __future__ import annotations

import io
import math

import torch
from public_inputs import Call, Inputs

CALLS: dict[str, Call] = {}


def add(**calls: Call) -> None:
    CALLS.update({f"Tensor.{name}": call for name, call in calls.items()})


QUERIES = """dim ndimension numel nelement element_size is_complex is_conj is_contiguous is_distributed
    is_floating_point is_inference is_neg is_signed storage_offset stride size dim_order tolist hardshrink relu detach
    absolute_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ detach_ fix_ negative_ relu_ is_pinned share_memory_"""
for _name in QUERIES.split():
    add(**{_name: lambda m, name=_name: getattr(m.unit(3, 5), name)()})
for _name in "divide_ greater_ greater_equal_ less_ less_equal_ multiply_ not_equal_ subtract_ arctan2_".split():
    add(**{_name: lambda m, name=_name: getattr(m.unit(3, 5), name)(m.unit(3, 5))})
    if _name != "arctan2_":
        add(**{f"{_name}scalar": lambda m, name=_name: getattr(m.unit(3, 5), name)(2)})


def backward(m: Inputs) -> torch.Tensor | None:
    x = m.leaf(3)
    (x * x).sum().backward()
    return x.grad


def retained(m: Inputs) -> torch.Tensor | None:
    y = m.leaf(3) * 2
    y.retain_grad()
    y.sum().backward()
    return y.grad


def hooked(m: Inputs, register: str) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    x, seen = m.leaf(3), []
    getattr(x, register)(lambda t: seen.append(t.detach()))
    (x * 3).sum().backward()
    return x.grad, seen


class Subclass(torch.Tensor):
    pass


def module_load(m: Inputs) -> torch.Tensor:
    return m.x(3).module_load(m.x(3) + 1)


add(
    as_subclass=lambda m: type(m.x(3).as_subclass(Subclass)).__name__,
    backward=backward,
    bernoulli_=lambda m: (m.x(3).bernoulli_(1.0), m.x(3).bernoulli_(torch.zeros_like(m.x(3)))),
    clip_=lambda m: m.x(3, 5).clip_(-0.5, 0.5),
    cpu=lambda m: m.x(3, 5).cpu().tolist(),
    copy_=lambda m: (m.x(3).copy_(m.index(5, 3)), m.x(2, 3).copy_(m.x(3)), m.x(3).copy_(torch.arange(3.0))),
    fill_diagonal_=lambda m: (m.x(7, 3).fill_diagonal_(2.0, wrap=True), m.x(3, 3, 3).fill_diagonal_(1)),
    index=lambda m: torch.ops.aten.index(m.x(5, 3), [None, m.t([0, 2])]),
    is_nonzero=lambda m: m.t(1.0).is_nonzero(),
    is_same_size=lambda m: m.x(2, 3).is_same_size(m.x(2, 3)),
    is_set_to=lambda m: ((x := m.x(3)).is_set_to(x), m.x(3).is_set_to(m.x(3))),
    module_load=module_load,
    new=lambda m: (m.x(3).new([1.0, 2.0]), m.x(3).new(2, 3).shape),
    new_tensor=lambda m: m.x(3).new_tensor([[1, 2], [3, 4]]),
    numpy=lambda m: m.x(3).numpy(force=True).tolist(),
    prelu=lambda m: m.leaf(2, 3, 4).prelu(m.leaf(3)),
    random_=lambda m: (m.x(3).random_(5, 6), m.index(9, 3).random_(1)),
    register_hook=lambda m: hooked(m, "register_hook"),
    register_post_accumulate_grad_hook=lambda m: hooked(m, "register_post_accumulate_grad_hook"),
    requires_grad_=lambda m: m.x(3).requires_grad_().requires_grad,
    resize=lambda m: m.x(4).resize(2, 2),
    resize_as=lambda m: m.x(4).resize_as(m.x(2, 2)),
    retain_grad=retained,
    set_=lambda m: (m.x(3).set_(m.x(5)), m.x(3).set_(), m.x(3).set_(
        torch.zeros_like(m.x(9)).untyped_storage(), 1, (2, 2))),
    slice_inverse=lambda m: m.x(10)[2:8].slice_inverse(m.x(10), 0, 2, 8),
    slogdet=lambda m: m.leaf(3, 3).slogdet(),
    storage=lambda m: m.x(3).storage().tolist(),
    swapaxes_=lambda m: m.x(3, 5).swapaxes_(0, 1),
    swapdims_=lambda m: m.x(3, 5, 2).swapdims_(0, 2),
    type=lambda m: m.x(3).type(torch.int32),
    type_as=lambda m: m.x(3).type_as(m.index(3, 2)),
    unsafe_split_with_sizes=lambda m: m.leaf(5, 2).unsafe_split_with_sizes([2, 3]),
    untyped_storage=lambda m: m.x(3).untyped_storage().nbytes(),
)  # fmt: skip


def saved(m: Inputs) -> object:
    file = io.BytesIO()
    torch.save(m.x(3, 4), file)
    file.seek(0)
    return torch.load(file)


# Methods that serialize tensors or operate on symbolic numbers.
CALLS |= {
    "save": saved,
    "load": saved,
    "sym_sqrt": lambda m: torch.sym_sqrt(4.0) == math.sqrt(4.0),
}

# Composite kernels that call a DispatchStub directly, by overload (see tests/ops/test_public_calls.py).
CALLS |= {
    "aten._batch_norm_no_update": lambda m: torch.ops.aten._batch_norm_no_update(
        m.x(2, 3, 4), m.x(3), m.x(3), m.x(3), m.unit(3), 0.1, 1e-5)[:3],
    "aten.arange.out": lambda m: (torch.arange(5, out=m.x(5)), torch.arange(1, 9, 3, out=m.index(3, 3))),
    "aten.conj_physical_": lambda m: torch.complex(m.x(3), m.x(3)).conj_physical_(),
    "aten.floor_divide.Scalar": lambda m: (torch.floor_divide(m.x(3), 2), m.x(3).floor_divide_(3)),
    "aten.ldexp.out": lambda m: torch.ldexp(m.x(3), m.index(4, 3), out=m.x(3)),
    "aten.linspace.Tensor_Tensor_out": lambda m: (
        torch.linspace(m.t(0.0), m.t(1.0), 5, out=m.x(5)), torch.linspace(m.t(0.0), 1.0, 5, out=m.x(5)),
        torch.linspace(0.0, m.t(1.0), 5, out=m.x(5)), torch.linspace(0.0, 1.0, 5, out=m.x(5))),
    "aten.logspace.Tensor_Tensor_out": lambda m: (
        torch.logspace(m.t(0.0), m.t(1.0), 5, out=m.x(5)), torch.logspace(0.0, 1.0, 5, out=m.x(5))),
    "aten.max.other": lambda m: (torch.max(m.x(3), m.x(3)), torch.min(m.x(3), m.x(3))),
    "aten.mode.values": lambda m: torch.mode(m.index(3, 4, 5), 1, out=(m.index(3, 4), m.index(3, 4))),
    "aten.normal.float_float": lambda m: (
        torch.normal(2.0, 0.0, (3, 4), device=m.device), torch.normal(2.0, 0.0, (3,), out=m.x(3))),
    "aten.scalar_tensor": lambda m: torch.scalar_tensor(2.5, dtype=m.dtype, device=m.device),
    "aten.std.out": lambda m: (torch.std(m.x(3, 4), 1, out=m.x(3)), torch.var(m.x(3, 4), 1, out=m.x(3))),
    "aten.where.Scalar": lambda m: (
        torch.where(m.mask(3), 1.5, 2), torch.where(m.mask(3), m.x(3), 2), torch.where(m.mask(3), 1, m.x(3))),
}  # fmt: skip
