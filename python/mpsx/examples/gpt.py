"""Train a character-level GPT on the source code of Python's standard library, and generate some text.

    python -m mpsx.examples.gpt            a small model, for a CPU
    python -m mpsx.examples.gpt --real     10 million parameters, for a GPU
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from mpsx.cli.demo.data import standard_library
from mpsx.cli.demo.models import GPT

from .options import parse, show


def main(argv: Sequence[str] | None = None) -> tuple[float, float]:
    """Return the first and the last loss."""
    options = parse(__doc__, argv)
    length, batch, width, heads, layers = (256, 64, 384, 6, 6) if options.real else (64, 8, 64, 2, 2)
    steps = options.steps or (5000 if options.real else 300)
    text = standard_library()
    model = GPT(len(text.alphabet), length, width=width, heads=heads, layers=layers).to(options.device)
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
    losses = []
    batches = text.batches(batch, length, options.seed)
    for step in range(steps):
        warmup = min(1.0, (step + 1) / (0.05 * steps))
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * warmup * (0.1 + 0.45 * (1 + math.cos(math.pi * step / steps)))
        x, y = (part.to(options.device) for part in next(batches))
        with torch.autocast(torch.device(options.device).type, torch.bfloat16, enabled=options.real):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        show(step, steps, losses[-1])
    prompt = text.encode("def ").to(options.device)[None]
    model.eval()
    with torch.no_grad():
        for _ in range(200 if options.real else 40):
            logits = model(prompt[:, -length:])[:, -1]
            prompt = torch.cat([prompt, torch.multinomial(logits.softmax(-1), 1)], 1)
    print(text.decode(prompt[0].cpu()))
    return losses[0], losses[-1]


if __name__ == "__main__":
    main()
