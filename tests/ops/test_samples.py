"""OpInfo samples of operators that must not fall back, including out= variants and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_as_accurate
from error_messages import error_messages
from opinfo.common import samples
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

pytestmark = pytest.mark.usefixtures("no_fallback")

# Operators that have kernels for every OpInfo sample.
OPERATORS = (
    "equal", "eye", "trace", "complex", "polar", "cross", "linalg.cross", "logspace", "renorm", "isin",
    "masked_scatter", "put", "histc", "nonzero_static", "searchsorted", "bucketize", "repeat_interleave",
    "nn.functional.channel_shuffle", "nn.functional.glu", "nn.functional.prelu", "nan_to_num", "logit", "round",
    "nn.functional.hardshrink", "nn.functional.softshrink", "cov", "corrcoef", "linspace",
    "nn.functional.hardtanh", "nn.functional.threshold", "nn.functional.relu6",
)  # fmt: skip
# These operators are compared with float64, because the CPU adds many products in a different order.
PRODUCTS = ("cov", "corrcoef")
NO_KERNEL = {("logspace", torch.int32), ("round", torch.int32)}
# Operators that have kernels for complex64.
COMPLEX = (
    "addcmul", "addcdiv", "lerp", "cumsum", "cumprod", "prod", "var", "std", "var_mean", "std_mean", "any", "all",
    "count_nonzero", "equal", "cross", "linalg.cross", "renorm", "linspace", "linalg.vander", "sinc",
    "logaddexp", "masked_scatter", "nonzero_static", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
SAMPLES = [op for op in op_db if op.name in OPERATORS + COMPLEX]


def on(device: str, tree: object) -> object:
    def move(x: object) -> object:
        return x.to(device) if isinstance(x, torch.Tensor) else device if isinstance(x, torch.device) else x

    return tree_map(move, tree)


def is_float(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def cases() -> Iterator[object]:
    for op in SAMPLES:
        real = (torch.float32, torch.int32) if op.name in OPERATORS else ()
        for dtype in real + ((torch.complex64,) if op.name in COMPLEX else ()):
            if (op.name, dtype) not in NO_KERNEL and dtype in op.supported_dtypes("cpu"):
                yield pytest.param(op, dtype, id=f"{op.formatted_name}-{str(dtype)[6:]}")


@pytest.mark.parametrize(("op", "dtype"), cases())
def test_samples(op: object, dtype: torch.dtype) -> None:
    for sample in samples(op, dtype, None):
        expected = op(sample.input, *sample.args, **sample.kwargs)
        kwargs = {k: "mpsx" if k == "device" else v for k, v in sample.kwargs.items()}
        result = op(on("mpsx", sample.input), *on("mpsx", sample.args), **on("mpsx", kwargs))
        if isinstance(expected, bool):
            assert result == expected
            continue
        for a, b in zip(*((r,) if isinstance(r, torch.Tensor) else r for r in (result, expected)), strict=True):
            assert a.stride() == b.stride() or b.numel() <= 1
            if op.name in PRODUCTS and b.is_floating_point() and b.isfinite().all():
                args, kwargs = tree_map(lambda x: x.double() if is_float(x) else x, (sample.args, sample.kwargs))
                assert_as_accurate(on("cpu", a), b, op(sample.input.double(), *args, **kwargs))
                continue
            torch.testing.assert_close(on("cpu", a), b, equal_nan=True)


def test_rare_arguments() -> None:
    x = torch.tensor([[1, 3, 3], [1, 3, 3], [0, 2, 9]])
    there = x.to("mpsx")
    for number in (3, 7):
        assert torch.isin(number, there).item() == torch.isin(number, x).item()
        assert torch.isin(number, there, invert=True).item() == torch.isin(number, x, invert=True).item()
    ordered = torch.arange(0, 20, 2, device="mpsx")
    out = torch.empty((), dtype=torch.int64, device="mpsx")
    assert torch.searchsorted(ordered, 7, out=out) is out
    assert out.item() == 4
    found = torch.empty(0, 2, dtype=torch.int64, device="mpsx")
    torch.nonzero_static(there, size=12, fill_value=-1, out=found)
    assert torch.equal(found.cpu(), torch.nonzero_static(x, size=12, fill_value=-1))
    for a, b in zip(torch._unique(there, return_inverse=True), torch._unique(x, return_inverse=True), strict=True):
        assert torch.equal(a.cpu(), b)
    for forms in zip(*(torch.unique_consecutive(t, True, True, dim=0) for t in (there, x)), strict=True):
        assert torch.equal(forms[0].cpu(), forms[1])
    torch._assert_async(there[0, 0])
    with pytest.raises(RuntimeError, match="nonzero"):
        torch._assert_async(there[2, 0])
    with pytest.raises(RuntimeError, match="my message"):
        torch._assert_async(there[2, 0], "my message")


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "prod", "var", "lerp", "addcdiv", "tanh", "sigmoid"])
def test_gradients_of_complex_numbers(name: str) -> None:
    a, b, c = (torch.randn(4, 5, dtype=torch.complex64, generator=torch.Generator().manual_seed(k)) for k in range(3))
    more = {"cumsum": (1,), "cumprod": (1,), "prod": (1,), "var": (1,), "lerp": (b, c), "addcdiv": (b, c)}

    def gradients(*inputs: torch.Tensor) -> list[torch.Tensor]:
        leaves = [t.detach().requires_grad_() if isinstance(t, torch.Tensor) else t for t in inputs]
        torch.view_as_real(getattr(torch, name)(*leaves) + 0j).square().sum().backward()
        return [t.grad for t in leaves if isinstance(t, torch.Tensor)]

    inputs = (a, *more.get(name, ()))
    ours = gradients(*(on("mpsx", t) for t in inputs))
    exact = gradients(*(t.to(torch.complex128) if isinstance(t, torch.Tensor) else t for t in inputs))
    for x, y in zip(ours, exact, strict=True):
        torch.testing.assert_close(x.cpu(), y.to(x.dtype), rtol=2e-5, atol=2e-5)


def test_out_with_other_layouts() -> None:
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    x, y = a.to("mpsx"), b.to("mpsx")
    out = torch.empty(3, 4, device="mpsx").t()
    assert torch.linalg.cross(x, y, out=out) is out
    torch.testing.assert_close(out.cpu(), torch.linalg.cross(a, b))
    torch.linalg.cross(x, y, out=x)
    torch.testing.assert_close(x.cpu(), torch.linalg.cross(a, b))
    out = torch.empty(3, 4, device="mpsx").t()
    torch.renorm(y, 2, 0, 0.5, out=out)
    torch.testing.assert_close(out.cpu(), torch.renorm(b, 2, 0, 0.5))
    out = torch.empty(0, dtype=torch.bool, device="mpsx")
    torch.isin(y, y[0], out=out)
    assert torch.equal(out.cpu(), torch.isin(b, b[0]))
    many = torch.arange(0, 100, 3)
    assert torch.equal(torch.isin(torch.arange(100, device="mpsx"), many.to("mpsx"), invert=True).cpu(),
                       torch.isin(torch.arange(100), many, invert=True))  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: torch.trace(x[0]), "expected a matrix"),
        (lambda x: torch.eye(-1, device="mpsx"), "n must be greater"),
        (lambda x: x.masked_scatter_(torch.isfinite(x), x[:1, :1]), "as many as mask selects"),
        (lambda x: torch.repeat_interleave(torch.tensor([1, -1], device="mpsx")), "can not be negative"),
        (lambda x: torch.histc(x, 4, 2, 1), "max must be larger than min"),
        (lambda x: F.softshrink(x, -1), "lambda must be in range"),
        (lambda x: F.glu(x, 0), "even"),
        (lambda x: torch.searchsorted(x[0], x.half(), side="top"), "side can only be"),
        (lambda x: torch.bucketize(x, x), "1 dimension"),
    ],
)
def test_errors(call: Callable[[torch.Tensor], object], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(torch.randn(5, 6, device="mpsx"))


def test_errors_match_the_cpu() -> None:
    def ints(d: str) -> torch.Tensor:
        return torch.ones(2, dtype=torch.int32, device=d)

    def floats(d: str) -> torch.Tensor:
        return torch.ones(2, device=d)

    calls: list[Callable[[str], object]] = [
        lambda d: torch.complex(ints(d), ints(d)),
        lambda d: torch.complex(floats(d), floats(d).double()),
        lambda d: torch.complex(floats(d), floats(d), out=floats(d)),
        lambda d: torch.polar(ints(d), ints(d)),
        lambda d: torch.arange(1.2e-38, 3.4e38, device=d),
        lambda d: torch.arange(-(2**63), 2**63 - 1, device=d),
    ]
    for call in calls:
        cpu, device = error_messages(call)
        assert cpu == device
