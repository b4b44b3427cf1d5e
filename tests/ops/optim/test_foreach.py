"""torch._foreach_*: every operator in metal/optim/foreach.def, and the operators that are not in this table."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tables import FLOAT, METAL, rows

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

TABLE = "optim/foreach.def"
UNARY = [row[0] for row in rows(TABLE, "MPSX_FOREACH_UNARY", 1)]
SCALED = [row[0] for row in rows(TABLE, "MPSX_FOREACH_SCALED", 1)]
BINARY = SCALED + [row[0] for row in rows(TABLE, "MPSX_FOREACH_BINARY", 1)]
POINTWISE = [row[0] for row in rows(TABLE, "MPSX_FOREACH_POINTWISE", 1)]
# Sizes near chunk boundaries. There are more tensors (35) than a single launch can bind.
SIZES = [(), (1,), (0, 3), (7, 5), (8192,), (8193,), (3, 9000), *[(k,) for k in range(2, 30)]]


def tensors(dtype: torch.dtype, seed: int, low: float = -2.0, high: float = 2.0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [(torch.rand(size, generator=generator) * (high - low) + low).to(dtype) for size in SIZES]


def to_device(values: object) -> object:
    if isinstance(values, torch.Tensor):
        return values.to("mpsx")
    if isinstance(values, list):
        return [to_device(value) for value in values]
    return values


def check(name: str, *arguments: object, kernels: bool = True, **options: object) -> None:
    """Compare the functional and the in-place variants with the CPU."""
    expected = getattr(torch, f"_foreach_{name}")(*arguments, **options)
    device = to_device(list(arguments))
    with mpsx.profiler.launch_log() as log:
        result = getattr(torch, f"_foreach_{name}")(*device, **options)
    if kernels:
        assert log
        assert all(entry.startswith("kernel:foreach_") for entry in log)
    for got, wanted in zip(result, expected, strict=True):
        assert got.device.type == "mpsx"
        assert got.stride() == wanted.stride()
        torch.testing.assert_close(got.cpu(), wanted, equal_nan=True)
    if hasattr(torch, f"_foreach_{name}_"):
        before = [t._version for t in device[0]]
        getattr(torch, f"_foreach_{name}_")(*device, **options)
        getattr(torch, f"_foreach_{name}_")(*arguments, **options)
        for got, wanted, version in zip(device[0], arguments[0], before, strict=True):
            assert got._version == version + 1
            torch.testing.assert_close(got.cpu(), wanted, equal_nan=True)


def test_every_row_is_covered() -> None:
    assert len(UNARY) >= 7
    assert len(BINARY) >= 9
    assert len(POINTWISE) == 2
    assert (METAL / TABLE).read_text().count("\nMPSX_FOREACH_") == len(UNARY) + len(BINARY) + len(POINTWISE)


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: torch.dtype) -> None:
    positive = name in ("sqrt", "rsqrt")
    check(name, tensors(dtype, 1, low=0.1 if positive else -2.0))


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: torch.dtype) -> None:
    low = 0.2 if name == "pow" else -2.0
    scalars = [0.5 + 0.1 * k for k in range(len(SIZES))]
    check(name, tensors(dtype, 1, low=low), 1.7)
    check(name, tensors(dtype, 1, low=low), 2)
    check(name, tensors(dtype, 1, low=low), scalars)
    other = tensors(dtype, 2, low=0.3)
    check(name, tensors(dtype, 1, low=low), other)
    if name in SCALED:
        # In half precision, the CPU also rounds the product in the tail of a row. Multiplying by a power of two is
        # exact.
        check(name, tensors(dtype, 1), other, alpha=-0.75 if dtype == torch.float32 else -2)


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", ["add", "mul", "div"])
def test_tensor_operand(name: str, dtype: torch.dtype) -> None:
    value = torch.tensor(1.375, dtype=dtype)
    check(name, tensors(dtype, 1), value)
    if name == "add":
        check(name, tensors(dtype, 1), value, alpha=0.5)
    # Pass the scalar as a 0-dim CPU tensor.
    expected = getattr(torch, f"_foreach_{name}")(tensors(dtype, 1), value)
    result = getattr(torch, f"_foreach_{name}")(to_device(tensors(dtype, 1)), value)
    for got, wanted in zip(result, expected, strict=True):
        torch.testing.assert_close(got.cpu(), wanted)


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name: str, dtype: torch.dtype) -> None:
    first, second = tensors(dtype, 2), tensors(dtype, 3, low=0.5)
    scalars = [0.1 * k for k in range(len(SIZES))]
    check(name, tensors(dtype, 1), first, second, value=-0.3)
    check(name, tensors(dtype, 1), first, second, scalars)
    device = to_device([tensors(dtype, 1), first, second])
    result = getattr(torch, f"_foreach_{name}")(*device, torch.tensor(scalars))  # pass the scalars as a CPU tensor
    expected = getattr(torch, f"_foreach_{name}")(tensors(dtype, 1), first, second, torch.tensor(scalars))
    for got, wanted in zip(result, expected, strict=True):
        torch.testing.assert_close(got.cpu(), wanted)


@pytest.mark.parametrize("dtype", FLOAT)
def test_lerp(dtype: torch.dtype) -> None:
    end = tensors(dtype, 2)
    for weight in (0.1, 0.9, 0.5, 1.0, -0.5):
        check("lerp", tensors(dtype, 1), end, weight)
    check("lerp", tensors(dtype, 1), end, [0.03 * k for k in range(len(SIZES))])
    check("lerp", tensors(dtype, 1), end, tensors(dtype, 3, low=0.0, high=1.0))
    assert all(
        torch.equal(got.cpu(), wanted)
        for got, wanted in zip(torch._foreach_lerp(to_device(tensors(dtype, 1)), to_device(end), 1.0), end, strict=True)
    )


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("order", [1, 2, float("inf")])
def test_norm(order: float, dtype: torch.dtype) -> None:
    values = [t for t in tensors(dtype, 1) if t.numel()]
    with mpsx.profiler.launch_log() as log:
        result = torch._foreach_norm(to_device(values), order)
    assert len(log) == 2 * 3  # 34 tensors, up to 14 per launch
    for got, value in zip(result, values, strict=True):
        assert got.shape == ()
        exact = torch.linalg.vector_norm(value.double(), order)
        torch.testing.assert_close(got.cpu(), exact.to(dtype), rtol=torch.finfo(dtype).eps * 4, atol=0)
    bad = [torch.tensor([1.0, float("nan"), 2.0]), torch.tensor([float("-inf"), 1.0])]
    for got, wanted in zip(torch._foreach_norm(to_device(bad), order), torch._foreach_norm(bad, order), strict=True):
        torch.testing.assert_close(got.cpu(), wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOAT)
def test_zero_and_copy(dtype: torch.dtype) -> None:
    device = to_device(tensors(dtype, 1))
    torch._foreach_copy_(device, to_device(tensors(dtype, 2)))
    for got, wanted in zip(device, tensors(dtype, 2), strict=True):
        assert torch.equal(got.cpu(), wanted)
    torch._foreach_copy_(device, to_device(tensors(torch.float32, 3)))  # copies between different dtypes
    for got, wanted in zip(device, tensors(torch.float32, 3), strict=True):
        assert torch.equal(got.cpu(), wanted.to(dtype))
    device[3].fill_(float("nan"))
    torch._foreach_zero_(device)
    assert not any(t.cpu().any() for t in device)


LAYOUTS: list[tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = [
    ("transposed", lambda t: t.t()),
    ("slice", lambda t: t[1:, 2:]),
    ("step", lambda t: t[::2]),
    ("expanded", lambda t: t[:1].expand(6, 8)),
    ("channels_last", lambda t: t.reshape(1, 2, 4, 6).contiguous(memory_format=torch.channels_last)),
]


@pytest.mark.parametrize(("layout", "view"), LAYOUTS)
def test_layouts(layout: str, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    base = torch.arange(48.0).reshape(6, 8)
    other = base.flip(0) + 1

    def run(device: str) -> list[torch.Tensor]:
        lists = [view(base.to(device)), view(base.to(device)) + 0], [view(other.to(device)), view(other.to(device)) * 2]
        results = list(torch._foreach_add(*lists, alpha=2))
        results += torch._foreach_mul(lists[0], 3.0)
        if layout != "expanded":
            torch._foreach_sub_(lists[0], lists[1])
            results += lists[0]
        return results

    for got, wanted in zip(run("mpsx"), run("cpu"), strict=True):
        torch.testing.assert_close(got.cpu(), wanted)


def test_other_dtypes() -> None:
    integers = [torch.arange(5), torch.arange(7)]
    for got, wanted in zip(torch._foreach_add(to_device(integers), 2), torch._foreach_add(integers, 2), strict=True):
        assert torch.equal(got.cpu(), wanted)
    for got, wanted in zip(torch._foreach_div(to_device(integers), 2), torch._foreach_div(integers, 2), strict=True):
        torch.testing.assert_close(got.cpu(), wanted)
    mixed = [torch.ones(3), torch.ones(3, dtype=torch.float16)]
    for got, wanted in zip(torch._foreach_mul(to_device(mixed), 2.5), torch._foreach_mul(mixed, 2.5), strict=True):
        torch.testing.assert_close(got.cpu(), wanted)
    broadcast = torch._foreach_add([torch.ones(2, 3).to("mpsx")], [torch.ones(3).to("mpsx")])
    assert torch.equal(broadcast[0].cpu(), torch.full((2, 3), 2.0))


def test_tensors_per_launch() -> None:
    values = to_device([torch.ones(10) for _ in range(90)])
    with mpsx.profiler.launch_log() as log:
        torch._foreach_mul_(values, 2.0)
    assert list(log) == ["kernel:foreach_mul_scalar_f32"] * 3  # up to 30 tensors per launch
    with mpsx.profiler.launch_log() as log:
        torch._foreach_addcdiv_(values, values, values, 0.5)
    assert len(log) == 9


@pytest.mark.parametrize("arguments", [([], 1.0), ([torch.ones(2)], [1.0, 2.0]), ([torch.ones(2)], [])])
def test_errors(arguments: tuple[object, ...]) -> None:
    with pytest.raises(RuntimeError) as on_cpu:
        torch._foreach_mul(*arguments)
    with pytest.raises(RuntimeError) as on_device:
        torch._foreach_mul(*to_device(list(arguments)))
    assert str(on_device.value) == str(on_cpu.value)


@pytest.mark.parametrize("order", [1.0, 2.0, float("inf")])
def test_clip_grad_norm(order: float) -> None:
    def clipped(device: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
        parameters = [torch.nn.Parameter(t.to(device)) for t in tensors(torch.float32, 1) if t.numel()]
        for parameter in parameters:
            parameter.grad = parameter.detach() * 3
        total = torch.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type=order)
        return total.cpu(), [parameter.grad.cpu() for parameter in parameters]

    with mpsx.fallback.using_mode("silent"):  # clip_grad_norm_ combines the norms with operators that may fall back
        got, wanted = clipped("mpsx"), clipped("cpu")
    torch.testing.assert_close(got, wanted)
