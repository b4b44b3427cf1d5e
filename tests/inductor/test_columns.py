"""On drivers with SIMD groups, compiled reductions of columns use the whole device and coalesced accesses, and they are
as accurate as eager ones."""

from __future__ import annotations

import json
import os

import pytest
from processes import run_compiled

# Profiles the kernels of compiled functions. The inputs are large enough to split their reductions.
PROFILE = """
import json
import math

from torch.nn import functional as F

import mpsx
from mpsx.inductor import choices

def batch_norm_backward(x, g, mean):
    return g.sum((0, 2, 3)), (g * (x - mean)).sum((0, 2, 3))

def of(*shape, dtype=torch.float32):
    return torch.randint(-3, 4, shape).to(dtype)

def channels_last(*shape):
    return of(*shape).to(memory_format=torch.channels_last)

CASES = {
    "rows": (lambda x: x.sum(-1), of(1, 2**19)),
    "rows of bfloat16": (lambda x: torch.var_mean(x, -1), of(2, 2**18, dtype=torch.bfloat16)),
    "columns": (lambda x: x.t().sum(-1), of(16384, 64)),
    "few columns": (lambda x: x.amax(0), of(2**15, 8)),
    "columns of bfloat16": (lambda x: x.t().sum(-1), of(16384, 64, dtype=torch.bfloat16)),
    "moments of columns": (lambda x: torch.var_mean(x, 0), of(16384, 64)),
    "batch norm": (lambda x: torch.var_mean(x, (0, 2, 3)), channels_last(4, 64, 64, 64)),
    "batch norm backward": (batch_norm_backward, channels_last(4, 64, 64, 64), channels_last(4, 64, 64, 64),
                            of(64, 1, 1)),
    "many columns": (lambda x: x.t().sum(-1), of(64, 8192)),
}
for name, (function, *inputs) in CASES.items():
    torch._dynamo.reset()
    compiled, inputs = torch.compile(function), [x.to("mpsx") for x in inputs]
    compiled(*inputs)
    launches = mpsx.profiler.profile_kernel(lambda: compiled(*inputs)).launches
    kernels = [(math.prod(x.groups), math.prod(x.group), x.read.moved, x.device.bytes_per_lane, x.transactions,
                x.threadgroup.transactions / x.simdgroups) for x in launches]
    print(json.dumps([name, choices.processors(), sum(x.nbytes for x in inputs), kernels]))
"""


def test_large_reductions_use_the_device(simt_library: object) -> None:
    """Reductions with few outputs are split among the device's cores, and adjacent threads load adjacent vectors. The
    threads of a threadgroup share the work of combining their results."""
    done = run_compiled(PROFILE, MPSX_DRIVER="simt", MPSX_SIMT_PROFILE=os.devnull)
    assert done.returncode == 0, done.stderr[-3000:]
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(cases) == 9
    for name, cores, size, kernels in cases:
        large = [kernel for kernel in kernels if kernel[2] > size / 16]  # the others add the results of parts
        assert large and sum(kernel[2] for kernel in large) <= size * 1.02, (name, kernels)  # inputs are loaded once
        for groups, threads, _, bytes_per_lane, transactions, shared in large:
            assert groups >= cores / 2 and threads >= 128, (name, kernels)
            assert bytes_per_lane > 15 and transactions < 1.05, (name, kernels)
            assert shared <= 66, (name, kernels)  # two passes of rows have 66


# Compares compiled functions of columns with float64 and, where values are not finite, with eager mode.
VALUES = """
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves as leaves

import mpsx

FLOATS = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "moments": lambda x: torch.var_mean(x, -1),
    "extrema": lambda x: (x.amax(-1), x.argmax(-1), x.amin(-1), x.argmin(-1)),
    "product": lambda x: (x.float() * 0.01 + 1).prod(-1),
    "any": lambda x: (x > 2).any(-1),
    "centered": lambda x: (x.float() - x.float().mean(-1, keepdim=True)).abs().sum(-1),
    "independent": lambda x: (x.float().sum(-1), (x.float() * 2).abs().sum(-1)),
}
INTEGERS = {
    "sum": lambda x: x.sum(-1),
    "extrema": lambda x: (x.amax(-1), x.amin(-1), x.argmax(-1), x.argmin(-1)),
    "product": lambda x: (x %% 3 + 1).prod(-1),
    "any": lambda x: (x == 7).any(-1),
}
SHAPES = [(1, 3), (2, 1), (7, 5), (33, 130), (300, 3), (64, 32), (1025, 17), (5000, 12), (4099, 33)]
# Errors relative to the result's precision, and in float32 relative to the sum of the absolute values.
OF_RESULT, OF_SUM, OF_PRODUCT = 1, 2e-6, 1e-4

def check(name, got, want, eager, x):
    # Integers, extrema, and values that are not finite must be equal to eager ones.
    assert got.dtype == eager.dtype and got.shape == eager.shape, name
    got, eager = got.cpu(), eager.cpu()
    assert torch.equal(got.isnan(), eager.isnan()), (name, got, eager)
    exact = ~eager.isnan()
    if got.is_floating_point() and "extrema" not in name:
        exact &= ~eager.isfinite()
    assert torch.equal(got[exact], eager[exact]), (name, got, eager)
    if got.is_floating_point():
        error, want = (got.double() - want.double()).abs(), want.double().abs()
        limit = OF_PRODUCT * want if "product" in name else OF_SUM * x.double().nan_to_num(0, 0, 0).abs().sum(-1)
        limit = limit + OF_RESULT * torch.finfo(got.dtype).eps * want
        assert (error <= limit)[eager.isfinite()].all(), (name, error, limit)

torch.manual_seed(0)
number = %d
for dtype, dynamic in %s:
    for name, function in (FLOATS if dtype.is_floating_point else INTEGERS).items():
        torch._dynamo.reset()
        compiled = torch.compile(function, dynamic=dynamic)
        number += 1
        for rows, columns in SHAPES if dynamic else [SHAPES[number %% len(SHAPES)]]:
            if dtype.is_floating_point:
                x = (torch.randn(rows, columns) + torch.arange(columns)).to(dtype)
                for i, value in enumerate((float("inf"), -float("inf"), float("nan"))):
                    x[(i * 7) %% rows, i %% columns] = value
                x[-1, -1] = float("inf")
            else:
                x = torch.randint(-50, 50, (rows, columns), dtype=dtype)
            x, device = x.t(), x.to("mpsx").t()  # a sum over the first dimension would call the eager kernel
            wide = x.double() if dtype.is_floating_point else x
            for got, want, eager in zip(leaves(compiled(device)), leaves(function(wide)), leaves(function(device)),
                                        strict=True):
                check(f"{name} {dtype} {rows}x{columns} {dynamic}", got, want, eager, x)
print("compared")
"""


# Pairs of a dtype, and whether shapes are dynamic.
SAMPLE = "(torch.float32, False), (torch.int64, False), (torch.bfloat16, True)"
ALL = f"{SAMPLE}, (torch.bfloat16, False), (torch.float16, True), (torch.float32, True), (torch.int32, True)"


@pytest.mark.parametrize(("first", "pairs"), [
    pytest.param(0, SAMPLE, id="sample"),
    *(pytest.param(first, ALL, id=f"all-{first}", marks=pytest.mark.sweep) for first in range(9)),
])  # fmt: skip
def test_columns(simt_library: object, first: int, pairs: str) -> None:
    """Compiled reductions of columns agree with float64, and with eager mode where values are not finite."""
    done = run_compiled(VALUES % (first, pairs), MPSX_DRIVER="simt")
    assert done.returncode == 0 and done.stdout == "compared\n", done.stderr[-3000:]


# Batch norm in channels-last format, alone and after an addition that its kernels can include.
BATCH_NORM = """
from torch.nn import functional as F

import mpsx

def run(function, x, y, g, weight, bias, device, dtype):
    mean, var = torch.zeros_like(bias).to(device, dtype), torch.ones_like(bias).to(device, dtype)
    inputs = [t.to(device) for t in (x, y, weight, bias)]
    inputs = [(t.double() if dtype == torch.float64 else t).requires_grad_() for t in inputs]
    out = function(*inputs, mean, var)
    out.backward(g.to(device, out.dtype))
    return [t.detach().cpu().double() for t in (out, mean, var, *(t.grad for t in inputs))]

def residual(x, y, weight, bias, mean, var):
    return torch.relu(F.batch_norm(x + y, mean, var, weight, bias, training=True))

def plain(x, y, weight, bias, mean, var):
    return F.batch_norm(x, mean, var, weight, bias, training=True) + y

SHAPES = (2, 5, 3, 7), (3, 64, 9, 9), (4, 20, 33, 33), (8, 32, 24, 24)
STATIC_SHAPES = SHAPES[%s]
torch.manual_seed(0)
for dynamic in False, True:
    for function in residual, plain:
        torch._dynamo.reset()
        compiled = torch.compile(function, dynamic=dynamic)
        # Without dynamic shapes, each shape and dtype is a compilation.
        for n, c, h, w in SHAPES if dynamic else STATIC_SHAPES:
            for dtype in (torch.float32, torch.bfloat16):
                x, y, g = (torch.randn(n, c, h, w).to(dtype).to(memory_format=torch.channels_last) for _ in range(3))
                x, weight, bias = x + 3, torch.rand(c) + 0.5, torch.randn(c)
                want = run(function, x, y, g, weight, bias, "cpu", torch.float64)
                eager = run(function, x, y, g, weight, bias, "mpsx", torch.float32)
                found = run(compiled, x, y, g, weight, bias, "mpsx", torch.float32)
                for i, (a, e, b) in enumerate(zip(found, eager, want, strict=True)):
                    scale = b.abs().max() + 1
                    errors = [((t - b).abs().mean() / scale).item() for t in (a, e)]
                    assert errors[0] <= errors[1] * 2 + 2e-7, (function, (n, c, h, w), dtype, i, errors)
print("compared")
"""


@pytest.mark.parametrize("static_shapes", ["1:3", pytest.param(":", marks=pytest.mark.sweep)], ids=["sample", "all"])
def test_batch_norm(simt_library: object, static_shapes: str) -> None:
    """Compiled batch norms and their gradients are as accurate as eager ones."""
    done = run_compiled(BATCH_NORM % static_shapes, MPSX_DRIVER="simt")
    assert done.returncode == 0 and done.stdout == "compared\n", done.stderr[-3000:]


# Variances of columns whose moments are sensitive to rounding, relative to float64. Kernels for (16384, 64) and dynamic
# shapes are split: the first ones store means, which are rounded.
DEVIATIONS = """
import mpsx

def moments(x):
    return torch.var_mean(x.float(), 0)

def check(compiled, x, limit, name):
    want, found = moments(x.double()), [t.cpu().double() for t in compiled(x.to("mpsx"))]
    error, of_mean = (found[0] / want[0] - 1).abs().max(), (found[1] - want[1]).abs()
    assert error < limit, (name, *x.shape, error)
    assert (of_mean <= 2e-7 * want[1].abs() + 1e-6 * want[0].sqrt()).all(), (name, *x.shape, of_mean.max())

torch.manual_seed(0)
for dynamic in False, True:
    for shape in (257, 40), (3000, 64), (16384, 64):
        torch._dynamo.reset()
        compiled = torch.compile(moments, dynamic=dynamic)
        x, first = torch.randn(shape), torch.zeros(shape)
        first[0] = 1000
        split = dynamic or shape[0] > 4096
        check(compiled, x + 1e5, 2e-4 if split else 1e-6, "far from 0")
        check(compiled, (x + 1000).half(), 1e-6, "far from 0 in float16")
        check(compiled, (x + 100).bfloat16(), 1e-6, "far from 0 in bfloat16")
        check(compiled, (x + first).bfloat16(), 1e-5, "first row far from the others")
        check(compiled, x + torch.linspace(-9, 9, shape[0])[:, None], 2e-6, "ascending")
        var, mean = compiled((x * 1e30).to("mpsx"))
        assert (var.cpu() == float("inf")).all() and mean.isfinite().all()
        var, mean = compiled(torch.full(shape, 0.1, device="mpsx"))
        assert (var.cpu() == 0).all() and (mean.cpu() == torch.tensor(0.1)).all()
print("compared")
"""


def test_deviations(simt_library: object) -> None:
    """Variances are accurate even if the mean is much larger than the deviations, or the first row is an outlier."""
    done = run_compiled(DEVIATIONS, MPSX_DRIVER="simt")
    assert done.returncode == 0 and done.stdout == "compared\n", done.stderr[-3000:]
