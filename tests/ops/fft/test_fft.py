"""FFT kernels: errors relative to float64, dimensions, layouts, strides, gradients, out=, and error messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from layouts import on_device

pytestmark = pytest.mark.usefixtures("only_kernels")

F = torch.fft
# All radices, products of radices, primes, and lengths that need one pass or several passes.
LENGTHS = [*range(1, 65), 100, 121, 127, 128, 256, 1000, 1009, 1024, 2048, 2187, 4096, 4098, 5000, 8192]
LONG = [10007, 3 * 2**13, 65536]
DIMS = [*itertools.permutations(range(4), 1), *itertools.permutations(range(4), 2), (0, 2, 3), (3, 0, 1), (3, 1, 2, 0)]
NORMS = (0, 1, 2)  # at::native::fft_norm_mode


def complex_numbers(*shape: int) -> torch.Tensor:
    """Return normally distributed complex numbers."""
    return torch.randn(shape, dtype=torch.complex64)


def wide(x: torch.Tensor) -> torch.Tensor:
    """Convert to double precision."""
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def error(got: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the RMS error relative to the RMS of the exact values."""
    return float((got.cpu().to(exact.dtype) - exact).norm() / exact.norm().clamp_min(1e-30))


def check(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    """Require the dtype, shape and strides of the CPU's result, and at most twice the CPU's error."""
    exact, cpu = function(wide(x)), function(x)
    got = function(on_device(x.conj()).conj() if x.is_conj() else on_device(x))
    assert (got.dtype, got.shape, got.stride()) == (cpu.dtype, cpu.shape, cpu.stride())
    bound = max(2 * error(cpu, exact), 3e-7)
    assert error(got, exact) <= bound, f"{error(got, exact)} of {bound}"


def check_length(n: int) -> None:
    """Check every kind of transform of length n, along rows and along columns."""
    check(F.fft, complex_numbers(3, n))
    check(lambda x: F.ifft(x, dim=0, norm="forward"), complex_numbers(n, 5))
    check(lambda x: F.ifft(x, dim=1), complex_numbers(2, n, 3))
    check(F.rfft, torch.randn(3, n))
    check(lambda x: F.fft(x, dim=0), torch.randn(n, 2))
    check(lambda x: F.irfft(x, n), complex_numbers(3, n // 2 + 1))
    check(lambda x: F.hfft(x, n, dim=0, norm="ortho"), complex_numbers(n // 2 + 1, 3))


def test_lengths() -> None:
    for n in LENGTHS:
        check_length(n)


@pytest.mark.parametrize("n", LONG)
def test_long(n: int) -> None:
    check(F.fft, complex_numbers(n))
    check(lambda x: F.irfft(x, n), complex_numbers(n // 2 + 1))


@pytest.mark.sweep
@pytest.mark.parametrize("n", [100003, 2**20, 3 * 2**18, 13**5, 2**22])
def test_very_long(n: int) -> None:
    check_length(n)


def test_single_frequency() -> None:
    """The spectrum of exp(2 pi i k j / n) is n at index k, and rounding error at all other indices."""
    for n in (4096, 65536, 100003):
        at = ((torch.arange(n) * 12345) % n).double()
        x = torch.polar(torch.ones(n, dtype=torch.float64), at * (2 * torch.pi / n))
        expected = torch.zeros(n, dtype=torch.complex128)
        expected[12345 % n] = n
        assert error(F.fft(x.to(torch.complex64).to("mpsx")), expected) < 5e-7


def layouts() -> dict[str, torch.Tensor]:
    """Return 4-D tensors with different strides."""
    x = complex_numbers(2, 5, 6, 7)
    return {
        "contiguous": x,
        "transposed": x.transpose(1, 2),
        "permuted": x.permute(3, 2, 1, 0),
        "sliced": complex_numbers(3, 12, 9, 16)[1:, ::2, 2:8, 1::2],
        "channels_last": x.to(memory_format=torch.channels_last),
        "expanded": x[:1].expand(3, 5, 6, 7),
        "conj": x.conj(),
    }


@pytest.mark.parametrize("layout", layouts())
def test_dimensions(layout: str) -> None:
    x = layouts()[layout]
    for i, dims in enumerate(DIMS):
        norm, last = NORMS[i % 3], x.size(dims[-1])
        check(lambda x: torch._fft_c2c(x, dims, norm, i % 2 == 0), x)  # noqa: B023
        check(lambda x: torch._fft_r2c(x, dims, norm, i % 2 == 0), x.real)  # noqa: B023
        check(lambda x: torch._fft_c2r(x, dims, norm, 2 * last - 2 + i % 2), x)  # noqa: B023


def test_many_dimensions() -> None:
    x = complex_numbers(*[2] * 11)
    check(lambda x: F.fft(x, dim=4), x.permute(*range(10, -1, -1)))
    check(lambda x: F.fftn(x, dim=(7, 2, 9)), x.transpose(0, 5))
    check(lambda x: F.rfft(x, dim=3), x.real.permute(0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9))


def test_sizes_of_the_public_functions() -> None:
    """Test padding, trimming, and negative dimensions."""
    x = complex_numbers(4, 9, 10)
    for n in (1, 7, 16):
        check(lambda x: F.fft(x, n, dim=-2), x)  # noqa: B023
        check(lambda x: F.irfft(x, n, dim=-2), x)  # noqa: B023
        check(lambda x: F.rfftn(x, (n, 5), dim=(-1, 0)), x.real)  # noqa: B023
        check(lambda x: F.hfft2(x, (n, 6), norm="ortho"), x)  # noqa: B023


def test_empty_batches() -> None:
    for shape, dim in (((0, 8), 1), ((8, 0), 0), ((3, 0, 5), 2)):
        x = complex_numbers(*shape).to("mpsx")
        assert F.fft(x, dim=dim).shape == shape
        assert F.rfft(x.real, dim=dim).size(dim) == x.size(dim) // 2 + 1
        assert F.irfft(x, 9, dim=dim).size(dim) == 9


def test_irfft_ignores_imaginary_parts_of_dc_and_nyquist() -> None:
    """The spectrum of real data is real at the indices 0 and n / 2."""
    for n in (8, 9, 34, 4096):
        x = complex_numbers(n // 2 + 1).to("mpsx")
        real = x.clone()
        real.imag[0] = 0
        if n % 2 == 0:
            real.imag[-1] = 0
        assert torch.equal(F.irfft(x, n), F.irfft(real, n))


def test_out() -> None:
    x = complex_numbers(3, 20)
    calls = (
        (lambda x, out: F.fft(x, out=out), torch.complex64),
        (lambda x, out: F.rfft(x.real, out=out), torch.complex64),
        (lambda x, out: F.irfft(x, out=out), torch.float32),
        (lambda x, out: torch._fft_c2c(x, (0, 1), 1, False, out=out), torch.complex64),
        (lambda x, out: torch._fft_r2c(x.real, (0,), 0, False, out=out), torch.complex64),
        (lambda x, out: torch._fft_c2r(x, (1,), 2, 38, out=out), torch.float32),
    )
    for function, dtype in calls:
        expected = function(x, None)
        for out in (torch.empty(0, dtype=dtype), torch.empty(expected.shape[::-1], dtype=dtype).T):
            given = on_device(out)
            got = function(on_device(x), given)
            assert got is given
            assert out.numel() == 0 or got.stride() == out.stride()
            torch.testing.assert_close(got.cpu(), expected)
    y = x.to("mpsx")
    F.fft(y, out=y)
    torch.testing.assert_close(y.cpu(), F.fft(x))


def test_errors() -> None:
    x = complex_numbers(4, 6)
    calls = (
        lambda x: torch._fft_c2c(x.real, (0,), 0, True),
        # Since 2.14, the CPU raises a TypeError, and mpsx a RuntimeError.
        *([lambda x: torch._fft_r2c(x, (0,), 0, True)] if torch.__version__ < "2.14" else []),
        lambda x: torch._fft_c2r(x.real, (0,), 0, 6),
        lambda x: F.fft(x, 0),
        lambda x: F.fft(x, dim=2),
        lambda x: F.fftn(x, dim=(0, 0)),
        F.rfft,
        lambda x: F.fft(x, norm="other"),
    )
    for function in calls:
        messages = []
        for device in ("cpu", "mpsx"):
            with pytest.raises((RuntimeError, IndexError)) as caught:
                function(x.to(device))
            messages.append((caught.type, str(caught.value).splitlines()[0]))
        assert messages[0] == messages[1]
    with pytest.raises(RuntimeError, match="Only supports floating-point dtypes, but found: ComplexFloat"):
        torch._fft_r2c(x.to("mpsx"), (0,), 0, True)
    with pytest.raises(RuntimeError, match="_fft_c2r: expected 6 elements in dimension 0 for a result of 10"):
        torch._fft_c2r(x.to("mpsx"), (0,), 0, 10)
    with pytest.raises(RuntimeError, match="_fft_c2c: expected different dimensions"):
        torch._fft_c2c(x.to("mpsx"), (0, 0), 0, True)


GRADIENTS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], bool]] = {
    "fft": (lambda x: F.fft(x, 10, dim=0), True),
    "ifftn": (lambda x: F.ifftn(x, norm="ortho"), True),
    "rfft": (lambda x: F.rfft2(x, (5, 9)), False),
    "irfft": (lambda x: F.irfftn(x, (4, 11)), True),
    "hfft": (lambda x: F.hfft(x, 12), True),
    "ihfft": (F.ihfft, False),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    """Compare first and second derivatives of a nonlinear function of the spectrum."""
    function, takes_complex = GRADIENTS[name]
    x = complex_numbers(6, 7) if takes_complex else torch.randn(6, 7)
    results = []
    for device in ("cpu", "mpsx"):
        leaf = x.to(device).requires_grad_()
        first = torch.autograd.grad((function(leaf).abs() ** 3).sum(), leaf, create_graph=True)[0]
        second = torch.autograd.grad((first.abs() ** 2).sum(), leaf)[0]
        results.append((first.detach().cpu(), second.cpu()))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-3 * float(results[0][1].abs().max()))


def test_stft() -> None:
    x, window = torch.randn(2, 3000), torch.hann_window(200)
    for options in ({}, {"onesided": False}, {"normalized": True, "center": False}):
        spectra = [torch.stft(x.to(d), 200, 50, window=window.to(d), return_complex=True, **options)
                   for d in ("cpu", "mpsx")]  # fmt: skip
        torch.testing.assert_close(spectra[1].cpu(), spectra[0])
        assert spectra[0].stride() == spectra[1].stride()
    spectrum = torch.stft(x.to("mpsx"), 200, 50, window=window.to("mpsx"), return_complex=True)
    back = torch.istft(spectrum, 200, 50, window=window.to("mpsx"), length=3000)
    torch.testing.assert_close(back.cpu(), x, rtol=1e-4, atol=1e-5)


def test_repeated_calls() -> None:
    """Results are bitwise equal, no matter which memory is reused for scratch tensors."""
    for n in (17, 1000, 6000):
        x = complex_numbers(4, n).to("mpsx")
        first = F.fft(x)
        assert all(torch.equal(F.fft(x), first) for _ in range(5))
