"""Compare every operator that uses the matmul kernels with float64 and the CPU."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_as_accurate
from layouts import on_device
from tables import FLOAT, INT

pytestmark = pytest.mark.usefixtures("only_kernels")

aten = torch.ops.aten
SIZES = [(1, 1, 1), (5, 7, 3), (64, 64, 64), (65, 33, 100), (1, 200, 50), (50, 200, 1), (2, 300, 2), (70, 17, 129)]
MANY_TILES = (520, 21, 517)  # the rows are not aligned


def matrix(rows: int, columns: int, dtype: torch.dtype, layout: str, batch: tuple[int, ...] = ()) -> torch.Tensor:
    """Return random numbers in the given layout. For dtypes that are not floating-point, they are small integers."""

    def fresh(*shape: int) -> torch.Tensor:
        if not dtype.is_floating_point:
            return torch.randint(0, 5, shape).to(dtype)
        return torch.randn(shape).to(dtype)

    if layout == "rows":
        return fresh(*batch, rows, columns)
    if layout == "columns":
        return fresh(*batch, columns, rows).transpose(-1, -2)
    if layout == "gaps":
        return fresh(*batch, 2 * rows + 1, 3 * columns + 2)[..., 1::2, 2::3][..., :rows, :columns]
    if layout == "expanded":
        return fresh(rows, 1).expand(*batch, rows, columns)
    raise ValueError(layout)


def check(function: Callable[..., torch.Tensor], *inputs: object) -> None:
    """Compare the device's result of `function` with the CPU's and with float64."""

    def call(convert: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return function(*(convert(x) if isinstance(x, torch.Tensor) else x for x in inputs))

    got, cpu = call(on_device), call(torch.Tensor.clone)
    if cpu.dtype.is_floating_point:
        assert_as_accurate(got, cpu, call(torch.Tensor.double))
    else:
        assert torch.equal(got.cpu(), cpu)


@pytest.mark.parametrize("dtype", FLOAT, ids=str)
@pytest.mark.parametrize("size", [*SIZES, MANY_TILES], ids=str)
def test_mm(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    m, k, n = size
    for left, right in (("rows", "rows"), ("rows", "columns"), ("columns", "rows"), ("columns", "columns"),
                        ("gaps", "gaps"), ("expanded", "rows")):  # fmt: skip
        check(torch.mm, matrix(m, k, dtype, left), matrix(k, n, dtype, right))


@pytest.mark.parametrize("dtype", INT, ids=str)
def test_integers_wrap_around(dtype: torch.dtype) -> None:
    for m, k, n in ((5, 7, 3), (33, 65, 300), (1, 40, 9), (9, 40, 1), (0, 3, 2), (2, 0, 3)):
        for right in ("rows", "columns"):
            a, b = matrix(m, k, dtype, "rows"), matrix(k, n, dtype, right)
            check(torch.mm, a, b)
            check(torch.addmm, matrix(m, n, dtype, "rows"), a * 5, b * 7)
            check(torch.bmm, matrix(m, k, dtype, "rows", (3,)), matrix(k, n, dtype, right, (3,)))
    check(torch.dot, matrix(1, 50, dtype, "rows")[0], matrix(1, 50, dtype, "rows")[0])


@pytest.mark.parametrize("dtype", FLOAT, ids=str)
def test_empty(dtype: torch.dtype) -> None:
    for m, k, n in ((0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)):
        a, b = matrix(m, k, dtype, "rows"), matrix(k, n, dtype, "rows")
        check(torch.mm, a, b)
        check(torch.addmm, torch.randn(n).to(dtype), a, b)
        check(torch.bmm, a.expand(2, m, k), b.expand(2, k, n))
    check(torch.mv, matrix(3, 0, dtype, "rows"), torch.randn(0).to(dtype))


@pytest.mark.parametrize("dtype", FLOAT, ids=str)
def test_addmm_and_vectors(dtype: torch.dtype) -> None:
    m, k, n = 37, 50, 70
    a, b = matrix(m, k, dtype, "rows"), matrix(k, n, dtype, "columns")
    for c in (matrix(m, n, dtype, "columns"), torch.randn(n).to(dtype), torch.randn(m, 1).to(dtype),
              torch.randn(()).to(dtype)):  # fmt: skip
        check(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-2), c, a, b)
    c = torch.randn(n).to(dtype)
    for gelu in (False, True):
        check(lambda c, a, b, gelu=gelu: torch._addmm_activation(c, a, b, use_gelu=gelu), c, a, b)
    check(lambda c, a, v: torch.addmv(c, a, v, beta=3, alpha=0.5), c[:m], a, torch.randn(k).to(dtype))
    check(torch.mv, b, torch.randn(n).to(dtype))
    check(torch.dot, torch.randn(3000).to(dtype), torch.randn(6000).to(dtype)[::2])
    check(torch.vdot, torch.randn(30).to(dtype), torch.randn(30).to(dtype))
    check(lambda c, a, b: torch.addr(c, a, b, beta=2, alpha=3), matrix(5, 9, dtype, "columns"),
          torch.randn(5).to(dtype), torch.randn(9).to(dtype))  # fmt: skip
    u, v = torch.randn(10).to(dtype), torch.randn(9).to(dtype)
    for start in (matrix(10, 9, dtype, "rows"), matrix(10, 9, dtype, "columns"), v, torch.randn(10, 1).to(dtype)):
        check(torch.addr, start, u, v)
        check(torch.addr, start, u.flip(0)[::2].repeat_interleave(2), torch.randn(18).to(dtype)[::2])
        check(lambda c, a, b: torch.addr(torch.full_like(c, torch.nan), a, b, beta=0), start, u, v)
        check(lambda c, a, b: c.expand(10, 9).clone().t().addr_(b, a, alpha=0.5), start, u, v)
    check(F.linear, torch.randn(2, 3, k).to(dtype), matrix(n, k, dtype, "rows"), c)
    # With beta = 0, the kernel must not read the NaN input.
    nothing = torch.full((m, n), torch.nan, device="mpsx", dtype=dtype)
    assert not torch.addmm(nothing, on_device(a), on_device(b), beta=0).isnan().any()


@pytest.mark.parametrize("dtypes", ["bbb", "lib", "fbf"])
def test_addr_without_a_kernel(dtypes: str) -> None:
    """For mixed dtypes and for dtypes without a kernel, all three variants of addr call other operators."""
    types = {"b": torch.bool, "f": torch.float32, "l": torch.int64, "i": torch.int32}
    c, a, b = (torch.randint(0, 2, size).to(types[t]) for t, size in zip(dtypes, [(4, 3), (4,), (3,)], strict=True))
    check(torch.addr, c, a, b)
    want = torch.addr(c, a, b)
    out = torch.empty(0, dtype=want.dtype, device="mpsx")
    assert torch.equal(torch.addr(*map(on_device, (c, a, b)), out=out).cpu(), want)
    with pytest.raises(RuntimeError, match="addr"):
        on_device(c[:1]).addr_(on_device(a), on_device(b))


def test_addr_multiplies_in_the_common_type() -> None:
    a, b = torch.tensor([4.5625]), torch.tensor([-1.8125, 3.0])  # the first product is rounded to bfloat16
    for self_type, type_ in ((torch.float32, torch.bfloat16), (torch.bfloat16, torch.float16)):
        check(torch.addr, torch.ones(1, 2, dtype=self_type), a.to(type_), b.to(type_))


@pytest.mark.parametrize("dtype", FLOAT, ids=str)
@pytest.mark.parametrize("layout", ["rows", "columns", "gaps", "expanded"])
def test_batches(layout: str, dtype: torch.dtype) -> None:
    a, b = matrix(33, 20, dtype, layout, (3,)), matrix(20, 70, dtype, "rows", (3,))
    check(torch.bmm, a, b)
    check(torch.bmm, a, b[:1].expand(3, 20, 70))
    check(torch.bmm, a[:, :1], b)
    check(torch.bmm, a, b[:, :, :1])
    check(lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), torch.randn(3, 1, 70).to(dtype), a, b)
    check(lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2), torch.randn(70).to(dtype), a, b)
    check(torch.matmul, torch.randn(2, 1, 5, 20).to(dtype), b)


def test_out_and_in_place() -> None:
    a, b, c = torch.randn(20, 30), torch.randn(30, 40), torch.randn(20, 40)
    x, y, z = (t.to("mpsx") for t in (a, b, c))
    for out in (torch.empty(20, 40, device="mpsx"), torch.empty(40, 20, device="mpsx").t(),
                torch.empty(20, 80, device="mpsx")[:, ::2], torch.empty(0, device="mpsx")):  # fmt: skip
        assert torch.mm(x, y, out=out) is out
        torch.testing.assert_close(out.cpu(), a @ b)
    z.addmm_(x, y, beta=2)
    torch.testing.assert_close(z.cpu(), torch.addmm(c, a, b, beta=2))
    # Use one tensor as both an operand and the result.
    square = torch.randn(40, 40)
    s = square.to("mpsx")
    torch.mm(s, s, out=s)
    torch.testing.assert_close(s.cpu(), square @ square)
    s = square.to("mpsx")
    torch.addmm(s.t(), s, s, out=s)
    torch.testing.assert_close(s.cpu(), torch.addmm(square.t(), square, square))
    w = square.to("mpsx").addbmm_(torch.randn(0, 40, 5, device="mpsx"), torch.randn(0, 5, 40, device="mpsx"))
    torch.testing.assert_close(w.cpu(), square)


def test_errors() -> None:
    a, b = torch.randn(3, 4, device="mpsx"), torch.randn(5, 6, device="mpsx")
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.mm(a, b)
    with pytest.raises(RuntimeError, match="expected m1 and m2 to have the same dtype"):
        torch.mm(a, torch.randn(4, 2, device="mpsx", dtype=torch.half))
    with pytest.raises(RuntimeError, match="same number of elements"):
        torch.dot(a[0], b[0])
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        torch.mm(a, a.t(), out=torch.empty(3, 3, device="mpsx", dtype=torch.half))


@pytest.mark.parametrize("dtype", FLOAT, ids=str)
def test_gradients(dtype: torch.dtype) -> None:
    c, a, b = torch.randn(70), torch.randn(33, 50), torch.randn(70, 50)

    def gradients(device: str, compute_dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [t.to(dtype).to(compute_dtype).to(device).requires_grad_() for t in (c, a, b)]
        y = F.linear(leaves[1], leaves[2], leaves[0])
        return [y.detach(), *torch.autograd.grad(y.square().sum() / 2, leaves)]

    for got, cpu, exact in zip(gradients("mpsx", dtype), gradients("cpu", dtype), gradients("cpu", torch.double),
                               strict=True):  # fmt: skip
        assert_as_accurate(got, cpu, exact)


def test_int8_weights() -> None:
    for dtype in FLOAT:
        for rows in (1, 40):
            x, scales = torch.randn(rows, 64).to(dtype), (torch.rand(48) / 100).to(dtype)
            weight = torch.randint(-128, 128, (48, 64), dtype=torch.int8)
            got = torch._weight_int8pack_mm(x.to("mpsx"), weight.to("mpsx"), scales.to("mpsx"))
            exact = (x.double() @ weight.double().t()) * scales.double()
            torch.testing.assert_close(got.cpu(), exact.to(dtype))
    a, b = (torch.randint(-128, 128, (40, 40), dtype=torch.int8) for _ in range(2))
    got = torch._int_mm(a.to("mpsx"), b.to("mpsx").t())
    assert torch.equal(got.cpu(), (a.int() @ b.t().int()))


@pytest.mark.sweep
def test_random_sizes() -> None:
    numbers = random.Random(0)
    for _ in range(300):
        m, k, n = (numbers.choice([1, numbers.randint(1, 40), numbers.randint(1, 300)]) for _ in range(3))
        dtype, left, right = (numbers.choice(x) for x in (FLOAT, *[("rows", "columns", "gaps", "expanded")] * 2))
        check(lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), matrix(m, n, dtype, "rows", (2,)),
              matrix(m, k, dtype, left, (2,)), matrix(k, n, dtype, right, (2,)))  # fmt: skip


def test_large_k() -> None:
    """The error must not grow with K."""
    for m, n in ((3, 3), (1, 3), (3, 1), (1, 1)):
        check(torch.mm, torch.rand(m, 20000), torch.rand(20000, n))
        check(torch.mm, torch.rand(m, 20000), torch.rand(n, 20000).t())


def complex_matrix(rows: int, columns: int, layout: str, batch: tuple[int, ...] = ()) -> torch.Tensor:
    parts = [matrix(rows, columns, torch.float32, layout, batch) for _ in range(2)]
    return torch.complex(*parts)


def assert_complex_as_accurate(ours: torch.Tensor, cpu: torch.Tensor, exact: torch.Tensor) -> None:
    """Require the real and imaginary parts to be as accurate as the CPU's."""
    assert_as_accurate(*(torch.view_as_real(t.resolve_conj()) for t in (ours, cpu, exact)))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_complex_matmuls(size: tuple[int, int, int]) -> None:
    m, k, n = size
    a, b, c = complex_matrix(m, k, "rows"), complex_matrix(k, n, "columns"), complex_matrix(m, n, "rows")
    batches = complex_matrix(m, k, "rows", (3,)), complex_matrix(k, n, "gaps", (3,))
    calls = {
        "mm": (torch.mm, a, b),
        "conjugated": (lambda x, y: x.conj() @ y, a, b),
        "adjoint": (lambda x, y: (y.mH @ x.mH), a, b),
        "bmm": (torch.bmm, *batches),
        "addmm": (lambda x, y, z: torch.addmm(x, y, z, alpha=2 - 1j, beta=0.5j), c, a, b),
        "baddbmm": (lambda x, y, z: torch.baddbmm(x, y, z, beta=2), c, *batches),
        "mv": (lambda x, y: torch.mv(x, y[:, 0]), a, b),
        "dot": (lambda x, y: torch.dot(x[0], y[:, 0]), a, b),
        "vdot": (lambda x, y: torch.vdot(x[0], y[:, 0]), a, b),
        "in place": (lambda x, y: torch.addmm(x, y, y.mH, out=x), complex_matrix(m, m, "rows"), a),
    }
    for function, *inputs in calls.values():
        ours = function(*(on_device(x).clone() for x in inputs)).cpu()
        cpu, exact = function(*(x.clone() for x in inputs)), function(*(x.cdouble() for x in inputs))
        assert_complex_as_accurate(ours, cpu, exact)


def test_gradients_of_complex_matmuls() -> None:
    a, b = complex_matrix(7, 30, "rows"), complex_matrix(30, 5, "rows")

    def gradients(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaves = [t.detach().requires_grad_() for t in (x, y)]
        (leaves[0] @ leaves[1]).abs().square().sum().backward()
        return tuple(t.grad for t in leaves)

    for triple in zip(gradients(on_device(a), on_device(b)), gradients(a, b), gradients(a.cdouble(), b.cdouble()),
                      strict=True):  # fmt: skip
        assert_complex_as_accurate(*(t.cpu() for t in triple))
