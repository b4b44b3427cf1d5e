"""On the host driver, generated kernels are loops over contiguous elements without divisions."""

from __future__ import annotations

from processes import run_compiled

# Statistics of channels and changes of layout, with numbers of channels that are and are not multiples of a vector.
LAYOUTS = """
import re

import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code
from torch.utils._pytree import tree_leaves as leaves

import mpsx

CL, PLAIN = torch.channels_last, torch.contiguous_format
CASES = [((2, 64, 64, 64), CL), ((2, 96, 64, 64), CL), ((2, 80, 9, 7), CL), ((3, 33, 16, 16), CL),
         ((64, 32, 3, 3), PLAIN), ((2, 48, 40, 40), PLAIN)]

def moved(x):
    return (x * 2).contiguous(memory_format=CL) + 1, (x + 1).contiguous() * 2, (x.permute(1, 3, 0, 2) + 1).contiguous()

def reduced(x):
    y = F.relu(F.batch_norm(x, None, None, training=True))
    return y, x.sum((0, 2, 3)), torch.var_mean(x, (0, 2, 3)), (x * x).amax((0, 2, 3))

torch.manual_seed(0)
for shape, layout in CASES:
    x = (torch.randn(shape) * 3 + 1).contiguous(memory_format=layout)
    for function, limits in (moved, {"rtol": 0, "atol": 0}), (reduced, {"rtol": 1e-5, "atol": 1e-3}):
        name = f"{function.__name__} {shape} {layout}"
        found, code = run_and_get_code(torch.compile(function), x.to("mpsx"))
        for got, want in zip(leaves(found), leaves(function(x.double())), strict=True):
            assert got.stride() == want.stride(), name
            torch.testing.assert_close(got.cpu(), want.float(), **limits, msg=lambda m: f"{name}: {m}")
        loops = re.findall(r"lane < lanes; \\+\\+lane\\) {(.*?)}", "".join(code), re.S)
        assert loops, name
        if shape[1] % 16 == 0:
            assert not re.search("%|floor_divide", "".join(loops)), f"{name} divides: {code}"
print("compared")
"""

# Pooling calls the eager kernels, also in backward.
POOLING = """
import torch.nn.functional as F

import mpsx

def pool(x):
    return F.max_pool2d(F.relu(x), 3, 2, 1)

torch.manual_seed(0)
x = torch.randint(-3, 4, (2, 5, 12, 14)).float().to("mpsx").contiguous(memory_format=torch.channels_last)
a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
y = pool(a)
with mpsx.profiler.launch_log() as log:
    z = torch.compile(pool)(b)
    z.backward(y.detach())
y.backward(y.detach())
assert torch.equal(y, z) and torch.equal(a.grad, b.grad)
pools = [name for name in log if "pool" in name]
assert len(pools) == 2, log
print("compared")
"""

# Indices that differ between rows, between the elements of a row, under a mask, and in a store. No loop returns early.
INDICES = """
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

import mpsx

table, column = torch.randn(10, 64, device="mpsx"), torch.randn(10, device="mpsx")
x, zeros = torch.randn(64, device="mpsx"), torch.zeros(10, device="mpsx")
CASES = [(lambda i: table[i] * 2, 1), (lambda i: F.layer_norm(table[i], (64,)), 3), (lambda i: column[i].sum(), 1),
         (lambda i: column[i.view(2, 32).t().contiguous()] * 2, 1), (lambda i: F.pad(column[i] * x, (8, 8)).sum(), 1),
         (lambda i: zeros.index_put((i,), x[0] * 3) + 1, 0)]
for number, (function, loops) in enumerate(CASES):
    compiled = torch.compile(function)
    for last in (9, -10, 10, -11):
        index, valid = torch.tensor([3, 0, *[1] * 61, last], device="mpsx"), -10 <= last < 10
        try:
            found, (code,) = run_and_get_code(compiled, index)
        except torch.AcceleratorError as error:
            text = f"Index {last + 10 * (last < 0)} out of range [0, 10)"
            assert not valid and text in str(error), (number, last, error)
            continue
        assert valid, (number, last)
        torch.testing.assert_close(found.cpu(), function(index).cpu())
        if last == 9:
            assert "return;" not in code and code.count("vectorize(assume_safety)") == loops, (number, code)

kept = torch.full((5,), 7.0, device="mpsx")
put = torch.compile(lambda x, i, v: x.index_put_((i,), v + v))
try:
    put(kept, torch.tensor([1, 9], device="mpsx"), torch.ones(2, device="mpsx"))
except torch.AcceleratorError as error:
    assert "Index 9 out of range [0, 5)" in str(error)
else:
    raise AssertionError("no error")
assert kept[torch.tensor([0, 2, 3, 4])].tolist() == [7] * 4, kept  # the value for index 9 is nowhere

@torch.compile
def checked(x):
    torch.ops.aten._assert_async.msg((x > 0).all(), 'expected "positive" numbers')
    return x + 1

checked(x.abs() + 1).cpu()
try:
    checked(-x.abs()).cpu()
except (torch.AcceleratorError, RuntimeError) as error:
    assert 'expected "positive" numbers' in str(error)
else:
    raise AssertionError("no error")
print("compared")
"""

# The second pass over a row reuses the values of the first one.
PASSES = """
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

import mpsx

def normalized(x):
    kept = F.dropout(x, 0.25)
    return F.layer_norm(kept + 1, (x.shape[-1],)), kept.sum(-1)

x = torch.randn(40, 768, device="mpsx")
torch.manual_seed(1)
(found, total), (code,) = run_and_get_code(torch.compile(normalized), x)
assert code.count("rand(") == 1, code
torch.manual_seed(1)
kept = torch.compile(lambda x: F.dropout(x, 0.25))(x)
torch.testing.assert_close(found, F.layer_norm(kept + 1, (768,)))
torch.testing.assert_close(total, kept.sum(-1))
print("compared")
"""

# One innermost loop has no divisor that is a good block, and its outer loop leaves a remainder.
BLOCKS = """
from torch._inductor.utils import run_and_get_code

import mpsx

def padded(x):
    return torch.zeros(3, 7, x.shape[-1], device="mpsx").slice_scatter(x * 2, 1, 0, 7, 3) - 1

for length in (30522, 5087, 4096, 997, 37, 16):
    x = torch.randn(3, 3, length)
    found, (code,) = run_and_get_code(torch.compile(padded), x.to("mpsx"))
    want = torch.full((3, 7, length), -1.0)
    want[:, ::3] = x * 2 - 1
    assert torch.equal(found.cpu(), want) and "vectorize(assume_safety)" in code, (length, code)
x = torch.randn(5, 24, 11, 32)
for order in (0, 2, 1, 3), (3, 1, 0, 2), (2, 3, 1, 0):
    found = torch.compile(lambda x: (x.permute(order) + 1).contiguous())(x.to("mpsx"))
    assert torch.equal(found.cpu(), (x + 1).permute(order)), order
print("compared")
"""

# Concatenations write each input in a loop of its own, and the loop that uses a sum with a product adds it.
CHOICES = """
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

import mpsx

def joined(x, y):
    return torch.cat([x * 2, y.t() + 1, x - y.t()], 1) * 3

def added(x, y):
    return F.gelu(x @ y + x), torch.addmm(x[0], x, y)

x, y = torch.randn(64, 64, device="mpsx"), torch.randn(64, 64, device="mpsx")
found, (code,) = run_and_get_code(torch.compile(joined), x, y)
assert torch.equal(found, joined(x, y))
# mpsx sets this option to avoid the branches. PyTorch before 2.13 does not have it.
assert " if (" not in code or not hasattr(torch._inductor.config, "max_complex_pointwise_cat_inputs"), code
found, (code,) = run_and_get_code(torch.compile(added), x, y)
for a, b in zip(found, added(x, y)):
    torch.testing.assert_close(a, b)
assert code.count("extern_kernels.mm(") == 1 and code.count("extern_kernels.addmm(") == 1, code
print("compared")
"""


def compare(script: str) -> None:
    done = run_compiled(script, MPSX_DRIVER="host")
    assert done.returncode == 0 and done.stdout == "compared\n", done.stdout[-3000:] + done.stderr[-3000:]


def test_indices() -> None:
    """Loops with checks of indices are vectorized, and errors report the index and the size."""
    compare(INDICES)


def test_two_passes() -> None:
    """A kernel that normalizes rows draws its random numbers once."""
    compare(PASSES)


def test_blocks_of_loops() -> None:
    """Threads process all elements, also where the last block of a loop is shorter."""
    compare(BLOCKS)


def test_choices() -> None:
    """Concatenations have no branches. GEMMs add vectors but not matrices."""
    compare(CHOICES)


def test_layouts_of_channels() -> None:
    """Reductions of channels and changes of layout agree with the CPU, and their loops do not divide."""
    compare(LAYOUTS)


def test_pooling_is_eager() -> None:
    """Compiled max pooling equals the eager one bit for bit, ties included."""
    compare(POOLING)


# Random terms of both signs would hide the rounding errors of a long sum.
LONG_SUMS = """
SUMS = [((1000003,), 0), ((4, 300000), 1), ((100000, 16), 0), ((64, 70, 300), (0, 2)), ((9000, 3, 40), (0, 2))]
for shape, dims in SUMS:
    x = torch.full(shape, 1.0001, device="mpsx")
    for function in (lambda x: x.sum(dims), lambda x: (x * x).mean(dims), lambda x: torch.var_mean(x, dims)[1]):
        exact = function(x.cpu().double())
        eager, compiled = (((f(x).cpu() - exact) / exact).abs().max() for f in (function, torch.compile(function)))
        assert compiled <= 2 * eager + 2e-6, (shape, dims, eager, compiled)
print("compared")
"""


def test_long_sums_are_as_accurate_as_eager_ones() -> None:
    done = run_compiled(LONG_SUMS, MPSX_DRIVER="host")
    assert done.stdout == "compared\n", done.stdout + done.stderr
