"""Image networks: ResNet-50 (He et al. 2015, arXiv 1512.03385), VGG16 (Simonyan and Zisserman 2014, arXiv 1409.1556),
and U-Net (Ronneberger et al. 2015, arXiv 1505.04597).

The small networks have fewer channels and blocks, but the same kinds of layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Bottleneck(nn.Module):
    """A residual block of 1x1, 3x3 and 1x1 convolutions."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * 4
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.shortcut = nn.Identity() if channels == out and stride == 1 else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet50(small: bool) -> nn.Module:
    """Create a ResNet with stages of 3, 4, 6, and 3 bottlenecks, or one bottleneck per stage if `small`."""
    width, depths, classes = (8, (1, 1, 1, 1), 10) if small else (64, (3, 4, 6, 3), 1000)
    layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    channels = width
    for stage, depth in enumerate(depths):
        for block in range(depth):
            layers.append(Bottleneck(channels, width << stage, 2 if stage and not block else 1))
            channels = 4 * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def vgg16(small: bool) -> nn.Module:
    """Create a VGG with thirteen 3x3 convolutions in five groups, followed by three linear layers with dropout."""
    width, classes, hidden = (4, 10, 32) if small else (64, 1000, 4096)
    layers: list[nn.Module] = []
    channels = 3
    for group, depth in enumerate((2, 2, 3, 3, 3)):
        for _ in range(depth):
            out = width << min(group, 3)
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(inplace=True)]
            channels = out
        layers.append(nn.MaxPool2d(2))
    # The small network has no dropout, so that devices can be compared.
    drop = 0.0 if small else 0.5
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(),
        nn.Linear(channels * 49, hidden), nn.ReLU(inplace=True), nn.Dropout(drop),
        nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Dropout(drop), nn.Linear(hidden, classes),
    )  # fmt: skip


def twice(channels: int, out: int) -> nn.Module:
    """Create two 3x3 convolutions, each followed by group normalization and SiLU."""
    layers: list[nn.Module] = []
    for c in (channels, out):
        layers += [nn.Conv2d(c, out, 3, padding=1), nn.GroupNorm(4, out), nn.SiLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """An encoder and decoder with skip connections."""

    def __init__(self, width: int, depth: int, classes: int) -> None:
        super().__init__()
        widths = [width << i for i in range(depth)]
        self.down = nn.ModuleList(twice(c, out) for c, out in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(widths[i], widths[i - 1], 2, 2) if i % 2 else nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(widths[i], widths[i - 1], 1))
            for i in range(depth - 1, 0, -1)
        )  # fmt: skip
        self.join = nn.ModuleList(twice(2 * widths[i - 1], widths[i - 1]) for i in range(depth - 1, 0, -1))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for i, layer in enumerate(self.down):
            x = layer(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


def unet(small: bool) -> nn.Module:
    """Create a U-Net with four levels, or three if `small`. It predicts a class for each pixel."""
    return UNet(8 if small else 64, 3 if small else 4, 3 if small else 21)


def _batch(count: int, side: int, classes: int, pixels: bool = False) -> dict[str, torch.Tensor]:
    target = (count, side, side) if pixels else (count,)
    return {"x": torch.randn(count, 3, side, side), "y": torch.randint(classes, target)}


def resnet50_batch(small: bool) -> dict[str, torch.Tensor]:
    """Create 8 images of 224 x 224, or 4 of 64 x 64 if `small`."""
    return _batch(4, 64, 10) if small else _batch(8, 224, 1000)


def vgg16_batch(small: bool) -> dict[str, torch.Tensor]:
    """Create 4 images of 224 x 224, or 3 of 64 x 64 if `small`."""
    return _batch(3, 64, 10) if small else _batch(4, 224, 1000)


def unet_batch(small: bool) -> dict[str, torch.Tensor]:
    """Create 2 images of 128 x 128, or of 24 x 24 if `small`."""
    return _batch(2, 24, 3, pixels=True) if small else _batch(2, 128, 21, pixels=True)


def classify(network: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the cross-entropy of classifying images or pixels."""
    return F.cross_entropy(network(batch["x"]), batch["y"])


def predict(network: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the network's logits."""
    return network(batch["x"])
