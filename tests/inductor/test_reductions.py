"""On drivers with SIMD groups, compiled variances and reductions of 64-bit integers use metal/lib. The simt driver
rejects reads of lanes that a SIMD group does not have."""

from __future__ import annotations

import pytest
from processes import run_compiled

# Lengths of one SIMD group, of several, of partial ones, and of more than a threadgroup.
SCRIPT = """
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves as leaves

import mpsx

LENGTHS = (1, 7, 32, 33, 64, 500, 768, 1023, 1024, 1025, 5000)
STATIC_LENGTHS = %s  # each one is a compilation
INTEGERS = [lambda x: x.sum(-1), lambda x: (x %% 3 + 1).prod(-1), lambda x: x.amax(-1), lambda x: x.amin(-1),
            lambda x: (x // 7).argmax(-1), lambda x: (x // 7).argmin(-1), lambda x: x.sum()]
FLOATS = [lambda x: torch.var_mean(x, -1), lambda x: torch.std(x, -1), lambda x: F.layer_norm(x, x.shape[-1:]),
          lambda x: torch.var(x)]
SCALES, MEANS = torch.tensor([[1.0], [100.0], [1e-3]]), torch.tensor([[10.0], [0.0], [0.0]])
torch.manual_seed(0)
for dynamic in False, True:
    for number, function in enumerate(INTEGERS + FLOATS):
        for length in LENGTHS if dynamic else STATIC_LENGTHS:
            if not dynamic or length == LENGTHS[0]:
                torch._dynamo.reset()  # Dynamo runs a function eagerly after eight compilations
                compiled = torch.compile(function, dynamic=dynamic)
            if number < len(INTEGERS):
                x = torch.randint(-50, 50, (3, length))
                x = torch.where(x == 49, 2**62 - 1, torch.where(x == -50, -(2**62), x)) if number in (2, 3) else x
                assert torch.equal(compiled(x.to("mpsx")).cpu(), function(x)), (number, length, dynamic)
            elif length > 1:
                x = torch.randn(3, length) * SCALES + MEANS
                for found, expected in zip(leaves(compiled(x.to("mpsx"))), leaves(function(x.double()))):
                    torch.testing.assert_close(found.cpu().double(), expected, rtol=2e-5, atol=1e-5)
print("compared")
"""


@pytest.mark.parametrize("lengths", ["(7, 32, 1025)", pytest.param("LENGTHS", marks=pytest.mark.sweep)],
                         ids=["sample", "all"])  # fmt: skip
def test_reductions(simt_library: object, lengths: str) -> None:
    """Compiled integer reductions equal the CPU's, and moments are as accurate as the eager ones."""
    done = run_compiled(SCRIPT % lengths, MPSX_DRIVER="simt")
    assert done.returncode == 0 and done.stdout == "compared\n", done.stderr[-3000:]

# Random functions of rows, on views of any alignment: contiguous, with gaps, transposed, and of several dimensions.
RANDOM = """
import random

import torch.nn.functional as F
from torch.utils._pytree import tree_leaves as leaves

import mpsx

FUNCTIONS = [
    lambda x, y, d: torch.softmax(x + y, d),
    lambda x, y, d: (x * y).sum(d) + torch.amax(x, d) - torch.amin(y, d),
    lambda x, y, d: ((x - x.mean(d, keepdim=True)) * y, x.abs().amax(d, keepdim=True) + y),
    lambda x, y, d: F.layer_norm(x + y, x.shape[-1:]) + torch.var(x, -1, keepdim=True),
    lambda x, y, d: (x * 0.5).argmax(-1) + (y > 1).any(-1) + x.argmin(-1),
    lambda x, y, d: (torch.log_softmax(x, -1) * (y > 0)).sum(-1, keepdim=True) + y,
    lambda x, y, d: torch.where(y > 0, x, 0).sum(d, keepdim=True) * x.prod(-1, keepdim=True),
    lambda x, y, d: torch.softmax(torch.cat([x, y[..., :4], y], -1), -1),
    lambda x, y, d: F.layer_norm(x.flatten(0, 1)[(y[..., 0] > 0).flatten() * (y.shape[1] - 1)] + y[0, 0], y.shape[-1:]),
]
TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 8e-2}
rng = random.Random(%d)
torch.manual_seed(%d)
for case in range(18):
    torch._dynamo.reset()
    function, dtype = FUNCTIONS[case %% len(FUNCTIONS)], rng.choice(list(TOLERANCE))
    shape = [rng.choice([1, 2, 3, 5]), rng.choice([1, 4, 6]), rng.choice([8, 12, 31, 40, 256, 770, 1100, 4099, 9000])]
    layout, dims = rng.choice(["plain", "gaps", "offset", "transposed"]), rng.choice([-1, (-2, -1), (0, -1)])
    dims = -1 if function in FUNCTIONS[:1] else dims

    def operand():
        b, h, n = shape
        if layout == "transposed":
            return torch.randn(h, b, n).transpose(0, 1)
        if layout == "gaps":
            return torch.randn(b, h, n + 3)[:, :, 1 : n + 1]
        return torch.randn(b * h * n + 1)[1:].view(shape) if layout == "offset" else torch.randn(shape)

    x, y = (operand().to(dtype).to("mpsx") for _ in range(2))
    found = leaves(torch.compile(function, dynamic=rng.random() < 0.3)(x, y, dims))
    for got, want in zip(found, leaves(function(x.cpu().double(), y.cpu().double(), dims)), strict=True):
        name = f"{case} {shape} {dtype} {layout} {dims}"
        scale = want.abs().max().item() if want.is_floating_point() else 0.0
        tolerance = TOLERANCE[dtype] if want.is_floating_point() else 0.0
        limits = {"rtol": tolerance, "atol": tolerance * (0.1 + 0.01 * scale)}
        torch.testing.assert_close(got.cpu().double(), want.double(), **limits, msg=lambda m: f"{name}: {m}")
print("compared")
"""


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1, 12))])
def test_random_rows(simt_library: object, seed: int) -> None:
    """Compiled reductions of random views agree with float64."""
    done = run_compiled(RANDOM % (seed, seed), MPSX_DRIVER="simt")
    assert done.returncode == 0 and done.stdout == "compared\n", done.stderr[-3000:]
