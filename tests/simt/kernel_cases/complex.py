"""Every operator in complex.def, with dense and with strided operands."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tables import rows

from kernel_cases import Case, case, gapped, values


def cases() -> Iterator[Case]:
    a = torch.complex(values(7, 30), values(7, 30, seed=1))
    b = torch.complex(values(7, 30, seed=2), values(7, 30, seed=3))
    for name, *_ in rows("elementwise/complex.def", "MPSX_COMPLEX", 2):
        yield case(f"{name} c64", getattr(torch, name), a, reference="none")
        yield case(f"{name} c64, with gaps", getattr(torch, name), gapped(a), reference="none")
    for name, *_ in rows("elementwise/complex.def", "MPSX_COMPLEX_BINARY", 2):
        yield case(f"{name} c64", getattr(torch, name), a, b, reference="none")
        yield case(f"{name} c64, with gaps", getattr(torch, name), gapped(a), gapped(b), reference="none")
    for name, *_ in rows("elementwise/complex.def", "MPSX_COMPLEX_TERNARY", 1):
        yield case(f"{name} c64", getattr(torch, name), a, b, b, reference="none")
        yield case(f"{name} c64, with gaps", getattr(torch, name), gapped(a), gapped(b), gapped(b), reference="none")
    for dim in (0, 1):
        yield case(f"prod and cumprod c64 {dim}", lambda x, d=dim: (x.prod(d), x.cumprod(d)), a, reference="none")
    yield case("cross c64", lambda x, y: torch.linalg.cross(x, y, dim=0), a[:3], b[:3], reference="none")
    number = torch.tensor(2 + 1j)
    for name, _, order in rows("elementwise/complex.def", "MPSX_COMPLEX_BINARY", 3):
        if order != "CALL":
            function = getattr(torch, name)
            yield case(f"{name} c64, by a number", lambda x, f=function: (f(x, 2 - 1j), f(number, x)), a,
                       reference="none")  # fmt: skip
            yield case(f"{name} c64, rows", lambda x, y, f=function: (f(x, y[0]), f(x[:, 1:], y[:, 1:])), a, b,
                       reference="none")  # fmt: skip
            yield case(f"{name} c64, columns", lambda x, y, f=function: (f(x, y[:, :1]), f(x[:, :1], y)), a, b,
                       reference="none")  # fmt: skip
    parts = [a.real.contiguous(), a.imag.contiguous()]
    for function in (torch.complex, torch.polar):
        name = function.__name__
        yield case(name, function, *parts)
        yield case(f"{name}, with gaps", function, *(gapped(x) for x in parts))
        yield case(f"{name}, rows", lambda x, y, f=function: (f(x, y[0]), f(x[:, 1:], y[:, 1:])), *parts)
        yield case(f"{name}, columns", lambda x, y, f=function: (f(x, y[:, :1]), f(x[:, :1], y)), *parts)
    yield case("complex of halves", lambda x, y: [torch.view_as_real(z) for z in (
        torch.complex(x, y), torch.complex(x[:, ::2], y[:, ::2]), torch.complex(x, y[0]),
        torch.complex(x[:, 1:], y[:, 1:]), torch.complex(x, y[:, :1]), torch.complex(x[:, :1], y))],
        *(x.half() for x in parts), reference="same")  # fmt: skip
