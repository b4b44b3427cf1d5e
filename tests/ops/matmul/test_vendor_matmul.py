"""Run float32 matmuls with each of the CPU libraries that MPSX_GEMM can select."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from processes import run_in_subprocess

import mpsx

pytestmark = pytest.mark.skipif(mpsx.driver()["name"] != "host", reason="only the host driver uses GEMM libraries")


def has_avx512() -> bool:
    """Return whether ATen's oneDNN kernels can run on this CPU."""
    flags = Path("/proc/cpuinfo")
    return not flags.exists() or {"avx512bw", "avx512dq", "avx512vl"} <= set(flags.read_text().split())


@pytest.mark.parametrize("gemm", ["onednn", "mkl", None])
def test_matmuls_in_either_library(gemm: str | None) -> None:
    """Both libraries return correct results for every layout."""
    code = """
import itertools
torch.manual_seed(0)
def operand(rows, columns, batch, transposed):
    shape = (*batch, columns, rows) if transposed else (*batch, rows, columns)
    x = torch.randn(shape)
    return x.mT if transposed else x
def on(x):
    return x.mT.to("mpsx").mT if not x.is_contiguous() else x.to("mpsx")
def check(got, want):
    torch.testing.assert_close(got.cpu().double(), want, rtol=1e-4, atol=1e-4)
for (m, k, n), batch, ta, tb in itertools.product(
        [(512, 300, 450), (1100, 60, 1100), (4, 1000, 300), (3, 700, 600), (700, 800, 2)],
        [(), (3,)], [False, True], [False, True]):
    a, b = operand(m, k, batch, ta), operand(k, n, batch, tb)
    c, bias = torch.randn(*batch, m, n), torch.randn(n)
    A, B, C = on(a), on(b), c.to("mpsx")
    want = a.double() @ b.double()
    check(A @ B, want)
    matmul, add = (torch.bmm, torch.baddbmm) if batch else (torch.mm, torch.addmm)
    out = torch.empty(0, device="mpsx")
    check(matmul(A, B, out=out), want)
    check(matmul(A, B, out=torch.full((*batch, n, m), torch.nan, device="mpsx").mT), want)
    for alpha, beta in [(1, 1), (1, 0), (1, 0.5), (2, 1), (0, 1)]:
        check(add(C, A, B, alpha=alpha, beta=beta), alpha * want + beta * c.double())
    check(add(bias.to("mpsx"), A, B), want + bias.double())
    check(add(torch.full((1,), torch.nan, device="mpsx"), A, B, beta=0), want)
    check(C.clone().addmm_(A, B) if not batch else C.clone().baddbmm_(A, B), want + c.double())
    A.requires_grad_()
    (g,) = torch.autograd.grad(add(C, A, B).sum(), A)
    check(g, (torch.ones(*batch, m, n, dtype=torch.float64) @ b.double().mT))
square = torch.randn(420, 420)
s = square.to("mpsx")
check(torch.mm(s, s), square.double() @ square.double())
z = torch.randn(9, 9, dtype=torch.complex64)
Z = z.to("mpsx")
got = torch.addmm(Z, Z, Z, beta=1 - 2j, alpha=0.5j)
torch.testing.assert_close(got.cpu(), torch.addmm(z, z, z, beta=1 - 2j, alpha=0.5j))
print("same")
"""
    run = run_in_subprocess(code, **({"MPSX_GEMM": gemm} if gemm else {}))
    if gemm == "onednn" and platform.machine() == "x86_64" and not has_avx512():
        assert run.returncode > 0 and "MPSX_GEMM=onednn: expected a CPU with AVX-512" in run.stderr
    else:
        assert run.stdout == "same\n", run.stderr


def test_unknown_gemm_library_raises() -> None:
    run = run_in_subprocess("x = torch.ones(20, 20, device='mpsx')\nx @ x", MPSX_GEMM="blas", MPSX_VENDOR="on")
    assert run.returncode > 0 and 'MPSX_GEMM: expected "onednn" or "mkl", got "blas"' in run.stderr
