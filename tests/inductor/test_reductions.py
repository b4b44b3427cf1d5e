"""On drivers with SIMD groups, compiled variances and reductions of 64-bit integers use metal/lib. The simt driver
rejects reads of lanes that a SIMD group does not have."""

from __future__ import annotations

from processes import run_in_subprocess

# Lengths of one SIMD group, of several, of partial ones, and of more than a threadgroup.
SCRIPT = """
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves as leaves

import mpsx

LENGTHS = (1, 7, 32, 33, 64, 500, 768, 1023, 1024, 1025, 5000)
INTEGERS = [lambda x: x.sum(-1), lambda x: (x % 3 + 1).prod(-1), lambda x: x.amax(-1), lambda x: x.amin(-1),
            lambda x: (x // 7).argmax(-1), lambda x: (x // 7).argmin(-1), lambda x: x.sum()]
FLOATS = [lambda x: torch.var_mean(x, -1), lambda x: torch.std(x, -1), lambda x: F.layer_norm(x, x.shape[-1:]),
          lambda x: torch.var(x)]
SCALES, MEANS = torch.tensor([[1.0], [100.0], [1e-3]]), torch.tensor([[10.0], [0.0], [0.0]])
torch.manual_seed(0)
for dynamic in False, True:
    for number, function in enumerate(INTEGERS + FLOATS):
        torch._dynamo.reset()
        compiled = torch.compile(function, dynamic=dynamic)
        for length in LENGTHS:
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


def test_reductions(simt_library: object) -> None:
    """Compiled integer reductions equal the CPU's, and moments are as accurate as the eager ones."""
    done = run_in_subprocess(SCRIPT, MPSX_DRIVER="simt")
    assert done.returncode == 0 and done.stdout == "compared\n", done.stderr[-3000:]
