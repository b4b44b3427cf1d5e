"""The demo's two models, in plain PyTorch.

Both models use smooth activations (SiLU and GELU, not ReLU). A change in the last bit of a ReLU's input near zero
changes its gradient, so after a hundred steps, two runs differ by a percent even on the same device. With smooth
activations, the losses on two devices agree to the last digits.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return images with `outputs` channels."""
        y = F.silu(self.norm1(self.conv1(x)))
        return F.silu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """A residual network for 8 x 8 images."""

    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.SiLU())
        self.blocks = nn.Sequential(
            Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2)
        )  # fmt: skip
        self.head = nn.Linear(4 * width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits [N, classes]."""
        features = F.adaptive_avg_pool2d(self.blocks(self.stem(images)), 1)
        return self.head(features.flatten(1))


class Layer(nn.Module):
    """A transformer layer: causal attention and an MLP with GELU."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        # Omit the bias. softmax is invariant to a bias of the keys, so its gradient would be rounding noise, which Adam
        # would scale to full steps.
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor with the shape of `x`."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        rate = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True)
        x = x + self._drop(self.out(attended.transpose(1, 2).reshape(batch, length, width)))
        return x + self._drop(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))

    def _drop(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


class GPT(nn.Module):
    """A decoder that predicts the next character. The embedding and the output layer share their weights."""

    def __init__(
        self, alphabet: int, length: int, *, width: int = 96, heads: int = 3, layers: int = 3, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.length = length
        self.characters = nn.Embedding(alphabet, width)
        self.positions = nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, alphabet, bias=False)
        self.head.weight = self.characters.weight
        self.register_buffer("position", torch.arange(length), persistent=False)
        self.apply(self._initialize)

    @staticmethod
    def _initialize(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return logits [N, length, alphabet]."""
        x = self.characters(text) + self.positions(self.position[: text.shape[1]])
        return self.head(self.norm(self.layers(x)))

    @torch.no_grad()
    def write(self, start: torch.Tensor, count: int, seed: int, temperature: float = 0.7) -> torch.Tensor:
        """Append `count` characters to a text. Random numbers come from the CPU, so all devices write the same text."""
        generator = torch.Generator().manual_seed(seed)
        text = start.to(self.position.device).unsqueeze(0)
        for _ in range(count):
            logits = self(text[:, -self.length :])[0, -1].float() / temperature
            # The argmax of the logits plus Gumbel noise is a sample from softmax(logits).
            noise = -torch.log(-torch.log(torch.rand(logits.shape, generator=generator).clamp_min(1e-20)))
            text = torch.cat([text, (logits + noise.to(logits.device)).argmax().view(1, 1)], dim=1)
        return text[0].cpu()
