"""Compare every OpInfo with the CPU: forward, backward, aliasing, in-place and out=."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
from torch.testing._internal.opinfo.core import OpInfo

from .checks import check_backward, check_double_backward, check_forward, check_forward_mode
from .committed import still_runs
from .common import (
    DEVICE,
    OPS,
    assert_same,
    backward_dtypes,
    call,
    comparable,
    error_samples,
    forward_dtypes,
    has_backward,
    in_double,
    main_dtype,
    on_cpu,
    on_device,
    op_id,
    samples,
    storage,
    tensors,
)

pytestmark = [
    pytest.mark.usefixtures("silent_fallback"),
    pytest.mark.filterwarnings("ignore"),  # OpInfo samples use deprecated arguments on purpose
    # Fail if a CPU kernel resizes a result that mpsx allocated.
    pytest.mark.filterwarnings("error:An output with one or more elements was resized"),
]

FEW = 2
SOME = 6
# Operators for which no sample has a differentiable output.
NO_GRADIENT = {"empty_like", "new_empty", "normal.number_mean"}

# These results are small differences of large terms, so neither device has correct digits in float32.
CANCELLING = {"cov": "the gradient of aweights", "linalg.householder_product": "second gradients"}
CANCELLING_TWICE = {"polar": "the second gradients of the sign, differences of terms fifty times as large"}

all_ops = pytest.mark.parametrize("op", OPS, ids=op_id)
differentiable_ops = pytest.mark.parametrize(
    "op", [op for op in OPS if has_backward(op, main_dtype(op))], ids=op_id
)
in_place_ops = pytest.mark.parametrize("op", [op for op in OPS if op.get_inplace() is not None], ids=op_id)
out_ops = pytest.mark.parametrize("op", [op for op in OPS if op.supports_out], ids=op_id)


@all_ops
def test_forward(op: OpInfo) -> None:
    dtype = main_dtype(op)
    with still_runs(op_id(op), "forward", dtype) as watch:
        check_forward(op, dtype, FEW, watch)


@differentiable_ops
def test_backward(op: OpInfo) -> None:
    dtype = main_dtype(op)
    with still_runs(op_id(op), "backward", dtype) as watch:
        compared = check_backward(op, dtype, FEW, watch)
    assert compared > 0 or op_id(op) in NO_GRADIENT


@in_place_ops
def test_in_place(op: OpInfo) -> None:
    in_place = op.get_inplace()
    for sample in samples(op, main_dtype(op), FEW):
        cpu, device = on_cpu(sample), on_device(op, sample)
        if not isinstance(cpu[0], torch.Tensor):
            continue
        try:
            expected = call(in_place, cpu)
        except Exception:  # the sample broadcasts or promotes, so it cannot run in place
            continue
        before = storage(device[0])
        got = call(in_place, device)
        assert got is device[0]
        assert storage(got) == before
        assert got._version == expected._version
        assert_same(expected, got, values=comparable(op, main_dtype(op)),
                    exact=lambda s=sample: call(op, in_double(on_cpu(s))))  # fmt: skip


def tensor_list(result: object) -> list[torch.Tensor]:
    """Convert a tensor or a tuple of tensors to a list."""


def packed_like(like: object, outs: list[torch.Tensor]) -> object:
    """Arrange the out= tensors like the result: a single tensor or a tuple."""
    return outs[0] if isinstance(like, torch.Tensor) else tuple(outs)


@out_ops
def test_out(op: OpInfo) -> None:
    for sample in samples(op, main_dtype(op), FEW):
        try:
            like = call(op, on_cpu(sample))
            outs = tensor_list(like)
            cpu = [torch.empty(0, dtype=t.dtype) for t in outs]
            call(op, on_cpu(sample), out=packed_like(like, cpu))
        except Exception:  # the CPU rejects the sample
            continue
        device = [torch.empty(0, dtype=t.dtype, device=DEVICE) for t in outs]
        before = [storage(t) for t in device]
        call(op, on_device(op, sample), out=packed_like(like, device))
        assert [storage(t) for t in device] == before
        assert_same(cpu, device, values=comparable(op, main_dtype(op)),
                    exact=lambda s=sample: tensor_list(call(op, in_double(on_cpu(s)))))  # fmt: skip


# Operators that raise IndexError for an out-of-range dimension, as narrow does.
INDEX_ERRORS = {"narrow_copy"}


@pytest.mark.parametrize("op", [op for op in OPS if op.error_inputs_func is not None], ids=op_id)
def test_errors(op: OpInfo) -> None:
    """Operators raise the same error type on mpsx as on the CPU."""
    for wrong in error_samples(op):
        sample = wrong.sample_input
        if any(t.is_meta for t in tensors((sample.input, sample.args, sample.kwargs))):
            continue  # meta tensors cannot be copied to a device
        try:
            call(op, on_cpu(sample))
        except Exception as error:
            types = (type(error), IndexError) if op.name in INDEX_ERRORS else type(error)
            with pytest.raises(types):
                call(op, on_device(op, sample))
                torch.mpsx.synchronize()


@pytest.mark.sweep
@all_ops
def test_all_samples(op: OpInfo) -> None:
    dtype = main_dtype(op)
    check_forward(op, dtype, None)
    if has_backward(op, dtype) and op_id(op) not in CANCELLING:
        check_backward(op, dtype, None)


def with_dtypes(dtypes: Callable[[OpInfo], Iterable[torch.dtype]]) -> pytest.MarkDecorator:
    """Parametrize over every OpInfo and each of its dtypes."""
    pairs = [(op, dtype) for op in OPS for dtype in sorted(dtypes(op), key=str)]
    ids = [f"{op_id(op)}-{str(dtype).removeprefix('torch.')}" for op, dtype in pairs]
    return pytest.mark.parametrize(("op", "dtype"), pairs, ids=ids)


def higher_order(op: OpInfo, *, twice: bool) -> set[torch.dtype]:
    """Return the dtypes to compare higher derivatives in. PyTorch's own tests use only float64."""
    cancels = op_id(op) in CANCELLING or (twice and op_id(op) in CANCELLING_TWICE)
    single = set() if cancels else {torch.float32, torch.complex64}
    return single | {torch.float64, torch.complex128}


@pytest.mark.sweep
@with_dtypes(forward_dtypes)
def test_dtype_forward(op: OpInfo, dtype: torch.dtype) -> None:
    check_forward(op, dtype, SOME)


@pytest.mark.sweep
@with_dtypes(backward_dtypes)
def test_dtype_backward(op: OpInfo, dtype: torch.dtype) -> None:
    check_backward(op, dtype, SOME)


@pytest.mark.sweep
@with_dtypes(lambda op: backward_dtypes(op) & higher_order(op, twice=True) if op.supports_gradgrad else ())
def test_double_backward(op: OpInfo, dtype: torch.dtype) -> None:
    check_double_backward(op, dtype, SOME)


@pytest.mark.sweep
@with_dtypes(lambda op: backward_dtypes(op) & higher_order(op, twice=False) if op.supports_forward_ad else ())
def test_forward_mode(op: OpInfo, dtype: torch.dtype) -> None:
    check_forward_mode(op, dtype, SOME)
