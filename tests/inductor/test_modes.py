"""torch.compile options that this device does not support raise an error."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._inductor.utils import fresh_inductor_cache


def function(x: torch.Tensor) -> torch.Tensor:
    return (x * 2 + 1).tanh()


def test_cpp_wrapper_raises() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, options={"cpp_wrapper": True})
    with fresh_inductor_cache(), pytest.raises(RuntimeError, match="AOTInductor and cpp_wrapper are not supported"):
        compiled(torch.randn(6, 5, device="mpsx"))


def test_combo_kernels_raise() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: [x.sum(0) * 2, (x + 1).log1p()], options={"combo_kernels": True})
    with fresh_inductor_cache(), pytest.raises(RuntimeError, match="combo_kernels is not supported"):
        compiled(torch.randn(64, 64, device="mpsx"))


def test_ahead_of_time_compilation_raises() -> None:
    program = torch.export.export(nn.ReLU().to("mpsx"), (torch.randn(2, 3, device="mpsx"),))
    with pytest.raises(RuntimeError, match="AOTInductor and cpp_wrapper are not supported"):
        torch._inductor.aoti_compile_and_package(program)
