"""torch.fft on the host driver, which calls MKL or PocketFFT without a fallback. The launch log says vendor:….

All other drivers use kernels, which test_fft.py covers.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import mpsx
import vendor

pytestmark = pytest.mark.usefixtures("no_fallback")
X = torch.complex(torch.arange(6.0), torch.ones(6))

OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "_fft_c2c": torch.fft.ifft,
    "_fft_r2c": lambda x: torch.fft.rfft(x.real),
    "_fft_c2r": torch.fft.irfft,
    "_fft_c2c.out": lambda x: torch.fft.fft(x, out=torch.empty_like(x)),
    "_fft_r2c.out": lambda x: torch.fft.rfft(x.real, out=x.new_empty(4)),
    "_fft_c2r.out": lambda x: torch.fft.irfft(x, out=x.real.new_empty(10)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_route(name: str) -> None:
    with mpsx.profiler.launch_log() as log:
        got = OPERATORS[name](X.to("mpsx"))
    assert (f"vendor:aten::{name}" in log) == vendor.is_preferred(), log
    torch.testing.assert_close(got.cpu(), OPERATORS[name](X))


def test_float64_falls_back_on_other_drivers() -> None:
    """There are no kernels for complex128."""
    x = X.to(torch.complex128).to("mpsx")
    if vendor.is_preferred():
        torch.testing.assert_close(torch.fft.fft(x).cpu(), torch.fft.fft(x.cpu()))
    else:
        with pytest.raises(RuntimeError, match="no mpsx kernel"):
            torch.fft.fft(x)
