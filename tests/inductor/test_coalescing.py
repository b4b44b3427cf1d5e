"""On drivers with SIMD groups, adjacent threads of generated kernels access adjacent elements."""

from __future__ import annotations

from processes import run_compiled

# Compares compiled with eager functions, and prints the generated kernels.
SCRIPT = """
import torch

import mpsx
from mpsx.inductor.codegen import Kernels

add = Kernels.add
sources = []
Kernels.add = lambda self, name, text, *rest: (sources.append(text), add(self, name, text, *rest))[1]

FUNCTIONS = {
    "softmax of long rows": lambda x: torch.softmax(x.view(4, -1) * 2, -1),
    "variance of long rows": lambda x: torch.var(x.view(4, -1), -1),
    "first of equal maxima": lambda x: (x.view(4, -1) > 0).float().argmax(-1),
    "first of equal minima": lambda x: torch.relu(x.view(4, -1)).argmin(-1),
    "transposed": lambda x: x.view(60, 140).t().contiguous() + 1,
    "transposed to short rows": lambda x: x.view(20, 420).t().contiguous() + 1,
    "concatenated heads": lambda x: torch.cat([x.view(2, 3, 20, 70).transpose(1, 2).reshape(40, 210)] * 2, 1) + 1,
    "sum of columns": lambda x: (x.view(120, 70) + 1).sum(0),
    "sum of a few rows": lambda x: (x.view(4, 2100) + 1).sum(0),
}
torch.manual_seed(0)
x = torch.randn(8400, device="mpsx")
for dynamic in False, True:
    for name, function in FUNCTIONS.items():
        sources.clear()
        torch._dynamo.reset()
        result = torch.compile(function, dynamic=dynamic)(x)
        torch.testing.assert_close(result, function(x), rtol=1e-5, atol=1e-5, msg=f"{name} {dynamic}")
        print("==", name, dynamic, " ".join(" ".join(sources).split()))
"""


def test_coalescing(simt_library: object) -> None:
    """Compiled results equal eager ones. Adjacent threads load adjacent vectors of a row. The last index variable
    belongs to adjacent threads if it has enough values."""
    done = run_compiled(SCRIPT, MPSX_DRIVER="simt")
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.removeprefix("== ") for line in done.stdout.splitlines() if line.startswith("== ")]
    kernels = {name: text for name, _, text in (line.partition(" False ") for line in lines) if text}
    assert len(kernels) == 9 and len(lines) == 18
    for name in "softmax of long rows", "variance of long rows", "first of equal maxima", "first of equal minima":
        assert "const int first = base + int(strip * row_threads + row_thread) * 4;" in kernels[name], name
    assert "auto xindex = thread_pos.x;" in kernels["transposed"]
    assert "auto yindex = thread_pos.x;" in kernels["transposed to short rows"]
    assert "r0_index" not in kernels["sum of columns"]
