"""ResNet-50 (arXiv:1512.03385), VGG16 (arXiv:1409.1556), and BERT-base (arXiv:1810.04805), in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Size:
    """The size of a run. `shrink` divides the numbers of channels and layers, for tests."""

    batches: dict[str, int]
    image: int
    words: int
    shrink: int = 1


SIZES = {
    "full": Size({"resnet50": 128, "bert": 64, "vgg16": 64}, 224, 128),
    "quick": Size({"resnet50": 8, "bert": 4, "vgg16": 2}, 128, 64),
    "tiny": Size({"resnet50": 2, "bert": 2, "vgg16": 1}, 32, 8, 16),
}
TITLES = {"resnet50": "ResNet-50", "bert": "BERT", "vgg16": "VGG16"}


class Bottleneck(nn.Module):
    """A residual block of three convolutions."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return an image with 4 * width channels."""
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet50(shrink: int) -> nn.Module:
    """Create the network."""
    width = 64 // shrink
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                               nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    channels = width
    for stage, depth in enumerate((3, 4, 6, 3) if shrink == 1 else (1, 1, 1, 1)):
        for block in range(depth):
            layers.append(Bottleneck(channels, width << stage, 2 if stage and not block else 1))
            channels = 4 * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def vgg16(shrink: int) -> nn.Module:
    """Create the network."""
    layers: list[nn.Module] = []
    channels = 3
    for group, depth in enumerate((2, 2, 3, 3, 3)):
        outputs = (64 << min(group, 3)) // shrink
        for _ in range(depth):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            channels = outputs
        layers.append(nn.MaxPool2d(2))
    hidden = 4096 // shrink
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(),
        nn.Linear(49 * channels, hidden), nn.ReLU(inplace=True), nn.Dropout(),
        nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(hidden, 1000),
    )  # fmt: skip


class Bert(nn.Module):
    """An encoder that classifies a sequence of words."""

    def __init__(self, shrink: int, words: int = 30522) -> None:
        super().__init__()
        width, layers = 768 // shrink, max(1, 12 // shrink)
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, 12 if shrink == 1 else 2, 4 * width, 0.1, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [N, 2] for words [N, length]."""
        positions = torch.arange(x.shape[1], device=x.device)
        return self.head(self.layers(self.norm(self.words(x) + self.positions(positions)))[:, 0])


BUILD: dict[str, Callable[[int], nn.Module]] = {"resnet50": resnet50, "bert": Bert, "vgg16": vgg16}


def batch(name: str, size: Size) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random inputs and labels on the CPU."""
    count = size.batches[name]
    if name == "bert":
        return torch.randint(30522, (count, size.words)), torch.randint(2, (count,))
    return torch.randn(count, 3, size.image, size.image), torch.randint(1000, (count,))
