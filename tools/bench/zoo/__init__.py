"""Models for tests/models/test_zoo.py and tools/bench.py, each in a small size and in its published size.

`ZOO[name].build(small)` creates a network. `ZOO[name].batch(small)` creates a batch for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from . import language, pretrained, vision

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Model:
    """A model. `build(small)` creates the network, and `batch(small)` creates its named inputs. `loss(network, batch)`
    returns a scalar loss. `predict(network, batch)` returns the inference result."""

    build: Callable[[bool], nn.Module]
    batch: Callable[[bool], Batch]
    loss: Callable[[nn.Module, Batch], torch.Tensor]
    predict: Callable[[nn.Module, Batch], torch.Tensor]


ZOO = {
    "resnet50": Model(vision.resnet50, vision.resnet50_batch, vision.classify, vision.predict),
    "vgg16": Model(vision.vgg16, vision.vgg16_batch, vision.classify, vision.predict),
    "unet": Model(vision.unet, vision.unet_batch, vision.classify, vision.predict),
    "lstm": Model(language.lstm, language.lstm_batch, language.next_word, vision.predict),
    "bert": Model(pretrained.bert, pretrained.text, pretrained.masked_words, pretrained.predict),
    "gpt2": Model(pretrained.gpt2, pretrained.text, pretrained.next_word, pretrained.predict),
    "llama": Model(pretrained.llama, pretrained.text, pretrained.next_word, pretrained.predict),
    "vit": Model(pretrained.vit, pretrained.images, pretrained.classify, pretrained.predict),
    "whisper": Model(pretrained.whisper, pretrained.audio, pretrained.mean_square, pretrained.hidden),
}
