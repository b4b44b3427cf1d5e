"""Layouts of tensors in compiled graphs."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

from mpsx.inductor.lanes import runs_loops

CHANNELS = 72  # Inductor keeps the layout of convolutions of fewer channels while training


def strides(x: torch.Tensor, train: bool) -> set[str]:
    """Compare a compiled model with the eager one. Return the strides of its convolutions' channels."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = nn.Sequential(nn.Conv2d(16, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS), nn.ReLU(),
                          nn.Conv2d(CHANNELS, CHANNELS, 3)).to("mpsx").train(train)  # fmt: skip
    want = model(x)
    out, (code, *_) = run_and_get_code(torch.compile(model), x)
    torch.testing.assert_close(out, want)
    assert out.stride() == want.stride()
    sizes = rf"\(2, {CHANNELS}, \d+, \d+\)"
    return set(re.findall(rf"assert_size_stride\(buf\d+, {sizes}, \(\d+, (\d+),.*convolution", code))


@pytest.mark.parametrize("train", [False, True])
def test_convolutions(train: bool) -> None:
    """Convolutions stay in channels-first or channels-last format, unless the user forces Inductor's layout. On the
    host driver, whose CPU library is faster in channels-last format, Inductor decides."""
    x = torch.randn(2, 16, 9, 9, device="mpsx")
    assert strides(x, train) == ({"1"} if runs_loops() else {"81", "49"})
    assert strides(x.to(memory_format=torch.channels_last), train) == {"1"}
    with config.patch(force_layout_optimization=True):
        assert strides(x, train) == {"1"}


def test_other_devices() -> None:
    """The CPU's convolutions have the layout that Inductor chooses."""
    torch._dynamo.reset()
    model, x = nn.Conv2d(16, CHANNELS, 3), torch.randn(2, 16, 9, 9)
    with torch.no_grad():
        _, (code, *_) = run_and_get_code(torch.compile(model), x)
    assert "(1296, 1, 144, 16)" in code


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex operators")
def test_operators_on_transposed_tensors() -> None:
    """Results of operators that Inductor calls have the layout that PyTorch's graph expects."""
    x = torch.rand(2, 5, 8, device="mpsx")
    for function in (lambda x: torch.bernoulli(x.mT) * 1, lambda x: torch.complex(x - 0.5, x).mT.angle() * 1):
        torch._dynamo.reset()
        torch.manual_seed(0)
        want = function(x)
        torch.manual_seed(0)
        with config.patch(fallback_random=True):
            assert torch.equal(torch.compile(function)(x), want)


def test_relu_before_transposed_convolution() -> None:
    """The gradients of ReLU have the layout of its input, as on the CPU. Otherwise, the view in linear's gradient would
    fail."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    linear, convolution = nn.Linear(8, 8).to("mpsx"), nn.Conv1d(8, 4, 3).to("mpsx")
    x, gradients = torch.randn(2, 5, 8, device="mpsx"), []

    def function(x: torch.Tensor) -> torch.Tensor:
        return convolution(linear(x).relu().mT).sum()

    for f in (function, torch.compile(function, backend="aot_eager")):
        linear.zero_grad()
        f(x).backward()
        gradients.append(linear.weight.grad.clone())
    torch.testing.assert_close(gradients[1], gradients[0])
