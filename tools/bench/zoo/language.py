"""An LSTM language model with tied embeddings (Merity et al. 2017, arXiv 1708.02182, without dropout)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class LanguageModel(nn.Module):
    """A network that returns the logits for each next word."""

    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, words)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(x))[0])


def lstm(small: bool) -> nn.Module:
    """Create a model with three layers of width 400, or two of width 32 if `small`."""
    return LanguageModel(50, 32, 2) if small else LanguageModel(10_000, 400, 3)


def lstm_batch(small: bool) -> dict[str, torch.Tensor]:
    """Create 16 sequences of 70 words, or 3 of 12 words if `small`."""
    return {"x": torch.randint(50, (3, 12)) if small else torch.randint(10_000, (16, 70))}


def next_word(network: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the cross-entropy of predicting each next word."""
    return F.cross_entropy(network(batch["x"][:, :-1]).flatten(0, 1), batch["x"][:, 1:].flatten())
