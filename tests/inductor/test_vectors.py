"""Generated kernels with one vector of elements per thread give the same results as eager kernels. The simt driver
rejects accesses that are not aligned."""

from __future__ import annotations

import os
import subprocess
import sys

import compiled_vectors
from processes import run_compiled

import mpsx


def test_random_graphs():
    driver = mpsx.driver()["name"]
    done = subprocess.run([sys.executable, compiled_vectors.__file__, "11", "1"], capture_output=True, text=True,
                          env=os.environ | {"MPSX_DRIVER": "simt" if driver == "host" else driver,
                                            "PYTHONPATH": os.pathsep.join(sys.path)}, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    differences, _, sizes = done.stdout.rpartition("vector sizes:")
    assert differences == ""
    assert {"1", "2", "4", "8", "4late", "8late"} <= set(sizes.split())


INDICES = """
import torch
from torch.nn import functional as F

import mpsx

table = torch.randn(10, 64, device="mpsx")
# The last one checks an index per element of a row. All threads must reach the barriers of its reduction.
for function in (lambda i: table[i] * 2, lambda i: F.layer_norm(table[i], (64,)), lambda i: table[:, 0][i].sum()):
    compiled = torch.compile(function)
    for last, fails in ((9, False), (10, True), (-11, True), (-10, False)):
        index = torch.tensor([3, 0, last], device="mpsx")
        try:
            found = compiled(index).cpu()
        except torch.AcceleratorError as error:
            assert fails and "out of range" in str(error), (last, error)
        else:
            assert not fails, last
            torch.testing.assert_close(found, function(index).cpu())

@torch.compile
def sums(x, i, y):
    return x.index_add(0, i, y), x.scatter_add(0, i, y), x.index_put((i,), y, accumulate=True)

for dtype in (torch.float16, torch.bfloat16, torch.int16):  # their sums access no bytes behind the only element
    zero, one = torch.zeros(1, dtype=dtype, device="mpsx"), torch.ones(1, dtype=dtype, device="mpsx")
    found = sums(zero, torch.zeros(1, dtype=torch.int64, device="mpsx"), one)
    assert all(x.tolist() == [1] and x.dtype == dtype for x in found), found
print("compared")
"""


def test_indices(simt_library):
    """Kernels that load vectors report indices out of range. Sums of narrow elements stay within their buffer."""
    done = run_compiled(INDICES, MPSX_DRIVER="simt")
    assert done.returncode == 0 and done.stdout == "compared\n", done.stderr[-3000:]
