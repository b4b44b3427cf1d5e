"""Generated kernels with one vector of elements per thread give the same results as eager kernels. The simt driver
rejects accesses that are not aligned."""

from __future__ import annotations

import os
import subprocess
import sys

import compiled_vectors

import mpsx


def test_random_graphs():
    driver = mpsx.driver()["name"]
    done = subprocess.run([sys.executable, compiled_vectors.__file__, "6", "1"], capture_output=True, text=True,
                          env=os.environ | {"MPSX_DRIVER": "simt" if driver == "host" else driver,
                                            "PYTHONPATH": os.pathsep.join(sys.path)}, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    differences, _, sizes = done.stdout.rpartition("vector sizes:")
    assert differences == ""
    assert {"1", "2", "4", "8"} <= set(sizes.split())
