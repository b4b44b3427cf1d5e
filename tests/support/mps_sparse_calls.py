"""Calls for every overload that has a sparse COO kernel in PyTorch's MPS backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from mps_operators import overload

aten = torch.ops.aten
LIST = Path(__file__).with_name("mps_sparse_operators.txt")
Call = Callable[[str], object]

INDICES = torch.tensor([[0, 1, 1], [2, 0, 2]])
OPTIONS = {"dtype": torch.float32, "layout": torch.sparse_coo}


def coo(device: str, coalesced: bool = True, size: tuple[int, ...] = (2, 3)) -> torch.Tensor:
    """Return a sparse tensor with three elements between 0 and 1."""
    made = torch.sparse_coo_tensor(INDICES, torch.tensor([0.25, 0.5, 0.75]), size)
    return made.coalesce().to(device) if coalesced else made.to(device)


def square(device: str) -> torch.Tensor:
    """Return a sparse 3x3 matrix with three elements."""
    return coo(device, size=(3, 3))


def dense(device: str, *size: int) -> torch.Tensor:
    """Return a dense tensor of distinct positive numbers."""
    count = torch.Size(size).numel()
    return (torch.arange(1, count + 1, dtype=torch.float32) / count).view(size).to(device)


def result(device: str) -> torch.Tensor:
    """Return an empty sparse 2x3 tensor for out=."""
    return torch.empty(2, 3, device=device, layout=torch.sparse_coo)


def complex_coo(device: str) -> torch.Tensor:
    """Return a sparse tensor with three complex elements."""
    return torch.sparse_coo_tensor(INDICES, torch.tensor([1 + 2j, 3 - 1j, 0.5j]), (2, 3)).coalesce().to(device)


def pairs(device: str) -> torch.Tensor:
    """Return pairs of real numbers, which view_as_complex accepts."""
    return aten.view_as_real(complex_coo(device))


def broadcast_row(device: str) -> torch.Tensor:
    """Return a sparse 1x3 row."""
    return torch.sparse_coo_tensor([[0, 0], [0, 2]], [1.0, 2.0], (1, 3)).coalesce().to(device)


def stack_of_matrices(device: str) -> torch.Tensor:
    """Return a sparse tensor that contains two 3x3 matrices."""
    return torch.sparse_coo_tensor([[0, 1, 1], [0, 1, 2], [2, 0, 1]], [1.0, 2.0, 3.0], (2, 3, 3)).coalesce().to(device)


def softmax_backward(name: str) -> Call:
    """Return a call of a softmax backward function. The gradient has the same sparsity as the output."""
    forward = getattr(aten, name).default
    backward = getattr(aten, f"{name}_backward_data")

    def call(d: str) -> object:
        output = forward(coo(d), 1, False)
        return backward(coo(d), output, 1, coo(d))

    return call


def rejected(call: Call) -> Call:
    """Wrap a call that PyTorch rejects on every device. The wrapper returns its error message."""

    def message(d: str) -> object:
        try:
            return call(d)
        except RuntimeError as error:
            return str(error)

    return message


CALLS: dict[str, Call] = {
    "_coalesce": lambda d: aten._coalesce(coo(d, coalesced=False)),
    "_coalesced_": lambda d: aten._coalesced_(coo(d, coalesced=False), True),
    "_sparse_broadcast_to": lambda d: aten._sparse_broadcast_to(broadcast_row(d), [2, 3]),
    "_sparse_coo_tensor_with_dims": lambda d: aten._sparse_coo_tensor_with_dims(2, 0, [2, 3], device=d, **OPTIONS),
    "_sparse_coo_tensor_with_dims_and_tensors": lambda d: aten._sparse_coo_tensor_with_dims_and_tensors(
        2, 0, [2, 3], INDICES.to(d), dense(d, 3), device=d, **OPTIONS),
    "_sparse_log_softmax": lambda d: aten._sparse_log_softmax.default(coo(d), 1, False),
    "_sparse_softmax": lambda d: aten._sparse_softmax.default(coo(d), 1, False),
    "_sparse_log_softmax_backward_data": softmax_backward("_sparse_log_softmax"),
    "_sparse_softmax_backward_data": softmax_backward("_sparse_softmax"),
    "_sparse_mask_projection": lambda d: aten._sparse_mask_projection(coo(d), coo(d)),
    "_sparse_sparse_matmul": lambda d: aten._sparse_sparse_matmul(coo(d), square(d)),
    "_sparse_sum_backward": lambda d: aten._sparse_sum_backward(aten._to_sparse(dense(d, 2)), coo(d), [1]),
    "_to_sparse": lambda d: aten._to_sparse(dense(d, 2, 3)),
    "_to_sparse.sparse_dim": lambda d: aten._to_sparse.sparse_dim(dense(d, 2, 3), 2),
    "addmm": lambda d: aten.addmm(dense(d, 2, 4), coo(d), dense(d, 3, 4)),
    "addmm.out": lambda d: aten.addmm.out(dense(d, 2, 4), coo(d), dense(d, 3, 4), out=dense(d, 2, 4)),
    "mm": lambda d: aten.mm(coo(d), dense(d, 3, 4)),
    "mm.out": lambda d: aten.mm.out(coo(d), dense(d, 3, 4), out=dense(d, 2, 4)),
    "mv": lambda d: aten.mv(coo(d), dense(d, 3)),
    "bmm": lambda d: aten.bmm(stack_of_matrices(d), dense(d, 2, 3, 4)),
    "bmm.out": lambda d: aten.bmm.out(stack_of_matrices(d), dense(d, 2, 3, 4), out=dense(d, 2, 3, 4)),
    "cat": lambda d: aten.cat([coo(d), coo(d)], 1),
    "conj_physical.out": lambda d: aten.conj_physical.out(complex_coo(d), out=complex_coo(d)),
    "copy_": lambda d: aten.copy_(coo(d), coo(d, coalesced=False)),
    "copy_sparse_to_sparse_": lambda d: aten.copy_sparse_to_sparse_(coo(d), coo(d)),
    "empty.memory_format": lambda d: aten.empty.memory_format([2, 3], device=d, **OPTIONS),
    "index_select": lambda d: aten.index_select(coo(d), 1, torch.tensor([2, 0], device=d)),
    "narrow_copy": lambda d: aten.narrow_copy(coo(d), 1, 1, 2),
    "norm.ScalarOpt_dim": lambda d: aten.norm.ScalarOpt_dim(coo(d), 2, [0, 1], False),
    "norm.ScalarOpt_dim_dtype": rejected(
        lambda d: aten.norm.ScalarOpt_dim_dtype(coo(d), 2, [0, 1], False, dtype=torch.float32)),
    "native_norm.ScalarOpt_dim_dtype": lambda d: aten.native_norm.ScalarOpt_dim_dtype(coo(d), 2, [0, 1], False, None),
    "permute": lambda d: aten.permute(coo(d), [1, 0]),
    "sparse_mask": lambda d: aten.sparse_mask(dense(d, 2, 3), coo(d)),
    "sparse_resize_": lambda d: aten.sparse_resize_(coo(d), [4, 3], 2, 0),
    "sparse_resize_and_clear_": lambda d: aten.sparse_resize_and_clear_(coo(d), [4, 3], 2, 0),
    "sum.dim_IntList": lambda d: aten.sum.dim_IntList(coo(d), [0]),
    "unsqueeze": lambda d: aten.unsqueeze(coo(d), 0),
    "view_as_complex": lambda d: aten.view_as_complex(pairs(d)),
    "view_as_real": lambda d: aten.view_as_real(complex_coo(d)),
    "zeros.out": lambda d: aten.zeros.out([2, 3], out=result(d)),
}  # fmt: skip


def read_list() -> list[str]:
    """Return the names of the overloads, such as "add.out"."""
    return [line for line in LIST.read_text().splitlines() if not line.startswith("#")]


def call_of(name: str) -> Call:
    """Return the call in CALLS. If there is none, pass a sparse tensor for every required tensor and 2 for every
    required number."""
    if name in CALLS:
        return CALLS[name]
    function = overload(name)
    assert function is not None
    modes = {"rounding_mode": "floor"}

    def call(d: str) -> object:
        positional, named = [], {}
        for argument in function._schema.arguments:
            if argument.kwarg_only and argument.alias_info:
                boolean = name.partition(".")[0] in ("isneginf", "isposinf", "signbit")
                named[argument.name] = result(d).bool() if boolean else result(d)
            elif argument.name in modes:
                named[argument.name] = modes[argument.name]
            elif argument.has_default_value():
                continue
            elif str(argument.type) == "Tensor":
                # PyTorch divides sparse tensors only by scalars.
                divisor = name.startswith(("div", "floor_divide")) and positional
                positional.append(torch.tensor(2.0, device=d) if divisor else coo(d))
            else:
                positional.append(2)
        return function(*positional, **named)

    return call
