"""Compare every public torch function that has no OpInfo with the CPU.

tests/opinfo covers functions with an OpInfo. The calls here include all composite kernels that call a DispatchStub
directly (the aten.* calls, kaiser_window, cdist, max_pool1d, ...). If the device has no stub, these calls fail,
whatever operators are registered.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import public_calls
import public_layouts
import public_methods
import pytest
import torch
from public_excluded import EXCLUDED
from public_inputs import Call, Inputs
from torch.utils._pytree import tree_leaves

CALLS: dict[str, Call] = public_calls.CALLS | public_layouts.CALLS | public_methods.CALLS
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8)
FUSED = {"gru_cell"}  # one kernel computes it; as on CUDA, the result is contiguous for any input strides
LAYOUTS = ("contiguous", "transposed", "sliced")

pytestmark = [pytest.mark.usefixtures("silent_fallback"), pytest.mark.filterwarnings("ignore")]


def weighted_sum(x: torch.Tensor) -> torch.Tensor:
    """Return a weighted sum. Unlike that of a plain sum, its gradient does not vanish after a normalization."""
    x = x.reshape(-1).abs() if x.is_complex() else x.reshape(-1)
    return (x.double() * torch.arange(x.numel(), device=x.device).double().cos()).sum()


def outcome(call: Call, inputs: Inputs) -> tuple[list[object], list[object]] | Exception:
    """Return the results and gradients of a call, or the exception that it raises."""
    torch.default_generator.manual_seed(1)
    torch.mpsx.manual_seed(1)
    try:
        result = tree_leaves(call(inputs))
        smooth = [weighted_sum(t) for t in result if isinstance(t, torch.Tensor) and t.requires_grad]
        gradients = torch.autograd.grad(sum(smooth), inputs.leaves, allow_unused=True) if smooth else ()
        torch.mpsx.synchronize()  # raises pending errors of asynchronous drivers
        return result, list(gradients)
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, AssertionError) as error:
        return error


def error(got: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest difference from the exact result, ignoring elements where that is not finite."""
    return torch.where(exact.isfinite(), got.to(exact.dtype) - exact, 0).abs().nan_to_num(nan=torch.inf).max().item()


def assert_close(got: torch.Tensor, want: torch.Tensor, exact: Callable[[], torch.Tensor]) -> None:
    """Require agreement with the CPU result within torch's default tolerance.

    16-bit results are rounded after each step, so they may have twice the CPU's error relative to float64, plus one
    rounding error of the largest value.
    """
    try:
        torch.testing.assert_close(got, want, equal_nan=True)
    except AssertionError:
        if want.dtype not in (torch.float16, torch.bfloat16):
            raise
        right = exact().detach().to(torch.float64)
        allowed = 2 * error(want, right) + torch.finfo(want.dtype).eps * right[right.isfinite()].abs().max().item()
        if not error(got, right) <= allowed:
            raise


def assert_same(got: object, want: object, exact: Callable[[], torch.Tensor], strides: bool) -> None:
    if not isinstance(want, torch.Tensor):
        assert got == want
        return
    assert isinstance(got, torch.Tensor) and got.device.type == "mpsx"
    assert (got.layout, got.dtype, got.shape) == (want.layout, want.dtype, want.shape)
    if strides and want.layout == torch.strided and want.numel():
        assert got.stride() == want.stride()
    assert got.is_inference() == want.is_inference()
    got, want = got.detach().cpu(), want.detach()
    if want.is_quantized:
        assert got.qscheme() == want.qscheme()
        got, want = got.int_repr(), want.int_repr()
    assert_close(got, want, exact)


def compare(name: str, *form: object) -> None:
    want, got = (outcome(CALLS[name], Inputs(d, *form)) for d in ("cpu", "mpsx"))
    if isinstance(want, NotImplementedError):  # the CPU does not support this dtype, but mpsx may
        return
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert isinstance(want, Exception) and isinstance(got, Exception), f"got {got!r}, expected {want!r}"
        return
    for part in (0, 1):  # results, then gradients
        for i, (one, other) in enumerate(zip(got[part], want[part], strict=True)):
            exact = lambda i=i, part=part: outcome(CALLS[name], Inputs("cpu", *form, True))[part][i]  # noqa: E731
            assert_same(one, other, exact, strides=part == 0 and name not in FUSED)


@pytest.mark.parametrize("name", CALLS)
def test_same_as_cpu(name: str) -> None:
    compare(name)
    assert not isinstance(outcome(CALLS[name], Inputs("cpu")), Exception)  # the call itself must be valid


@pytest.mark.sweep
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: torch.dtype, layout: str) -> None:
    failures = []
    for name in CALLS:
        try:
            compare(name, dtype, layout)
        except AssertionError as difference:
            failures.append(f"{name}: {difference}")
    assert not failures, "\n".join(failures)


def opinfo_names() -> set[str]:
    from torch.testing._internal.common_methods_invocations import op_db

    return {name for op in op_db for name in (op.name, *(alias.name for alias in op.aliases))}


def public_names() -> set[str]:
    """Return the names of functions (relative to torch) and methods (Tensor.name) that have no OpInfo.

    The OpInfo of a function also covers its in-place method.
    """
    known = opinfo_names()
    names = set()
    modules = {
        "": torch,
        "Tensor.": torch.Tensor,
        "special.": torch.special,
        "linalg.": torch.linalg,
        "fft.": torch.fft,
        "signal.windows.": torch.signal.windows,
        "nn.functional.": torch.nn.functional,
    }
    for prefix, module in modules.items():
        for name in dir(module):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(value) or inspect.isclass(value) or not callable(value):
                continue
            if getattr(value, "__module__", None) in ("typing", "torch.overrides"):
                continue
            if f"{prefix}{name}" in known or (prefix == "Tensor." and {name, name.rstrip("_")} & known):
                continue
            names.add(f"{prefix}{name}")
    return names


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="the tables list the functions of torch 2.13")
def test_no_function_is_missing() -> None:
    excluded = {name for names in EXCLUDED.values() for name in names.split()}
    assert public_names() - CALLS.keys() == excluded & public_names()
    assert not excluded & CALLS.keys()
