"""Every operator of complex.def, dense and with gaps."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tables import rows

from kernel_cases import Case, case, gapped, values


def cases() -> Iterator[Case]:
    """All of them."""
    a = torch.complex(values(7, 30), values(7, 30, seed=1))
    b = torch.complex(values(7, 30, seed=2), values(7, 30, seed=3))
    for name, *_ in rows("elementwise/complex.def", "MPSX_COMPLEX", 2):
        yield case(f"{name} c64", getattr(torch, name), a, reference="none")
        yield case(f"{name} c64, with gaps", getattr(torch, name), gapped(a), reference="none")
    for name, *_ in rows("elementwise/complex.def", "MPSX_COMPLEX_BINARY", 2):
        yield case(f"{name} c64", getattr(torch, name), a, b, reference="none")
        yield case(f"{name} c64, with gaps", getattr(torch, name), gapped(a), gapped(b), reference="none")
