"""Fourier transforms in a single pass, in several passes, and with Bluestein's algorithm.

Normalization keeps the results near 1, where absolute tolerances are meaningful.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernel_cases import Case, case, values

# All radices, the small and the large tile size, a length that needs two passes, and a prime.
LENGTHS = (8 * 2 * 3, 5 * 7, 11 * 13, 2048, 2304, 17)


def cases() -> Iterator[Case]:
    for n in LENGTHS:
        real = values(3, n)
        half = torch.complex(values(3, n // 2 + 1, seed=1), values(3, n // 2 + 1, seed=2))
        full = torch.complex(values(n, 3, seed=3), values(n, 3, seed=4))
        yield case(f"fft of {n} columns", lambda x: torch.fft.fft(x, dim=0, norm="ortho"), full,
                   reference="same")  # fmt: skip
        yield case(f"ifft of {n} columns", lambda x: torch.fft.ifft(x, dim=0), full, reference="same")
        yield case(f"rfft of {n}", lambda x: torch.fft.rfft(x, norm="ortho"), real, reference="same")
        yield case(f"irfft to {n}", torch.fft.irfft, half, n, reference="same")
    yield case("fftn", torch.fft.fftn, torch.complex(values(6, 5, 8), values(6, 5, 8, seed=1)), reference="same")
