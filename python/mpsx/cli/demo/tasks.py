"""The demo's tasks: data, model, optimizer and score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from .data import Batch, digits, standard_library
from .models import GPT, ResNet


@dataclass(frozen=True)
class Task:
    """A training task."""

    title: str
    data: str  # description of the data
    batch: str  # description of the batch
    steps: int  # default number of steps
    model: Callable[[], nn.Module]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    batches: Callable[[], Iterator[Batch]]
    score_name: str
    score: Callable[[nn.Module], str]  # evaluates on the test set
    sample: Callable[[nn.Module], str] | None = None

    @staticmethod
    def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of logits [.., classes]."""
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def resnet(seed: int) -> Task:
    """Classify handwritten digits."""
    data = digits(seed)
    size = 64

    @torch.no_grad()
    def accuracy(model: nn.Module) -> str:
        images, labels = (part.to(_device(model)) for part in data.test)
        right = (model(images).argmax(1) == labels).sum().item()
        return f"{right / len(labels):.1%}"

    return Task(
        title="ResNet on handwritten digits",
        data=f"{len(data.train[1]):,} images of 8 x 8 for training, {len(data.test[1]):,} for testing (scikit-learn)",
        batch=f"{size} images",
        steps=300,
        model=ResNet,
        optimizer=lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, fused=True),
        batches=lambda: data.batches(size, seed),
        score_name="test accuracy",
        score=accuracy,
    )


def gpt(seed: int) -> Task:
    """Predict the source code of Python's standard library, one character at a time."""
    text = standard_library()
    size, length, start = 8, 64, "def "

    @torch.no_grad()
    def test_loss(model: nn.Module) -> str:
        inputs, targets = (part.to(_device(model)) for part in text.test_batch(64, length))
        return f"{Task.loss(model(inputs), targets).item():.4f}"

    def sample(model: nn.Module) -> str:
        assert isinstance(model, GPT)
        return text.decode(model.write(text.encode(start), 240, seed))

    return Task(
        title="GPT on the source of Python's standard library",
        data=f"{len(text.train):,} characters for training, {len(text.test):,} for testing, "
        f"{len(text.alphabet)} distinct",
        batch=f"{size} x {length} characters",
        steps=600,
        model=lambda: GPT(len(text.alphabet), length),
        optimizer=lambda m: torch.optim.AdamW(m.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True),
        batches=lambda: text.batches(size, length, seed),
        score_name="test loss",
        score=test_loss,
        sample=sample,
    )


TASKS: dict[str, Callable[[int], Task]] = {"resnet": resnet, "gpt": gpt}
