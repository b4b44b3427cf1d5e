"""Every OpInfo of torch's on mpsx against the CPU: forward, backward, aliasing, in-place, out=."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from .common import (
    BUFFERS_BY_DEVICE_NAME,
    DEVICE,
    OPS,
    RANDOM,
    UNINITIALISED,
    assert_same,
    call,
    gradients,
    has_backward,
    in_double,
    main_dtype,
    names_device,
    on_cpu,
    on_device,
    op_id,
    samples,
    storage,
    tensors,
)

pytestmark = [
    pytest.mark.usefixtures("silent_fallback"),
    pytest.mark.filterwarnings("ignore"),  # OpInfo samples exercise deprecated forms on purpose
    # A result of our own making that a CPU kernel had to resize.
    pytest.mark.filterwarnings("error:An output with one or more elements was resized"),
]

FEW = 2
SWEEP_DTYPES = (
    torch.int64, torch.bool, torch.uint8, torch.bfloat16, torch.float16, torch.float64, torch.complex64,
)  # fmt: skip

# No sample has an output that depends, differentiably, on a floating-point input.
NO_GRADIENT = {"empty_like", "new_empty", "normal.number_mean"}

all_ops = pytest.mark.parametrize("op", OPS, ids=op_id)
differentiable_ops = pytest.mark.parametrize(
    "op", [op for op in OPS if has_backward(op, main_dtype(op))], ids=op_id
)
in_place_ops = pytest.mark.parametrize("op", [op for op in OPS if op.get_inplace() is not None], ids=op_id)
out_ops = pytest.mark.parametrize("op", [op for op in OPS if op.supports_out], ids=op_id)


def comparable(op: OpInfo, dtype: torch.dtype) -> bool:
    """Whether values are the CPU's."""
    if dtype in (torch.float16, torch.bfloat16) and op_id(op) in BUFFERS_BY_DEVICE_NAME:
        return False
    return op_id(op) not in RANDOM and op.name not in UNINITIALISED


def check_forward(op: OpInfo, dtype: torch.dtype, count: int | None) -> None:
    """Results, and which results share a storage with which arguments."""
    for sample in samples(op, dtype, count):
        cpu, device = on_cpu(sample), on_device(op, sample)
        try:
            expected = call(op, cpu)
        except Exception:  # a sample that the CPU refuses
            continue
        got = call(op, device)
        assert_same(expected, got, values=comparable(op, dtype), on=DEVICE if names_device(device) else "cpu",
                    exact=lambda s=sample: call(op, in_double(on_cpu(s))))  # fmt: skip
        if op_id(op) in RANDOM:
            torch.testing.assert_close(call(op, on_device(op, sample)), got, rtol=0, atol=0, equal_nan=True)

        def sharing(arguments: object, results: object) -> list[tuple[list[bool], int, bool]]:
            strided = [t for t in tensors(arguments) if t.layout == torch.strided]
            outputs = [r for r in tensors(results) if r.layout == torch.strided]
            shared = [(r, [storage(r) == storage(a) for a in strided]) for r in outputs]
            return [(which, r.storage_offset(), any(which) and r._is_view()) for r, which in shared]

        assert sharing(device, got) == sharing(cpu, expected)


def check_backward(op: OpInfo, dtype: torch.dtype, count: int | None) -> int:
    """Gradients; returns for how many samples there were any."""
    compared = 0
    for sample in samples(op, dtype, count, requires_grad=True):
        try:
            expected = gradients(op, sample, on_cpu(sample))
        except Exception:  # a sample that the CPU refuses
            continue
        if not expected:
            continue
        got = gradients(op, sample, on_device(op, sample))
        assert [g is None for g in got] == [g is None for g in expected]
        present = [i for i, e in enumerate(expected) if e is not None]

        def exact(sample: SampleInput = sample, present: list[int] = present) -> list[torch.Tensor]:
            right = gradients(op, sample, in_double(on_cpu(sample)))
            return [right[i] for i in present]

        pairs = [expected[i] for i in present], [got[i] for i in present]
        assert_same(*pairs, values=comparable(op, dtype), strides=False, exact=exact)
        compared += 1
    return compared


@all_ops
def test_forward(op: OpInfo) -> None:
    check_forward(op, main_dtype(op), FEW)


@differentiable_ops
def test_backward(op: OpInfo) -> None:
    compared = check_backward(op, main_dtype(op), FEW)
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
        except Exception:  # a sample that does not fit in place (broadcasting, promotion)
            continue
        before = storage(device[0])
        got = call(in_place, device)
        assert got is device[0]
        assert storage(got) == before
        assert got._version == expected._version
        assert_same(expected, got, values=comparable(op, main_dtype(op)))


def packed_like(like: object, outs: list[torch.Tensor]) -> object:
    """What out= takes for a result like that: a tensor or a tuple."""
    return outs[0] if isinstance(like, torch.Tensor) else tuple(outs)


@out_ops
def test_out(op: OpInfo) -> None:
    for sample in samples(op, main_dtype(op), FEW):
        try:
            like = call(op, on_cpu(sample))
            outs = [like] if isinstance(like, torch.Tensor) else list(like)
            cpu = [torch.empty(0, dtype=t.dtype) for t in outs]
            call(op, on_cpu(sample), out=packed_like(like, cpu))
        except Exception:  # a sample that the CPU refuses
            continue
        device = [torch.empty(0, dtype=t.dtype, device=DEVICE) for t in outs]
        before = [storage(t) for t in device]
        call(op, on_device(op, sample), out=packed_like(like, device))
        assert [storage(t) for t in device] == before
        assert_same(cpu, device, values=comparable(op, main_dtype(op)))


@pytest.mark.sweep
@all_ops
def test_all_samples(op: OpInfo) -> None:
    dtype = main_dtype(op)
    check_forward(op, dtype, None)
    if has_backward(op, dtype):
        check_backward(op, dtype, None)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", SWEEP_DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@all_ops
def test_dtype(op: OpInfo, dtype: torch.dtype) -> None:
    if dtype in op.supported_dtypes("cpu"):
        check_forward(op, dtype, FEW)
