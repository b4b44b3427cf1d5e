"""Compiled functions of tensors on mpsx and of numbers: changing Python floats, and tensors without dimensions on the
CPU. The results equal the eager ones bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.utils import run_and_get_code

HALVES = (torch.float16, torch.bfloat16)
# Each is one kernel call in eager mode, so nothing but the result is rounded.
FUNCTIONS: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
    "add": lambda x, s: x + s,
    "subtract from": lambda x, s: s - x,
    "multiply": lambda x, s: x * s,
    "multiply by": lambda x, s: s * x,
    "divide": lambda x, s: x / s,
    "compare": lambda x, s: s < x,
    "atan2": lambda x, s: torch.atan2(x, torch.as_tensor(s)),
    "maximum": lambda x, s: torch.maximum(torch.as_tensor(s), x),
    "where": lambda x, s: torch.where(x > s, x, s),
    "fmod": torch.fmod,
    "pow": lambda x, s: x**s,
}


def assert_same(function: Callable[..., torch.Tensor], compiled: Callable[..., torch.Tensor], *args: Any) -> None:
    want, got = function(*args), compiled(*args)
    assert (got.dtype, got.device) == (want.dtype, want.device)
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES, torch.int32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_changing_floats(name: str, dtype: torch.dtype) -> None:
    """From the second value on, Dynamo passes a float64 tensor on the CPU."""
    torch._dynamo.reset()
    x = (30 * torch.randn(100)).to(dtype).to("mpsx")
    function, compiled = FUNCTIONS[name], torch.compile(FUNCTIONS[name])
    for s in (0.1, 0.2, 0.3):
        assert_same(function, compiled, x, s)


@pytest.mark.parametrize("number", [torch.float64, torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_tensors_on_the_cpu(dtype: torch.dtype, number: torch.dtype) -> None:
    torch._dynamo.reset()
    x, s = (30 * torch.randn(100)).to(dtype).to("mpsx"), torch.tensor(3.3).to(number)
    for name, function in FUNCTIONS.items():
        if name != "where" or number == dtype:  # otherwise, the result may have the number's type
            assert_same(function, torch.compile(function), x, s)


def test_constants_on_the_cpu() -> None:
    torch._dynamo.reset()
    x = torch.randn(100, device="mpsx")
    for function in (lambda x: torch.tensor(3.5) * x, lambda x: torch.where(torch.tensor(True), x, x * 2)):
        assert_same(function, torch.compile(function), x)


def test_floats_are_computed_in_float64() -> None:
    """Arithmetic on changing floats runs on the CPU, without a C++ compiler."""
    torch._dynamo.reset()
    x = torch.randn(1000, device="mpsx")
    step = lambda x, rate: x - 0.1 * rate * x  # noqa: E731
    compiled = torch.compile(step, dynamic=True)
    _, codes = run_and_get_code(compiled, x, 0.2)
    assert "aten.mul.Tensor(0.1, " in "".join(codes) and "cpp_fused" not in "".join(codes)
    for rate in (0.2, 0.3, 0.7):
        assert_same(step, compiled, x, rate)


def test_rounding_to_decimals_inside_a_graph() -> None:
    torch._dynamo.reset()
    x = 30 * torch.randn(100, device="mpsx")
    function = lambda x: (x * 2).round(decimals=1)  # noqa: E731
    assert_same(function, torch.compile(function), x)
