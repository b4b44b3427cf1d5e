"""torch.linalg on the host driver, which calls LAPACK without a fallback. The launch log says vendor:….

All other drivers use kernels, which test_linalg.py covers.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import mpsx
import vendor

pytestmark = pytest.mark.usefixtures("no_fallback")
L = torch.linalg
Operator = tuple[Callable[..., object], tuple[torch.Tensor, ...]]


def pivots(a: torch.Tensor) -> torch.Tensor:
    """Return the pivots of an LU factorization without row swaps."""
    return torch.arange(1, 5, dtype=torch.int32, device=a.device)


A = torch.eye(4) * 3 + torch.ones(4, 4)
B = torch.arange(8.0).view(4, 2)

OPERATORS: dict[str, Operator] = {
    "linalg_cholesky_ex.L": (L.cholesky, (A,)),
    "linalg_lu_factor_ex.out": (L.lu_factor, (A,)),
    "linalg_lu.out": (L.lu, (A,)),
    "linalg_inv_ex.inverse": (L.inv, (A,)),
    "_linalg_solve_ex.result": (L.solve, (A, B)),
    "_linalg_det.result": (L.det, (A,)),
    "_linalg_slogdet.sign": (L.slogdet, (A,)),
    "linalg_lu_solve.out": (lambda a, b: L.lu_solve(a, pivots(a), b), (A, B)),
    "lu_unpack.out": (lambda a: torch.lu_unpack(a, pivots(a)), (A,)),
    "linalg_qr.out": (L.qr, (A,)),
    "geqrf": (torch.geqrf, (A,)),
    "linalg_solve_triangular": (lambda a, b: L.solve_triangular(a, b, upper=True), (A, B)),
    "triangular_solve.X": (lambda a, b: torch.triangular_solve(b, a), (A, B)),
    # PyTorch 2.14 removed aten::cholesky.
    **({"cholesky": (torch.cholesky, (A,))} if hasattr(torch.ops.aten, "cholesky") else {}),
    "cholesky_inverse": (torch.cholesky_inverse, (A,)),
    "_cholesky_solve_helper": (torch.cholesky_solve, (B, A)),
    "linalg_householder_product": (L.householder_product, (A, torch.ones(4))),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_route(name: str) -> None:
    function, inputs = OPERATORS[name]
    with mpsx.profiler.launch_log() as log:
        got = function(*(x.to("mpsx") for x in inputs))
    assert (f"vendor:aten::{name}" in log) == vendor.is_preferred(), log
    expected = function(*inputs)
    torch.testing.assert_close(
        torch.utils._pytree.tree_map(lambda t: t.cpu(), tuple(got) if isinstance(got, tuple) else got),
        tuple(expected) if isinstance(expected, tuple) else expected,
    )


def test_float64_falls_back_on_other_drivers() -> None:
    """There are no kernels for float64."""
    x = A.double().to("mpsx")
    if vendor.is_preferred():
        torch.testing.assert_close(L.inv(x).cpu(), L.inv(A.double()))
    else:
        with pytest.raises(RuntimeError, match="no mpsx kernel"):
            L.inv(x)
