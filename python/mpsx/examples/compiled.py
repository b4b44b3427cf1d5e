"""Compile a training step with torch.compile: Inductor fuses elementwise operators into Metal kernels."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from .options import parse, show


class Block(torch.nn.Module):
    """A gated MLP with RMSNorm: many small operators to fuse."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.RMSNorm(width)
        self.up, self.gate = torch.nn.Linear(width, 2 * width), torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor with the shape of `x`."""
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def main(argv: Sequence[str] | None = None) -> tuple[float, float]:
    """Return the first and the last loss."""
    options = parse(__doc__, argv)
    width, rows, depth = (1024, 1024, 6) if options.real else (32, 64, 1)
    steps = options.steps or (100 if options.real else 10)
    model = torch.nn.Sequential(*(Block(width) for _ in range(depth))).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    x = torch.randn(rows, width, device=options.device)
    target = x.roll(1, 1)
    compiled = torch.compile(model)
    losses = []
    for step in range(steps):
        start = time.perf_counter()
        loss = F.mse_loss(compiled(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step in (0, steps - 1):
            print(f"step {step}: {1e3 * (time.perf_counter() - start):.0f} ms")
        show(step, steps, losses[-1])
    return losses[0], losses[-1]


if __name__ == "__main__":
    main()
