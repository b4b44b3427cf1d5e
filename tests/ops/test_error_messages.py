"""Errors and warnings have the same text as PyTorch's. PyTorch's tests match this text, and users search for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from small_tensors import ones, t, zeros

pytestmark = pytest.mark.usefixtures("silent_fallback")

Call = Callable[[str], object]


def test_error_messages() -> None:
    x, on_cpu = ones("mpsx", torch.float32, 2, 3).requires_grad_(), ones("cpu")
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Int"):
        torch.mean(x.detach(), 0, out=zeros("mpsx", torch.int32))
    with pytest.raises(RuntimeError, match=r"negative slope which is not supported.*call out-of-place version"):
        F.elu_(x * 1, -2).sum().backward()
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        F.batch_norm(x, on_cpu, on_cpu)
    with pytest.raises(RuntimeError, match=r"negative slope which is not supported.*call out-of-place version"):
        F.leaky_relu_(x * 1, -2).sum().backward()
    for loss in (F.multi_margin_loss, F.multilabel_margin_loss):
        with pytest.raises(RuntimeError, match="Expected non-empty vector or matrix"):
            loss(zeros("mpsx", torch.float32, 2, 0), zeros("mpsx", torch.int64, 2, 0))
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(x.detach(), 3, 5, 1)


def test_indices_on_another_device_raise() -> None:
    with pytest.raises(RuntimeError, match=r"indices should be either on .* \(cpu\)"):
        ones("cpu")[t([0], "mpsx")]
    with pytest.raises(RuntimeError, match=r"indices should be either on .* \(cpu\)"):
        ones("cpu")[t([0], "mpsx")] = 2.0


def test_put_with_overlapping_memory_raises() -> None:
    index, x = t([2, 1, 0], "mpsx"), ones("mpsx", torch.float32, 6)
    for call in (
        lambda: index.put_(index, index.clone()),
        lambda: index.put_(index.clone(), index),
        lambda: x.put_(index, x[:3]),
        lambda: x[:1].expand(6).put_(index, x[:3].clone()),
    ):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            call()


@pytest.mark.parametrize("name", ["max", "min", "mode", "median", "nanmedian"])
def test_wrong_out_dtypes_are_named(name: str) -> None:
    for values, indices, wrong in (("int32", "int64", "values"), ("float32", "float64", "indices")):
        out = tuple(zeros("mpsx", getattr(torch, type_), 2) for type_ in (values, indices))
        with pytest.raises(RuntimeError, match=f"{name}: expected scalar type .* but got .* for {wrong}"):
            getattr(torch, name)(ones("mpsx", torch.float32, 2, 3), 1, out=out)


def scalar_index(d: str) -> torch.Tensor:
    return zeros(d, torch.long, 1)[0]


WRONG_CALLS: dict[str, Call] = {
    "gelu": lambda d: F.gelu(ones(d), approximate="other"),
    "aminmax": lambda d: torch.aminmax(ones(d), dim=0, out=(t(0.0, d), t(0, d))),
    "histogramdd": lambda d: torch.histogramdd(ones(d, torch.float32, 3, 3), [1, 2]),
    "nonzero_static": lambda d: torch.nonzero_static(ones(d), size=2, out=ones(d)),
    "heaviside": lambda d: torch.heaviside(ones(d), ones(d), out=zeros(d, torch.complex64)),
    "aminmax overlapping": lambda d: torch.aminmax(x := ones(d), dim=0, out=(x[0], x[1])),
    "kthvalue overlapping": lambda d: torch.kthvalue(x := ones(d), 2, out=(x[0], scalar_index(d))),
    "kthvalue in place": lambda d: torch.kthvalue(x := ones(d, torch.float32, 1), 1, out=(x[0], scalar_index(d))),
    "mode overlapping": lambda d: torch.mode(x := ones(d), 0, out=(x[0], scalar_index(d))),
    "max overlapping": lambda d: torch.max(x := ones(d), 0, out=(x[0], scalar_index(d))),
    "topk overlapping": lambda d: torch.topk(x := ones(d), 2, out=(x[:2], zeros(d, torch.long, 2))),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_error_messages_match_the_cpu(name: str) -> None:
    messages = []
    for device in ("cpu", "mpsx"):
        with pytest.raises(RuntimeError) as caught:
            WRONG_CALLS[name](device)
        messages.append(str(caught.value).partition("\n")[0])
    assert messages[0] == messages[1]


@pytest.mark.filterwarnings("always")
def test_warnings_match_the_cpu() -> None:
    variances = [torch.var, torch.std, torch.var_mean, torch.std_mean]
    calls: list[Call] = [
        *[lambda d, f=f: f(ones(d, torch.half, 2, 3), 1, correction=3) for f in variances],
        *[lambda d, f=f: f(ones(d), correction=3) for f in variances],
        *[lambda d, f=f: f(ones(d, torch.float32, 2, 0), 1) for f in variances],
        *[lambda d, f=f: f(ones(d)[:0].reshape(0, 3), 1) for f in variances],
        lambda d: ones(d)[t([1, 0, 1], d, torch.uint8)],
        lambda d: ones(d, torch.float32, 2, 2)[t([1, 0], d, torch.uint8), t([1, 0], d, torch.uint8)],
        lambda d: ones(d).index_put_((t([1, 0, 1], d, torch.uint8),), ones(d, torch.float32, 2), accumulate=True),
    ]
    for call in calls:
        messages = []
        for device in ("cpu", "mpsx"):
            with warnings.catch_warnings(record=True) as caught:
                call(device)
            messages.append([str(w.message).partition(" (Triggered")[0] for w in caught])
        assert messages[0] == messages[1] != []
