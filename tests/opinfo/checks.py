"""Compare one OpInfo with one dtype on mpsx and on the CPU. The tests and the operator support matrix use this."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch.autograd import forward_ad
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_map

from .common import (
    DEVICE,
    RANDOM,
    TIES,
    Arguments,
    assert_same,
    call,
    comparable,
    in_double,
    names_device,
    on_cpu,
    on_device,
    op_id,
    samples,
    seed,
    storage,
    tensors,
)

# Returns a context manager that records calls on the device.
Watch = Callable[[], AbstractContextManager[object]]
Tensors = list[torch.Tensor]


def cotangents(outputs: Iterable[torch.Tensor], seed: int) -> Tensors:
    """Return random multiples of 1/4 in [-2, 2]. Every dtype represents them exactly, and they do not depend on the
    device."""
    generator = torch.Generator().manual_seed(seed)

    def quarters(t: torch.Tensor) -> torch.Tensor:
        return torch.randint(-8, 9, t.shape, generator=generator) / 4

    found = [torch.complex(quarters(t), quarters(t)) if t.is_complex() else quarters(t) for t in outputs]
    return [c.to(t.dtype).to(t.device) for c, t in zip(found, outputs, strict=True)]


def sharing(arguments: object, results: object) -> list[tuple[list[bool], int, bool]]:
    """For each result, return which arguments share its storage, its storage offset, and whether it is a view."""
    strided = [t for t in tensors(arguments) if t.layout == torch.strided]
    outputs = [r for r in tensors(results) if r.layout == torch.strided]
    shared = [(r, [storage(r) == storage(a) for a in strided]) for r in outputs]
    return [(which, r.storage_offset(), any(which) and r._is_view()) for r, which in shared]


def without_order(op: OpInfo, sample: SampleInput, results: object, *, selects: bool) -> object:
    """Make results independent of the order of equal elements.

    If `selects` is set, replace the returned indices by the elements they select. Otherwise, replace gradients by their
    plain and weighted sums.
    """
    if op.name not in TIES or sample.kwargs.get("stable"):
        return results
    dim_index, x = TIES[op.name], sample.input.detach()
    dim_argument = sample.args[dim_index] if dim_index is not None and dim_index < len(sample.args) else None
    dim = 0 if op.name == "msort" else sample.kwargs.get("dim", -1 if dim_argument is None else dim_argument)
    keeps = sample.kwargs.get("keepdim", len(sample.args) > 2 and sample.args[2]) or op.name != "kthvalue"

    def selected(index: torch.Tensor) -> torch.Tensor:
        own = x.to(index.device)
        if own.dim() == 0:
            return own[None][index]
        return own.gather(dim, index) if keeps else own.gather(dim, index.unsqueeze(dim)).squeeze(dim)

    if not selects:
        return [t.double().sum(dim) for g in results for t in (g, g * x.to(g.device))] if x.dim() else results
    found = [selected(t) if i == 1 or op.name == "argsort" else t for i, t in enumerate(tensors(results))]
    return found if op.name != "msort" else results


def check_forward(op: OpInfo, dtype: torch.dtype, count: int | None, watch: Watch = nullcontext) -> int:
    """Compare results and aliasing. Return the number of samples compared."""
    compared = 0
    for sample in samples(op, dtype, count):
        cpu, device = on_cpu(sample), on_device(op, sample)
        try:
            expected = call(op, cpu)
        except Exception:  # the CPU rejects the sample
            continue
        with watch():
            got = call(op, device)
        expected, got = (without_order(op, sample, r, selects=True) for r in (expected, got))
        assert_same(expected, got, values=comparable(op, dtype), on=DEVICE if names_device(device) else "cpu",
                    exact=lambda s=sample: call(op, in_double(on_cpu(s))))  # fmt: skip
        if op_id(op) in RANDOM:
            torch.testing.assert_close(call(op, on_device(op, sample)), got, rtol=0, atol=0, equal_nan=True)
        assert sharing(device, got) == sharing(cpu, expected)
        compared += 1
    return compared


def leaves_of(op: OpInfo, sample: SampleInput, arguments: Arguments) -> tuple[Tensors, Tensors]:
    """Return the outputs, and the inputs that require grad."""
    result = sample.output_process_fn_grad(call(op, arguments))
    outputs = [t for t in tensors(result) if t.requires_grad]
    # Replace each non-strided output by its sum, because the layout of its gradient is not defined.
    outputs = [t if t.layout == torch.strided and not t.is_nested else t.sum() for t in outputs]
    return outputs, [t for t in tensors(arguments) if t.requires_grad]


Gradients = tuple[torch.Tensor | None, ...]


def gradients(op: OpInfo, sample: SampleInput, arguments: Arguments, watch: Watch = nullcontext) -> Gradients:
    """Return the gradients of all outputs with respect to all inputs, or () if nothing is differentiable."""
    outputs, inputs = leaves_of(op, sample, arguments)
    if not outputs or not inputs:
        return ()
    weights = cotangents(outputs, 2)
    seed(2)
    with watch():
        return torch.autograd.grad(outputs, inputs, weights, allow_unused=True)


def second_gradients(op: OpInfo, sample: SampleInput, arguments: Arguments, watch: Watch = nullcontext) -> Gradients:
    """Return the second derivatives with respect to inputs and cotangents, or () if there are none."""
    outputs, inputs = leaves_of(op, sample, arguments)
    if not outputs or not inputs:
        return ()
    weights = [c.requires_grad_() for c in cotangents(outputs, 2)]
    seed(2)
    first = torch.autograd.grad(outputs, inputs, weights, create_graph=True, allow_unused=True)
    first = [g for g in first if g is not None and g.requires_grad and g.layout == torch.strided]
    if not first:
        return ()
    again = cotangents(first, 3)
    with watch():
        return torch.autograd.grad(first, [*inputs, *weights], again, allow_unused=True)


def tangents(op: OpInfo, sample: SampleInput, arguments: Arguments, watch: Watch = nullcontext) -> Gradients:
    """Return the forward-mode derivatives of the outputs in one direction, or () if there are none."""
    inputs = [t for t in tensors(arguments) if t.requires_grad]
    direction = dict(zip(map(id, inputs), cotangents(inputs, 4), strict=True))
    with forward_ad.dual_level(), watch():
        dual = tree_map(
            lambda t: forward_ad.make_dual(t.detach(), direction[id(t)]) if id(t) in direction else t, arguments
        )
        result = sample.output_process_fn_grad(call(op, dual))
        found = [forward_ad.unpack_dual(t).tangent for t in tensors(result) if t.is_floating_point() or t.is_complex()]
    return () if all(t is None for t in found) else tuple(found)


Derivatives = Callable[[OpInfo, SampleInput, Arguments, Watch], Gradients]


def check_derivatives(derivatives: Derivatives, op: OpInfo, dtype: torch.dtype, count: int | None,
                      watch: Watch = nullcontext) -> int:  # fmt: skip
    """Compare derivatives. Return the number of samples that have any."""
    compared = 0
    for sample in samples(op, dtype, count, requires_grad=True):
        try:
            expected = derivatives(op, sample, on_cpu(sample), nullcontext)
        except Exception:  # the CPU rejects the sample
            continue
        if not expected:
            continue
        got = derivatives(op, sample, on_device(op, sample), watch)
        assert [g is None for g in got] == [g is None for g in expected]
        present = [i for i, e in enumerate(expected) if e is not None]

        def exact(sample: SampleInput = sample, present: list[int] = present) -> Tensors:
            right = derivatives(op, sample, in_double(on_cpu(sample)), nullcontext)
            return [right[i] for i in present]

        pairs = [[g[i] for i in present] for g in (expected, got)]
        if op.name in TIES and derivatives is gradients:
            pairs, exact = [without_order(op, sample, p, selects=False) for p in pairs], None
        assert_same(*pairs, values=comparable(op, dtype), strides=False, exact=exact, derivative=True)
        compared += 1
    return compared


def check_backward(op: OpInfo, dtype: torch.dtype, count: int | None, watch: Watch = nullcontext) -> int:
    return check_derivatives(gradients, op, dtype, count, watch)


def check_double_backward(op: OpInfo, dtype: torch.dtype, count: int | None, watch: Watch = nullcontext) -> int:
    return check_derivatives(second_gradients, op, dtype, count, watch)


def check_forward_mode(op: OpInfo, dtype: torch.dtype, count: int | None, watch: Watch = nullcontext) -> int:
    return check_derivatives(tangents, op, dtype, count, watch)
