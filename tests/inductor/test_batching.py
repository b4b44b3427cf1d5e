"""Small kernels that share no data become one kernel on drivers with SIMD groups."""

from __future__ import annotations

from processes import run_compiled

SCRIPT = """
import torch.nn as nn

import mpsx
from mpsx.inductor import batching

def launches(function, *arguments):
    with mpsx.profiler.launch_log() as log:
        function(*arguments)
    return sum("generated" in name for name in log)

def compare(function, *inputs):
    # Return the number of generated kernels.
    torch._dynamo.reset()
    compiled, copies = torch.compile(function), [x.clone() for x in inputs]
    for found, expected in zip(compiled(*copies), function(*inputs), strict=True):
        torch.testing.assert_close(found, expected)
    for found, expected in zip(copies, inputs, strict=True):
        torch.testing.assert_close(found, expected)
    return launches(compiled, *copies)

def count(*counters):
    return [counter.add_(1) for counter in counters]

def sums(a, b, c):
    return a.t().sum(-1), b.t().sum(-1), (c * 2).t().sum(-1)

def chain(a, b, w):  # each small kernel needs a matmul that needs the small kernel before
    s = (a + 1) @ w
    t = (b * 2) @ (s * 3)
    return s, t, (t + b) * 2, a * 5

def updates(a, b, c):  # the kernel that reads `a` must run before the one that updates it
    d = (a * 2) @ c
    a.add_(b)
    e = (b * 3) @ d
    b.mul_(e)
    return d, e

torch.manual_seed(0)
counters = [torch.tensor(i, device="mpsx") for i in range(30)]
matrices = [torch.randn(8, 8).to("mpsx") for _ in range(3)]
columns = [torch.randn(40, 64).to("mpsx") for _ in range(3)]
# Under autocast, one kernel converts all weights that are saved, and one converts all gradients, whatever their size.
batching.MAX_ELEMENTS = 64
layers = nn.Sequential(*[nn.Linear(16, 16, bias=False) for _ in range(5)]).to("mpsx")
compiled, x = torch.compile(layers), torch.randn(4, 16, device="mpsx")

def step():
    with torch.autocast("mpsx", torch.bfloat16):
        y = compiled(x)
    layers.zero_grad()
    y.sum().backward()

step()
found = launches(step)
gradients = [layer.weight.grad.clone() for layer in layers]
compiled = layers
step()
for layer, gradient in zip(layers, gradients, strict=True):
    assert torch.equal(layer.weight.grad, gradient)
batching.MAX_ELEMENTS = 2**18
print(found, compare(count, *counters), compare(sums, *columns), compare(chain, *matrices), compare(updates, *matrices))
"""


def test_small_kernels(simt_library: object) -> None:
    """Independent kernels of equal sizes are fused, and dependent ones run in order."""
    done = run_compiled(SCRIPT, MPSX_DRIVER="simt")
    assert done.returncode == 0, done.stderr[-3000:]
    conversions, counters, sums, *_ = map(int, done.stdout.split())
    assert conversions == 4  # of the input, the first weight, the weights that the backward pass reads, and gradients
    assert counters <= 3 and sums == 1  # a Metal kernel has at most 31 buffers
