"""All cases, grouped by family."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from .compare import Case
from .complexes import complex_binary, complex_unary
from .elementwise import binary, ternary, unary
from .losses import losses
from .norms import norms
from .reductions import reductions

FAMILIES: dict[str, Callable[[torch.Generator], Iterator[Case]]] = {
    "unary": unary, "binary": binary, "ternary": ternary, "complex_unary": complex_unary,
    "complex_binary": complex_binary, "reductions": reductions, "norms": norms, "losses": losses,
}  # fmt: skip
