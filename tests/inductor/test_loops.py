"""On the host driver, generated kernels are loops over contiguous elements without divisions."""

from __future__ import annotations

from processes import run_in_subprocess

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


def test_layouts_of_channels() -> None:
    """Reductions of channels and changes of layout agree with the CPU, and their loops do not divide."""
    done = run_in_subprocess(LAYOUTS, MPSX_DRIVER="host")
    assert done.returncode == 0 and done.stdout == "compared\n", done.stdout[-3000:] + done.stderr[-3000:]


def test_pooling_is_eager() -> None:
    """Compiled max pooling equals the eager one bit for bit, ties included."""
    done = run_in_subprocess(POOLING, MPSX_DRIVER="host")
    assert done.returncode == 0 and done.stdout == "compared\n", done.stderr[-3000:]
