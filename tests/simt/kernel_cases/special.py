"""Every function in metal/elementwise/special.def."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from tables import FLOAT, TAGS, rows

from kernel_cases import Case, case, gapped, values

ROWS, COLUMNS = 9, 35
# Argument ranges inside the domain and far from poles.
DOMAIN = {"special_ndtri": (0.05, 0.95), "erfinv": (-0.9, 0.9)}
POSITIVE = ("bessel_y", "bessel_k", "lgamma", "digamma", "entr")


def function_of(name: str) -> Callable[..., torch.Tensor]:
    """Return the operator for an entry of special.def."""
    module = torch.special if name.startswith("special_") else torch
    return getattr(module, name.removeprefix("special_"))


def domain_of(name: str) -> tuple[float, float]:
    """Return the range of arguments to test."""
    return DOMAIN.get(name, (0.5, 6) if any(part in name for part in POSITIVE) else (-3, 3))


def second_operand(name: str, x: torch.Tensor) -> torch.Tensor:
    """Return the second operand: the order for a polynomial, a positive number for other functions."""
    other = values(*x.shape, dtype=torch.float32, low=0, high=9, seed=1)
    return (other.floor() if "polynomial" in name else other + 0.5).to(x.dtype)


def gradient_cases() -> Iterator[Case]:
    a, x = values(ROWS, COLUMNS, low=0.3, high=20), values(ROWS, COLUMNS, low=0.1, high=20, seed=1)
    part = values(ROWS, COLUMNS, low=0.05, high=0.95, seed=2)
    for label, layout in {"": lambda t: t, "of gapped": gapped}.items():
        # This approximation has only three correct digits. tests/ops/random/test_sample.py checks its values.
        yield case(f"gamma gradient {label}", torch._standard_gamma_grad, layout(a), layout(x), reference="none")
        yield case(f"Dirichlet gradient {label}", torch._dirichlet_grad, layout(part), layout(a), layout(a + x),
                   reference="none")  # fmt: skip


def cases() -> Iterator[Case]:
    """Generate unary and binary functions with dense and strided inputs."""
    yield from gradient_cases()
    for dtype in FLOAT:
        x = values(ROWS, COLUMNS, dtype=dtype, low=-30, high=30)
        for label, x0 in {"": x, "of gapped": gapped(x)}.items():
            yield case(f"frexp {label} {TAGS[dtype]}", torch.frexp, x0, reference="same")
    powers = torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS) % 300 - 150
    for label, x0 in {"": values(ROWS, COLUMNS), "of gapped": gapped(values(ROWS, COLUMNS))}.items():
        yield case(f"ldexp {label}", torch.ldexp, x0, powers, reference="same")
    for dtype in FLOAT:
        for (name,) in rows("elementwise/special.def", "MPSX_SPECIAL", 1):
            x = values(ROWS, COLUMNS, dtype=dtype, low=domain_of(name)[0], high=domain_of(name)[1])
            yield case(f"{name} {TAGS[dtype]}", function_of(name), x)
            yield case(f"{name} of gapped {TAGS[dtype]}", function_of(name), gapped(x))
        for (name,) in rows("elementwise/special.def", "MPSX_SPECIAL_BINARY", 1):
            low = 1.5 if name == "special_zeta" else 0.5 if "igamma" in name else -1
            x = values(ROWS, COLUMNS, dtype=dtype, low=low, high=3)
            y = second_operand(name, x)
            yield case(f"{name} {TAGS[dtype]}", function_of(name), x, y)
            yield case(f"{name} of gapped {TAGS[dtype]}", function_of(name), gapped(x), y)
