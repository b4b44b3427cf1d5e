"""Factorizations and solvers for matrices with one block and with several blocks."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernel_cases import Case, case, values


def matrices(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    """Return random, diagonally dominant matrices."""
    x = values(*shape, low=-1, high=1, seed=seed)
    if dtype.is_complex:
        x = torch.complex(x, values(*shape, low=-1, high=1, seed=seed + 1))
    x.diagonal(0, -2, -1).add_(2 * shape[-1] ** 0.5)
    return x


def hermitian(x: torch.Tensor) -> torch.Tensor:
    """Convert to a positive definite matrix."""
    return x @ x.mH / x.shape[-1] + torch.eye(x.shape[-1], dtype=x.dtype)


def triangular(x: torch.Tensor) -> torch.Tensor:
    """Convert to a lower triangular matrix."""
    return (x / x.shape[-1]).tril() + torch.eye(x.shape[-1], dtype=x.dtype)


def unpacked(a: torch.Tensor) -> list[torch.Tensor]:
    """Compute an LU factorization, and return P, L and U."""
    return list(torch.linalg.lu(a))


# Panels with more rows than a tile. The launches have 32 to 1024 threads, and each thread has from 3 to over 8 rows.
TALL = ((140, 33), (300, 33), (600, 7), (1500, 3), (2100, 3), (4200, 3), (8400, 3))


def factored(a: torch.Tensor) -> list[torch.Tensor]:
    """Return LU and the pivots."""
    return list(torch.linalg.lu_factor(a))


def cases() -> Iterator[Case]:
    for shape in TALL:
        yield case(f"lu f32 of {shape}", factored, matrices(torch.float32, *shape))
        yield case(f"lu f32 of {shape} that exchanges rows", factored, matrices(torch.float32, *shape).flip(0))
    many = values(1, 210, 210, low=-1, high=1)  # at least three panels, each of which updates the trailing matrix
    yield case("cholesky f32 of 210", torch.linalg.cholesky, hermitian(many), reference="exact")
    for dtype, tag in ((torch.float32, "f32"), (torch.complex64, "c64")):
        for n in (13, 70):
            a, b = matrices(dtype, 2, n, n), matrices(dtype, 2, n, 35, seed=5)
            reference = "exact" if dtype == torch.float32 else "same"
            name = f"{tag} of {n}"
            yield case(f"cholesky {name}", torch.linalg.cholesky, hermitian(a), reference=reference)
            yield case(f"solve_triangular {name}", lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
                       triangular(a), b, reference=reference)  # fmt: skip
            yield case(f"lu {name}", unpacked, a, reference=reference)
            yield case(f"lu {name} that exchanges rows", unpacked, a.flip(-2), reference=reference)
            yield case(f"solve {name}", torch.linalg.solve, a, b, reference=reference)
            yield case(f"qr {name}", torch.linalg.qr, b, reference=reference)
            yield case(f"inv {name}", torch.linalg.inv, a, reference=reference)
