"""Factorization kernels: residuals and errors relative to float64, layouts, gradients, info, and error messages."""

# ruff: noqa: B023  # each function is called within its loop iteration

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from accuracy import assert_as_accurate
from layouts import on_device

import mpsx

pytestmark = pytest.mark.usefixtures("only_kernels")

L = torch.linalg
TYPES = (torch.float32, torch.complex64)


def swept(*sizes: tuple[int, ...]) -> list[object]:
    """Mark these sizes so that only the sweep tests them."""
    return [pytest.param(size, marks=pytest.mark.sweep) for size in sizes]


# A partial block, one row more than a block, and a batch. The sweep adds 1 x 1, a full block, and several blocks.
SIZES = [(5, 5), (65, 65), (2, 2, 20, 20), *swept((1, 1), (33, 33), (64, 64), (150, 150), (2, 2, 40, 40))]
FLAGS = (False, True)


def matrices(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return random, well-conditioned matrices with eigenvalues far from 0."""
    x = torch.randn(shape, dtype=dtype)
    x.diagonal(0, -2, -1).add_(2 * shape[-1] ** 0.5)
    return x


def hermitian(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = matrices(*shape, dtype=dtype)
    return x @ x.mH / shape[-1] + torch.eye(shape[-1])


def triangular(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return matrices to use as lower triangular ones. Kernels must ignore their nonzero upper triangles."""
    x = matrices(*shape, dtype=dtype) / shape[-1]
    x.diagonal(0, -2, -1).add_(1)
    return x.tril() + torch.full_like(x, 100).triu(1)


def wide(x: torch.Tensor) -> torch.Tensor:
    """Convert to double precision."""
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def layouts(x: torch.Tensor) -> list[torch.Tensor]:
    """Return the matrices in row-major order, in column-major order, and with gaps."""
    gaps = torch.zeros((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), dtype=x.dtype)[..., ::2, ::3]
    return [x, x.mT.contiguous().mT, gaps.copy_(x)]


def check(function: Callable[..., object], *inputs: torch.Tensor, times: float = 3) -> None:
    """Require the CPU's shapes, strides, dtypes and integers, and at most `times` the CPU's mean square error.

    Errors within a matrix are correlated, so the errors of two algorithms often differ by a factor of 2.
    """
    exact, cpu, got = (
        (result,) if isinstance(result, torch.Tensor) else result
        for result in (
            function(*(wide(x) if x.is_floating_point() or x.is_complex() else x for x in inputs)),
            function(*inputs),
            function(*(on_device(x) for x in inputs)),
        )
    )
    for e, c, g in zip(exact, cpu, got, strict=True):
        assert g.dtype == c.dtype
        assert g.stride() == c.stride()
        if not c.is_floating_point() and not c.is_complex():
            assert torch.equal(g.cpu(), c)
        else:
            real = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (g.cpu(), c, e))
            assert_as_accurate(*real, times=times)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES)
def test_cholesky(size: tuple[int, ...], dtype: torch.dtype) -> None:
    a, b = hermitian(*size, dtype=dtype), torch.randn(*size[:-1], 3, dtype=dtype)
    for upper in FLAGS:
        for x in layouts(a):
            check(lambda x: L.cholesky_ex(x, upper=upper), x)
        if hasattr(torch.ops.aten, "cholesky"):  # PyTorch 2.14 removed it
            check(lambda x: torch.cholesky(x, upper=upper), a)
        factor = L.cholesky(a, upper=upper)
        for x in layouts(factor):
            check(lambda b, x: torch.cholesky_solve(b, x, upper=upper), b, x)
        check(lambda x: torch.cholesky_inverse(x, upper=upper), factor)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [(150, 150), (2, 230, 230)])
def test_cholesky_of_several_panels(size: tuple[int, ...], dtype: torch.dtype) -> None:
    a = hermitian(*size, dtype=dtype)
    for upper in FLAGS:
        for x in layouts(a):
            check(lambda x: L.cholesky_ex(x, upper=upper), x)


@pytest.mark.parametrize("upper", FLAGS)
def test_cholesky_of_an_ill_conditioned_matrix(upper: bool) -> None:
    """The residual does not depend on the condition number, which is about 1e7."""
    x = torch.linalg.qr(torch.randn(200, 200, dtype=torch.double)).Q
    a = (x * torch.logspace(0, -7, 200, dtype=torch.double)) @ x.mT + 3e-7 * torch.eye(200)
    residuals = {}
    for device in ("cpu", "mpsx"):
        factor, info = L.cholesky_ex(a.float().to(device), upper=upper)
        assert info.item() == 0
        factor = wide(factor.cpu())
        product = factor.mT @ factor if upper else factor @ factor.mT
        residuals[device] = (product - a.float()).square().mean().sqrt()
    assert residuals["mpsx"] <= 2 * residuals["cpu"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES)
def test_solve_triangular(size: tuple[int, ...], dtype: torch.dtype) -> None:
    lower, b = triangular(*size, dtype=dtype), torch.randn(*size[:-1], 6, dtype=dtype)
    for upper, left, unit in itertools.product(FLAGS, FLAGS, FLAGS):
        a, right = lower.mT if upper else lower, b if left else b.mT
        for x, y in zip(layouts(a), reversed(layouts(right)), strict=True):
            check(lambda x, y: L.solve_triangular(x, y, upper=upper, left=left, unitriangular=unit), x, y, times=2)
        check(lambda x, y: L.solve_triangular(x.mH, y, upper=not upper, left=left, unitriangular=unit), a, right)
    for transpose in FLAGS:
        check(lambda b, x: torch.triangular_solve(b, x, upper=False, transpose=transpose).solution, b, lower)


def test_broadcast_systems() -> None:
    a, b = triangular(3, 1, 9, 9), torch.randn(4, 9, 2)
    check(lambda a, b: L.solve_triangular(a, b, upper=False), a, b)
    check(L.solve, matrices(3, 1, 9, 9), b)
    lu, pivots = L.lu_factor(matrices(3, 1, 9, 9))
    check(L.lu_solve, lu, pivots, b)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [*SIZES, (40, 20), (20, 40), (2, 100, 9), *swept((150, 70), (70, 150))])
def test_lu(size: tuple[int, ...], dtype: torch.dtype) -> None:
    a = torch.randn(size, dtype=dtype)
    residuals = {}
    for device in ("cpu", "mpsx"):
        p, lower, upper = (wide(t.cpu()) for t in L.lu(a.to(device)))
        residuals[device] = (p @ lower @ upper - a).square().abs().mean().sqrt()
        assert lower.tril().equal(lower)
        assert upper.triu().equal(upper)
    assert residuals["mpsx"] <= 2 * residuals["cpu"] + 1e-7
    for x in layouts(a):
        check(L.lu_factor_ex, x)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES)
def test_systems(size: tuple[int, ...], dtype: torch.dtype) -> None:
    a, b = matrices(*size, dtype=dtype), torch.randn(*size[:-1], 35, dtype=dtype)
    lu, pivots = L.lu_factor(a)
    for left, adjoint in itertools.product(FLAGS, FLAGS):
        right = b if left else b.mT
        check(lambda lu, p, x: L.lu_solve(lu, p, x, left=left, adjoint=adjoint), lu, pivots, right)
    for left in FLAGS:
        check(lambda x, y: L.solve(x, y, left=left), a, b if left else b.mT)
    for x in layouts(a):
        check(L.inv_ex, x)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [5, 35, pytest.param(70, marks=pytest.mark.sweep)])
def test_determinants(n: int, dtype: torch.dtype) -> None:
    a = matrices(64, n, n, dtype=dtype)
    check(L.slogdet, a)
    check(L.det, a / (2 * n**0.5))


def qr_errors(qr: tuple[torch.Tensor, ...], a: torch.Tensor) -> list[float]:
    """Return the residual |QR - A| and the departure from orthogonality |Q^H Q - I|."""
    q, r = (wide(t.cpu()) for t in qr)
    errors = (q @ r - a) / a.abs().max(), q.mH @ q - torch.eye(q.shape[-1])
    return [e.abs().square().mean().sqrt().item() for e in errors]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "size", [*SIZES, (40, 20), (20, 40), (2, 100, 9), (4, 1), *swept((1, 4), (150, 70), (70, 150))]
)
def test_qr(size: tuple[int, ...], dtype: torch.dtype) -> None:
    """Only check properties of Q and R: for complex matrices, MKL does not normalize the phase of R's last row."""
    a = torch.randn(size, dtype=dtype)
    real = dtype == torch.float32
    for mode in ("reduced", "complete", "r") if real else ():
        check(lambda x: L.qr(x, mode=mode), a)
    for x in layouts(a):
        for mode in ("reduced", "complete"):
            got, expected = L.qr(on_device(x), mode=mode), L.qr(x, mode=mode)
            assert got.Q.shape == expected.Q.shape
            assert got.R.cpu().equal(got.R.cpu().triu())
            for error, bound in zip(qr_errors(got, x), qr_errors(expected, x), strict=True):
                assert error <= 2 * bound + 2e-7
    reflectors, tau = torch.geqrf(a)
    if size[-2] >= size[-1]:
        check(L.householder_product, reflectors, tau)
        if real and size[-2] > size[-1]:  # for square matrices, the last reflectors are ill-conditioned
            check(torch.geqrf, a)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [(33, 33), (60, 40)])
def test_householder_product_is_as_accurate_as_single_reflectors(size: tuple[int, int], dtype: torch.dtype) -> None:
    """Blocking with a T factor does not amplify rounding errors, which are 0.9 to 1.05 times LAPACK's."""
    squares = dict.fromkeys(("cpu", "mpsx"), 0.0)
    for _ in range(4):
        reflectors, tau = torch.geqrf(torch.randn(size, dtype=dtype))
        exact = L.householder_product(wide(reflectors), wide(tau))
        for device in squares:
            got = L.householder_product(reflectors.to(device), tau.to(device)).cpu()
            squares[device] += (got - exact).abs().square().mean().item()
    # On the cuda driver, matmuls use 3xTF32, in which tensor cores round toward zero.
    limit = 2.0 if mpsx.driver()["name"] == "cuda" else 1.5
    assert squares["mpsx"] ** 0.5 <= limit * squares["cpu"] ** 0.5


def test_norms_of_any_magnitude() -> None:
    for scale in (1e-30, 1e25):
        a = torch.randn(40, 12) * scale
        torch.testing.assert_close(L.qr(a.to("mpsx")).R.cpu() / scale, L.qr(a / scale).R, rtol=1e-4, atol=1e-5)
    zeros = torch.zeros(5, 3)
    torch.testing.assert_close(L.qr(zeros.to("mpsx")).Q.cpu(), L.qr(zeros).Q)


@pytest.mark.parametrize("n", [4, 70, 200])
def test_info(n: int) -> None:
    """info is the index of the first non-positive minor (Cholesky) or of the first zero pivot (LU)."""
    a = hermitian(3, n, n)
    a[1, n - 1, n - 1] = -1
    a[2] = float("nan")
    for upper in FLAGS:
        info = L.cholesky_ex(a.to("mpsx"), upper=upper).info
        assert info.tolist() == L.cholesky_ex(a, upper=upper).info.tolist() == [0, n, 1]
    b = torch.eye(n).repeat(3, 1, 1)
    b[1, 2, 2] = 0
    b[2, :2] = 0
    for function in (L.lu_factor_ex, L.inv_ex, lambda x: L.solve_ex(x, x)):
        got, expected = function(b.to("mpsx")), function(b)
        assert got.info.dtype == torch.int32
        assert got.info.tolist() == expected.info.tolist()
    assert L.lu_factor_ex(b.to("mpsx")).pivots.cpu().equal(L.lu_factor_ex(b).pivots)


def message(function: Callable[..., object], *inputs: torch.Tensor) -> str:
    """Return the error message that a call raises."""
    with pytest.raises((RuntimeError, L.LinAlgError)) as caught:
        function(*inputs)
    return str(caught.value)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (L.cholesky, [(3, 3)]), (L.cholesky, [(2, 3, 3)]), (L.inv, [(3, 3)]), (L.inv, [(2, 3, 3)]),
        (L.solve, [(3, 3), (3, 1)]), (L.cholesky, [(3, 4)]), (L.inv, [(3, 4)]), (L.lu_factor, [(3,)]),
        (L.solve, [(3, 3), (4, 1)]), (L.qr, [(3,)]), (lambda a: L.qr(a, mode="some"), [(3, 3)]),
        (lambda a, b: L.solve_triangular(a, b, upper=True), [(3, 3), (4, 2)]), (L.lu_factor, [(3, 3)]),
        (lambda a: L.lu_factor(a, pivot=False), [(3, 3)]), (L.householder_product, [(3, 4), (3,)]),
    ],
)  # fmt: skip
def test_messages(function: Callable[..., object], shapes: list[tuple[int, ...]]) -> None:
    inputs = [torch.zeros(shape) for shape in shapes]
    assert message(function, *(x.to("mpsx") for x in inputs)) == message(function, *inputs)


def test_unsupported_dtypes_raise() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.int32):
        x = torch.ones(3, 3).to(dtype)
        for function in (
            L.cholesky,
            L.inv,
            L.qr,
            L.lu_factor,
            L.det,
            L.slogdet,
            torch.geqrf,
            torch.cholesky_inverse,
            lambda x: L.solve(x, x),
            lambda x: torch.cholesky_solve(x, x),
            lambda x: L.solve_triangular(x, x, upper=True),
            lambda x: L.householder_product(x, x[0]),
        ):
            assert message(function, x.to("mpsx")) == message(function, x)
        pivots = torch.arange(1, 4, dtype=torch.int32)
        got = torch.lu_unpack(x.to("mpsx"), pivots.to("mpsx"))
        assert all(map(torch.equal, (t.cpu() for t in got), torch.lu_unpack(x, pivots)))


@pytest.mark.parametrize("size", [(0, 0), (0, 3, 3), (2, 0, 0), (0, 4), (4, 0), (2, 0, 5, 3)])
def test_empty(size: tuple[int, ...]) -> None:
    a = torch.zeros(size)
    functions: list[Callable[..., object]] = [L.lu_factor_ex, L.lu, L.qr, lambda x: L.qr(x, mode="complete")]
    if size[-1] == size[-2]:
        functions += [L.cholesky_ex, L.inv_ex, L.slogdet, lambda x: L.solve(x, x), lambda x: torch.cholesky_solve(x, x),
                      lambda x: L.solve_triangular(x, x, upper=True)]  # fmt: skip
    for function in functions:
        got, expected = function(a.to("mpsx")), function(a)
        for g, e in zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]:
            torch.testing.assert_close(g.cpu(), e)


def upper_solve(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return L.solve_triangular(a, b, upper=True, out=out)


def test_out() -> None:
    a, b = hermitian(2, 40, 40), torch.randn(2, 40, 3)
    for layout in range(3):
        for function, inputs in ((L.cholesky, (a,)), (L.inv, (a,)), (L.solve, (a, b)), (upper_solve, (a, b))):
            out = on_device(layouts(torch.zeros_like(inputs[-1]))[layout])
            strides = out.stride()
            assert function(*(x.to("mpsx") for x in inputs), out=out) is out
            assert out.stride() == strides
            expected = function(*inputs, out=torch.empty(0))
            torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    wrong = torch.zeros(2, 40, 40, dtype=torch.int32)
    assert message(lambda x, o: L.cholesky(x, out=o), a.to("mpsx"), wrong.to("mpsx")) == message(
        lambda x, o: L.cholesky(x, out=o), a, wrong
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [6, pytest.param(70, marks=pytest.mark.sweep)])
def test_gradients(n: int, dtype: torch.dtype) -> None:
    a, b = matrices(2, n, n, dtype=dtype) / n, torch.randn(2, n, 3, dtype=dtype)
    a.diagonal(0, -2, -1).add_(1)

    def loss(function: Callable[..., object]) -> Callable[..., torch.Tensor]:
        def total(*inputs: torch.Tensor) -> torch.Tensor:
            results = function(*inputs)
            results = (results,) if isinstance(results, torch.Tensor) else results
            return sum(t.abs().square().sum() for t in results if t.requires_grad)

        return total

    functions: list[tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = [
        (lambda a: L.cholesky(a @ a.mH + torch.eye(n, device=a.device)), (a,)),
        (lambda a, b: L.solve_triangular(a, b, upper=True), (a, b)),
        (L.lu_factor, (a,)), (L.lu, (a,)), (L.inv, (a,)), (L.solve, (a, b)), (L.qr, (a,)), (L.slogdet, (a,)),
        (L.det, (a,)), (lambda a, b: torch.cholesky_solve(b, a), (a, b)),
        (lambda a, b: L.lu_solve(*L.lu_factor(a), b), (a, b)),
        (lambda b: L.householder_product(*torch.geqrf(b.detach())[:1], b[..., 0, :] / 10), (b,)),
    ]  # fmt: skip
    for function, inputs in functions:
        grads = []
        for given in ([wide(x) for x in inputs], inputs, [x.to("mpsx") for x in inputs]):
            leaves = [x.detach().requires_grad_() for x in given]
            grads.append([g.cpu() for g in torch.autograd.grad(loss(function)(*leaves), leaves)])
        for e, c, g in zip(*grads, strict=True):
            assert (g - e).abs().max() <= 4 * (c - e).abs().max() + 1e-6 * e.abs().max()
