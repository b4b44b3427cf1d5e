"""Handwritten digits for the examples: scikit-learn's 8 x 8 images, which need no download."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits


def digits(size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1,797 images [N, 1, size, size] with values from -1 to 1, and their labels."""
    found = load_digits()
    images = torch.from_numpy(found.images).float()[:, None] / 8 - 1
    images = F.interpolate(images, size, mode="bilinear") if size != 8 else images
    return images, torch.from_numpy(found.target).long()
