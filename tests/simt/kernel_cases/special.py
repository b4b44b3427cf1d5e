"""Special functions: each of metal/elementwise/special.def."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from tables import FLOAT, TAGS, rows

from kernel_cases import Case, case, gapped, values

ROWS, COLUMNS = 9, 35
# Where a function is defined, and far from its poles.
DOMAIN = {"special_ndtri": (0.05, 0.95), "erfinv": (-0.9, 0.9)}
POSITIVE = ("bessel_y", "bessel_k", "lgamma", "digamma", "entr")


def function_of(name: str) -> Callable[..., torch.Tensor]:
    """The operator of a row."""
    module = torch.special if name.startswith("special_") else torch
    return getattr(module, name.removeprefix("special_"))


def domain_of(name: str) -> tuple[float, float]:
    """Its arguments."""
    return DOMAIN.get(name, (0.5, 6) if any(part in name for part in POSITIVE) else (-3, 3))


def second_operand(name: str, x: torch.Tensor) -> torch.Tensor:
    """What goes with `x`: the order of polynomials, and a positive number else."""
    other = values(*x.shape, dtype=torch.float32, low=0, high=9, seed=1)
    return (other.floor() if "polynomial" in name else other + 0.5).to(x.dtype)


def cases() -> Iterator[Case]:
    """Of one number and of two, dense and with gaps."""
    for dtype in FLOAT:
        for (name,) in rows("elementwise/special.def", "MPSX_SPECIAL", 1):
            x = values(ROWS, COLUMNS, dtype=dtype, low=domain_of(name)[0], high=domain_of(name)[1])
            yield case(f"{name} {TAGS[dtype]}", function_of(name), x)
            yield case(f"{name} of gapped {TAGS[dtype]}", function_of(name), gapped(x))
        for (name,) in rows("elementwise/special.def", "MPSX_SPECIAL_BINARY", 1):
            low = 1.5 if name == "special_zeta" else -1
            x = values(ROWS, COLUMNS, dtype=dtype, low=low, high=3)
            y = second_operand(name, x)
            yield case(f"{name} {TAGS[dtype]}", function_of(name), x, y)
            yield case(f"{name} of gapped {TAGS[dtype]}", function_of(name), gapped(x), y)
