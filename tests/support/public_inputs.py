"""Inputs for the calls in public_calls.py and public_methods.py. Their values are the same on every device."""

from __future__ import annotations

from collections.abc import Callable

import torch


class Inputs:
    """Creates tensors with one device, dtype and layout, and records the leaves whose gradients are compared."""

    def __init__(self, device: str, dtype: torch.dtype = torch.float32, layout: str = "contiguous",
                 exact: bool = False) -> None:  # fmt: skip
        """If `exact` is set, tensors are float64, but their values are those of `dtype`."""
        self.device, self.layout = device, layout
        self.dtype, self._rounded = torch.float64 if exact else dtype, dtype
        self.leaves: list[torch.Tensor] = []
        self._generator = torch.Generator().manual_seed(0)

    def laid_out(self, values: torch.Tensor) -> torch.Tensor:
        x = values.to(self.device, copy=True)
        if self.layout == "transposed" and x.dim() >= 2:
            return x.transpose(-1, -2).contiguous().transpose(-1, -2)
        if self.layout == "sliced" and x.dim() >= 1:
            return torch.stack([x, x], -1)[..., 0]
        return x

    def x(self, *shape: int) -> torch.Tensor:
        """Return normally distributed numbers. For integer and bool dtypes, scale them by 8 and truncate them."""
        return self.laid_out(self._normal(shape).to(self._rounded).to(self.dtype))

    def unit(self, *shape: int) -> torch.Tensor:
        """Return random numbers in (0.05, 0.95)."""
        values = 0.05 + 0.9 * torch.rand(shape, generator=self._generator)
        return self.laid_out(values.to(self._rounded).to(self.dtype))

    def leaf(self, *shape: int) -> torch.Tensor:
        """Return x() as a leaf whose gradient is compared."""
        made = self.x(*shape).detach()
        if made.dtype.is_floating_point:
            self.leaves.append(made.requires_grad_())
        return made

    def index(self, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """Return random integers in [0, high)."""
        return self.laid_out(torch.randint(high, shape, generator=self._generator, dtype=dtype))

    def mask(self, *shape: int) -> torch.Tensor:
        return self.index(2, *shape).bool()

    def t(self, values: object, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)

    def _normal(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator) * (1 if self.dtype.is_floating_point else 8)


Call = Callable[[Inputs], object]
