"""Train a denoising diffusion model (DDPM, Ho et al. 2020, arXiv:2006.11239) on handwritten digits, and sample from it.

The samples come from an exponential moving average of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from .digits import digits
from .options import parse, show


class Denoiser(nn.Module):
    """A convolutional network that predicts the noise in an image at time t."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(depth)
        )
        self.last = nn.Conv2d(width, 1, 3, padding=1)
        self.register_buffer("frequencies", torch.logspace(0, -4, width // 2))

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return the noise in `x` [N, 1, H, W] at the times `t` [N]."""
        angles = t[:, None] * self.frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None, None]
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x + time)
        return self.last(x)


def main(argv: Sequence[str] | None = None) -> tuple[float, float]:
    """Return the mean loss over the first tenth and over the last tenth of the steps."""
    options = parse(__doc__, argv)
    size, width, depth, times = (32, 128, 8, 1000) if options.real else (8, 32, 3, 50)
    steps = options.steps or (5000 if options.real else 120)
    images = digits(size)[0].to(options.device)
    beta = torch.linspace(1e-4, 0.02 * 1000 / times, times, device=options.device)
    kept = torch.cumprod(1 - beta, 0)
    model = Denoiser(width, depth).to(options.device)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    losses = []
    for step in range(steps):
        x = images[torch.randint(len(images), (64,), device=options.device)]
        t = torch.randint(times, (len(x),), device=options.device)
        noise = torch.randn_like(x)
        share = kept[t][:, None, None, None]
        loss = F.mse_loss(model(share.sqrt() * x + (1 - share).sqrt() * noise, t.float()), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        losses.append(loss.item())
        show(step, steps, losses[-1])
    average.eval()
    x = torch.randn(1, 1, size, size, device=options.device)
    with torch.no_grad():
        for t in reversed(range(times)):
            predicted = average(x, torch.full((1,), float(t), device=options.device))
            x = (x - beta[t] / (1 - kept[t]).sqrt() * predicted) / (1 - beta[t]).sqrt()
            x = x + beta[t].sqrt() * torch.randn_like(x) if t else x
    shades = " .:-=+*#%@"
    for row in x[0, 0].clamp(-1, 1).cpu().tolist():
        print("".join(shades[int((value + 1) * 4.99)] * 2 for value in row))
    tenth = max(1, steps // 10)
    return sum(losses[:tenth]) / tenth, sum(losses[-tenth:]) / tenth


if __name__ == "__main__":
    main()
