"""Sparse COO tensors: values, dtypes, coalesced flags and errors, without CPU kernels."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from sparse_tensors import DTYPES, check, compare, coo, numbers, on_device
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_map

import mpsx

pytestmark = [
    pytest.mark.usefixtures("no_fallback"),
    pytest.mark.filterwarnings("ignore:Sparse (CSR|BSR|CSC|BSC|invariant)"),
]

SHAPES = {
    "matrix": lambda d: coo(6, 7, dtype=d),
    "coalesced": lambda d: coo(6, 7, dtype=d, coalesced=True),
    "hybrid": lambda d: coo(5, 4, 3, nnz=9, dtype=d),
    "vector": lambda d: coo(9, sparse_dim=1, dtype=d),
    "empty": lambda d: coo(6, 7, nnz=0, dtype=d),
    "one": lambda d: coo(6, 7, nnz=1, dtype=d),
    "no_sparse_dims": lambda d: coo(3, sparse_dim=0, nnz=4, dtype=d),
    "no_size": lambda d: coo(5, 0, sparse_dim=1, nnz=4, dtype=d),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_unary_operators(shape: str) -> None:
    for dtype in DTYPES:
        x = SHAPES[shape](dtype)
        for function in (
            torch.Tensor.coalesce,
            torch.Tensor.to_dense,
            torch.clone,
            torch.zeros_like,
            lambda t: (t._nnz(), t.sparse_dim(), t.dense_dim(), t.is_coalesced(), t.is_sparse),
            lambda t: t._indices(),
            lambda t: t._values(),
            lambda t: t.coalesce().values(),
            lambda t: torch.cat([t, t]),
            lambda t: torch.stack([t, t]),
            lambda t: t.unsqueeze(0),
            lambda t: t.to(torch.complex64),
            lambda t: t.clone().zero_(),
            lambda t: t.to_dense().to_sparse(),
        ):
            compare(function, x)


def test_coalesce_rounds_sums_once() -> None:
    """In bfloat16, 256 + 1 + 1 is 258, but it is 256 if each addition is rounded."""
    x = torch.sparse_coo_tensor([[3, 3, 3]], torch.tensor([256.0, 1.0, 1.0], dtype=torch.bfloat16), (5,))
    assert x.to("mpsx").coalesce().values().item() == 258


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arithmetic(dtype: torch.dtype) -> None:
    for coalesced in (True, False):
        x, y = coo(6, 7, dtype=dtype, coalesced=coalesced), coo(6, 7, nnz=20, dtype=dtype, coalesced=coalesced)
        h, k = coo(5, 4, 3, dtype=dtype, coalesced=coalesced), coo(5, 4, 3, nnz=20, dtype=dtype)
        dense, empty = numbers((6, 7), dtype), coo(6, 7, nnz=0, dtype=dtype)
        compare(torch.add, dense, x)
        compare(lambda a, b: a.clone().add_(b), dense, x)
        compare(lambda a, b: a.t().add(b), dense.t().contiguous(), x)
        if dtype is torch.bool:  # the CPU can only add sparse bool tensors to dense tensors
            continue
        for a, b in ((x, y), (y, x), (h, k), (k, h), (x, empty), (empty, x)):
            compare(torch.add, a, b)
        compare(lambda a, b: a.clone().add_(b), x, y)
        compare(lambda a, b: torch.add(a, b, alpha=3), x, y)
        compare(lambda a, b: torch.add(a, b, alpha=3), dense, x)
        compare(torch.sub, x, y)
        compare(lambda a, b: a.clone().sub_(b), x, y)
        for a, b in ((x, y), (y, x), (h, k), (x, empty), (empty, x), (x, dense), (dense, x), (x, dense[1])):
            compare(torch.mul, a, b)
        compare(lambda a: a * 3, x)
        compare(torch.neg, x)
        compare(lambda a, b: a.clone().mul_(b), x, y)
        compare(lambda a, b: torch.add(a, b, out=torch.empty_like(a)), x, y)
        compare(lambda a, b: torch.mul(a, b, out=torch.empty_like(a)), x, y)


def test_type_promotion() -> None:
    for a, b in ((torch.int32, torch.float32), (torch.bfloat16, torch.float32), (torch.int8, torch.int64)):
        x, y = coo(6, 7, dtype=a, coalesced=True), coo(6, 7, dtype=b, coalesced=True)
        for function in (torch.add, torch.mul):
            compare(function, x, y)
            compare(function, y.to_dense(), x) if function is torch.add else compare(function, x, y.to_dense())


def test_mul_ignores_infinities_without_a_counterpart() -> None:
    x = torch.sparse_coo_tensor([[0, 0, 1]], [float("inf"), 1.0, 2.0], (3,))
    y = torch.sparse_coo_tensor([[1, 1]], [5.0, 6.0], (3,))
    compare(torch.mul, x, y)
    assert (x.to("mpsx") * y.to("mpsx")).to_dense().tolist() == [0, 22, 0]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not torch.bool], ids=str)
def test_matmuls(dtype: torch.dtype) -> None:
    wide = dtype if dtype.is_complex else torch.float64  # in other dtypes, the CPU does not support every matmul
    for coalesced in (True, False):
        x, y = coo(6, 7, dtype=dtype, coalesced=coalesced), coo(7, 5, nnz=9, dtype=dtype, coalesced=coalesced)
        dense, bias = numbers((7, 130), dtype), numbers((6, 130), dtype)
        batches = coo(3, 4, 5, sparse_dim=3, nnz=20, dtype=dtype, coalesced=coalesced)
        matrices = numbers((3, 5, 2), dtype)
        for function, *arguments in (
            (torch.sparse.mm, x, dense),
            (torch.matmul, x, dense),
            (torch.matmul, x, dense[:, 0]),
            (torch.sparse.mm, x, dense[:, ::2]),
            (torch.sparse.mm, x, dense.t().contiguous().t()),
            (torch.sparse.mm, coo(6, 7, nnz=0, dtype=dtype), dense),
            (lambda c, a, b: torch.sparse.addmm(c, a, b, beta=3, alpha=2), bias, x, dense),
            (torch.addmm, bias[0], x, dense),
            (lambda c, a, b: c.clone().addmm_(a, b), bias, x, dense),
            (lambda c, a, b: torch.addmm(c, a, b, out=torch.empty_like(c)), bias, x, dense),
            (torch.bmm, batches, matrices),
            (torch.hspmm, x, dense),
            (torch.smm, x, dense),
            (lambda c, a, b: torch.sspaddmm(c, a, b, beta=2, alpha=3), coo(6, 130, dtype=dtype), x, dense),
            (torch.sparse.mm, x, y),
            (torch.sparse.mm, x, coo(7, 5, nnz=0, dtype=dtype)),
        ):
            got = function(*map(on_device, arguments))
            want = function(*(a.to(wide) for a in arguments))
            check(got, want.to(dtype))


def test_addmm_with_beta_0_ignores_the_input() -> None:
    nan = torch.full((6, 5), float("nan"), device="mpsx")
    x, dense = coo(6, 7).to("mpsx"), torch.randn(7, 5, device="mpsx")
    assert not torch.addmm(nan, x, dense, beta=0).isnan().any()


def test_sparse_mm_launches_a_kernel() -> None:
    with mpsx.profiler.launch_log() as log:
        torch.sparse.mm(coo(6, 7).to("mpsx"), torch.randn(7, 5, device="mpsx"))
    assert "kernel:embedding_bag_f32" in log


def test_matmul_with_out_of_range_indices_raises() -> None:
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        x = torch.sparse_coo_tensor([[0, 1], [1, 1]], [1.0, 1.0], (2, 2)).to("mpsx")
    x._indices()[1, 0] = 9
    with pytest.raises((RuntimeError, IndexError), match="9"):
        torch.sparse.mm(x, torch.ones(2, 2, device="mpsx")).cpu()


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_softmax(dim: int) -> None:
    for x in (coo(5, 4, 3, nnz=20), coo(5, 4, 3, nnz=0), coo(5, 4, 3, nnz=6, coalesced=True)):
        for function in (torch.sparse.softmax, torch.sparse.log_softmax):
            compare(lambda t, f=function: f(t, dim), x)
            half = function(x.bfloat16().to("mpsx"), dim).to(torch.float32).cpu()
            torch.testing.assert_close(half.to_dense(), function(x, dim).to_dense(), atol=0.02, rtol=0.02)
    special = torch.sparse_coo_tensor(
        [[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]], [-torch.inf, -torch.inf, 300.0, 400.0, torch.nan, 1.0], (3, 2)
    )
    compare(lambda t: torch.sparse.softmax(t, 1), special)


def test_selection_and_masks() -> None:
    for x in (coo(6, 7, 3), coo(6, 7, 3, coalesced=True), coo(6, 7, 3, nnz=0)):
        for dim, index in ((0, [1, 1, 4, -1]), (1, [0, 6, 0]), (2, [2, 0]), (0, []), (1, [5])):
            compare(lambda t, i, d=dim: t.index_select(d, i), x, torch.tensor(index, dtype=torch.long))
        for function in (
            lambda t: t[1],
            lambda t: t.select(1, 2),
            lambda t: t.select(2, 1),
            lambda t: t.narrow_copy(0, 1, 3),
            lambda t: t.transpose(0, 1),
            lambda t: t.permute(1, 0, 2),
            lambda t: t.sparse_resize_((8, 9, 3), 2, 1),
            lambda t: t.clone().sparse_resize_and_clear_((3, 4), 2, 0),
        ):
            compare(function, x.clone())
        for other in (
            torch.randn(6, 7, 3),
            coo(6, 7, 3, nnz=30),
            coo(6, 7, 3, nnz=30, coalesced=True),
            coo(6, 7, 3, nnz=0),
        ):
            compare(torch.Tensor.sparse_mask, other, x)
        for mask in (coo(6, 7, 3, nnz=30), coo(6, 7, 3, nnz=30, coalesced=True)):
            for accumulate in (False, True):
                got = torch.ops.aten._sparse_mask_projection(x.to("mpsx"), mask.to("mpsx"), accumulate)
                # If the CPU has to coalesce the mask, it counts repeated coordinates only once.
                want = torch.ops.aten._sparse_mask_projection(x, mask, accumulate and not x.is_coalesced())
                if not accumulate or mask.is_coalesced():
                    check(got, want)


def test_reductions_and_elementwise() -> None:
    x = coo(6, 7, 3)
    for function in (
        torch.sum,
        torch.sparse.sum,
        lambda t: torch.sparse.sum(t, 0),
        lambda t: torch.sparse.sum(t, (0, 2)),
        lambda t: torch.sparse.sum(t, (0, 1)),
        lambda t: torch.sparse.sum(t, 2),
        lambda t: t.sum(1),
        lambda t: t.sum(1, keepdim=True),
        torch.norm,
        lambda t: t.bool().any(),
        torch.abs,
        torch.sqrt,
        torch.sin,
        torch.tanh,
        torch.relu,
        torch.sign,
        torch.isnan,
        torch.nan_to_num,
        torch.expm1,
        torch.floor,
        lambda t: t.pow(2),
        lambda t: t / 3,
        lambda t: t // 2,
        lambda t: torch.div(t, 2, rounding_mode="trunc"),
        lambda t: t.coalesce().abs_(),
        lambda t: torch.sin(t, out=torch.empty_like(t)),
        lambda t: t.half().float(),
    ):
        compare(function, x)


OPINFOS = [op for op in op_db if op.name in ("sum", "masked.sum", "masked.amax")]


@pytest.mark.parametrize("op", OPINFOS, ids=lambda op: op.formatted_name)
def test_opinfo_samples(op: OpInfo) -> None:
    """PyTorch's sparse samples cover broadcasting, dense dimensions and batches."""
    compared = 0
    for sample in islice(op.sample_inputs_sparse_coo("cpu", torch.float32), 60):
        args = (sample.input, *sample.args)
        if torch.float64 in {sample.kwargs.get("dtype"), *(t.dtype for t in args if torch.is_tensor(t))}:
            continue
        options = tree_map(on_device, sample.kwargs)
        check(op(*map(on_device, args), **options), op(*args, **sample.kwargs))
        compared += 1
    assert compared > 5


def test_mixed_devices_raise() -> None:
    x, dense = coo(6, 7), torch.randn(6, 7)
    on_mpsx = x.to("mpsx")
    for function in (
        lambda: on_mpsx + x,
        lambda: on_mpsx * x,
        lambda: x * on_mpsx,
        lambda: dense.to("mpsx") + x,
        lambda: torch.sparse.mm(on_mpsx, dense.t()),
        lambda: torch.sparse.mm(on_mpsx, x.t()),
        lambda: torch.cat([on_mpsx, x]),
        lambda: dense.to("mpsx").sparse_mask(x),
        lambda: on_mpsx.index_select(0, torch.tensor([0])),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            function()


def sparse_2_by_2(indices: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Create a tensor with invariant checks enabled."""
    return torch.sparse_coo_tensor(indices, values, (2, 2), check_invariants=True)


ERRORS = {
    "mm_sizes": (torch.sparse.mm, lambda: (coo(6, 7), torch.randn(6, 2))),
    "add_sizes": (torch.add, lambda: (coo(6, 7), coo(6, 6))),
    "add_dense": (torch.add, lambda: (coo(6, 7), torch.randn(6, 7))),
    "add_density": (torch.add, lambda: (coo(6, 7, 3), coo(6, 7, 3, sparse_dim=3))),
    "mul_sizes": (torch.mul, lambda: (coo(6, 7), coo(6, 6))),
    "values": (torch.Tensor.values, lambda: (coo(6, 7),)),
    "outside": (sparse_2_by_2, lambda: (torch.full((2, 3), 4), torch.ones(3))),
    "softmax_dim": (lambda t: torch.sparse.softmax(t, 5), lambda: (coo(6, 7),)),
    "mask_sizes": (torch.Tensor.sparse_mask, lambda: (torch.randn(6, 7), coo(6, 6))),
    "integer_result": (lambda a, b: a.clone().add_(b), lambda: (coo(6, 7, dtype=torch.int32), coo(6, 7))),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_messages_match_the_cpu(name: str) -> None:
    function, arguments = ERRORS[name]
    args = arguments()
    with pytest.raises((RuntimeError, IndexError)) as expected:
        function(*args)
    with mpsx.fallback.using_mode("silent"), pytest.raises(expected.type) as raised:
        function(*map(on_device, args))
    assert str(raised.value).splitlines()[0][:40] == str(expected.value).splitlines()[0][:40]
