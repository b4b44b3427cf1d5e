"""Command-line options shared by the examples."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch


def parse(description: str | None, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse --device, --real, --steps, and --seed, and set PyTorch's seed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="mpsx", help="device to train on (default: mpsx)")
    parser.add_argument("--real", action="store_true", help="use a real size instead of a small one")
    parser.add_argument("--steps", type=int, help="number of training steps")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    options = parser.parse_args(argv)
    torch.manual_seed(options.seed)
    return options


def show(step: int, steps: int, loss: float) -> None:
    """Print the loss about ten times per run."""
    if step % max(1, steps // 10) == 0 or step == steps - 1:
        print(f"step {step:5d}  loss {loss:.4f}")
