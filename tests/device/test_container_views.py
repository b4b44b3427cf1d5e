"""Nested, sparse and quantized results have the same autograd and inference-mode state as on the CPU.

If the dispatch key AutogradNestedTensor is missing, the next operator on a nested tensor selects the wrong autograd
kernel. Autograd cannot track a view whose inference-mode state differs from that of its base.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves

pytestmark = [pytest.mark.usefixtures("silent_fallback"), pytest.mark.filterwarnings("ignore")]

PARTS = tuple(torch.arange(float(n * 4)).view(n, 4) / 7 - 1 for n in (2, 5, 1))
Make = Callable[[str], torch.Tensor]


def nested(d: str) -> torch.Tensor:
    return torch.nested.nested_tensor([p.to(d) for p in PARTS])


def dense(d: str) -> torch.Tensor:
    return (torch.arange(24.0).view(4, 6) / 5 - 2).to(d)


MAKERS: dict[str, Make] = {
    "nested": nested,
    "jagged": lambda d: torch.nested.nested_tensor([p.to(d) for p in PARTS], layout=torch.jagged),
    "coo": lambda d: dense(d).relu().to_sparse(),
    "csr": lambda d: dense(d).relu().to_sparse_csr(),
    "csc": lambda d: dense(d).relu().to_sparse_csc(),
    "bsr": lambda d: dense(d).relu().to_sparse_bsr((2, 3)),
    "quantized": lambda d: torch.quantize_per_tensor(dense(d), 0.1, 10, torch.quint8),
    "per_channel": lambda d: torch.quantize_per_channel(dense(d), torch.full((4,), 0.1, device=d), torch.zeros(
        4, dtype=torch.long, device=d), 0, torch.qint8),
    "dense": dense,
}  # fmt: skip

# Views, copies, in-place operators and out=. A call must raise on mpsx exactly if it raises on the CPU.
CALLS: dict[str, Callable[[torch.Tensor], object]] = {
    "select": lambda x: x[0],
    "select_dim": lambda x: x.select(1, 0),
    "slice": lambda x: x[1:],
    "narrow": lambda x: x.narrow(-1, 0, 2),
    "unbind": lambda x: x.unbind(),
    "chunk": lambda x: x.chunk(2, -1),
    "transpose": lambda x: x.transpose(-1, -2),
    "t": lambda x: x.t(),
    "permute": lambda x: x.permute(1, 0),
    "contiguous": lambda x: x.transpose(-1, -2).contiguous(),
    "squeeze": lambda x: x.unsqueeze(-1).squeeze(-1),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "reshape": lambda x: x.reshape(-1),
    "reshape_last": lambda x: x.reshape(x.size(0), -1, 2, 2) if x.is_nested else x.reshape(2, -1),
    "view": lambda x: x.view(24),
    "view_same": lambda x: x.view(x.shape),
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(-1, (2, 2)),
    "expand": lambda x: x.expand(1, 4, 6),
    "as_strided": lambda x: x.as_strided((3,), (2,)),
    "detach": lambda x: x.detach(),
    "alias": torch.ops.aten.alias,
    "data": lambda x: x.data,
    "view_as": lambda x: x.view_as(x),
    "values": lambda x: x.values(),
    "indices": lambda x: (x._indices(), x._values()),
    "crow": lambda x: (x.crow_indices(), x.col_indices()),
    "int_repr": lambda x: x.int_repr(),
    "dequantize": lambda x: x.dequantize(),
    "clone": lambda x: x.clone(),
    "times": lambda x: x * 2,
    "plus_self": lambda x: x + x,
    "negative": lambda x: -x,
    "relu": torch.relu,
    "softmax": lambda x: torch.softmax(x, -1),
    "sum": lambda x: x.sum(),
    "to_dense": lambda x: x.to_dense(),
    "to_padded": lambda x: torch.nested.to_padded_tensor(x, 0.0),
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "linear": lambda x: F.linear(x, torch.ones(3, x.size(-1), device=x.device)),
    "zeros_like": torch.zeros_like,
    "times_": lambda x: x.clone().mul_(2),
    "relu_": lambda x: x.clone().relu_(),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.clone().copy_(x),
    "fill_": lambda x: x.fill_(1),
    "requires_grad_": lambda x: x.detach().requires_grad_(),
    "detach_": lambda x: x.detach_(),
    "neg_out": lambda x: torch.neg(x, out=torch.zeros_like(x)),
}
MODES = ("normal", "inference_outside", "inference_inside",
         *(pytest.param(mode, marks=pytest.mark.sweep) for mode in ("inference_only", "no_grad")))  # fmt: skip
BACKENDS = ("CPU", "PrivateUse1", "MPSX")


def outcome(make: Make, call: Callable[[torch.Tensor], object], mode: str, d: str) -> object:
    """Return the result of `call` on a container, or the exception. `mode` selects which steps run in inference
    mode."""
    try:
        with torch.inference_mode(mode in ("inference_outside", "inference_only")):
            x = make(d)
        with (
            torch.inference_mode(mode in ("inference_inside", "inference_only")),
            torch.set_grad_enabled(mode in ("normal", "inference_outside")),
        ):
            return call(x)
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
        return error


def keys(x: torch.Tensor) -> str:
    """Return the tensor's dispatch keys with the backend names removed."""
    text = str(torch._C._dispatch_keys(x))
    for name in BACKENDS:
        text = text.replace(name, "")
    return text


def values(x: torch.Tensor) -> list[torch.Tensor] | None:
    """Return the tensor's elements, or None if they cannot be read.

    Inference mode can only read component tensors that are inference tensors. Normal mode can only read those that are
    not. The container itself may be in either state.
    """
    for inside in (False, True):
        with contextlib.suppress(RuntimeError), torch.inference_mode(inside):
            if x.is_nested:
                return [t.detach().cpu() for t in x.detach().unbind()]
            return [x.int_repr().cpu() if x.is_quantized else x.detach().to_dense().cpu()]
    return None


def assert_same(got: object, want: object) -> None:
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert isinstance(want, Exception) and isinstance(got, Exception), f"got {got!r}, expected {want!r}"
        return
    for one, other in zip(tree_leaves(got), tree_leaves(want), strict=True):
        if not isinstance(other, torch.Tensor):
            assert one == other
            continue
        assert keys(one) == keys(other)
        assert one.is_inference() == other.is_inference()
        assert (one._base is None, one.requires_grad) == (other._base is None, other.requires_grad)
        torch.testing.assert_close(values(one), values(other))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", MAKERS)
def test_results(layout: str, mode: str) -> None:
    failures = []
    for name, call in CALLS.items():
        got, want = (outcome(MAKERS[layout], call, mode, d) for d in ("mpsx", "cpu"))
        try:
            assert_same(got, want)
        except AssertionError as difference:
            failures.append(f"{name}: {difference}")
    assert not failures, "\n".join(failures)
