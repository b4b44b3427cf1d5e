"""Run every kernel case on the driver $MPSX_DRIVER. tests/simt/test_every_kernel.py starts this script.

    python tests/simt/run_cases.py FILE [--cpu] [--part 2/5] [--only TEXT] [--without PATTERN] [--one-type]

Writes to FILE the results, the CPU's results (with --cpu), the names of the launched kernels, and the names of all
kernels. `--part 2/5` runs every fifth case, starting with the third. It prints each case's name first and synchronizes
between cases. `--only TEXT` runs only cases whose names contain TEXT. `--without PATTERN` skips those that a regular
expression finds. `--one-type` runs the last of the cases whose names differ only in dtypes.
"""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "support")]

import torch  # noqa: E402
from kernel_cases import all_cases, error_bounds, run  # noqa: E402
from tables import TAGS  # noqa: E402

import mpsx  # noqa: E402

TYPE = re.compile(rf"\b({'|'.join(TAGS.values())}|torch\.u?(int|float|bfloat|complex)\d+|torch\.bool)\b")


def without_types(name: str) -> str:
    """Return a case's name with a placeholder for each dtype."""
    return TYPE.sub("*", name)


def main(path: str, with_cpu: bool, part: str, only: str, without: str, one_type: bool) -> None:
    """Run the cases. If a case fails, record its error message as the result."""
    torch.set_num_threads(1)
    mpsx.fallback.set_mode("error")
    results, expected, bounds = {}, {}, {}
    first, step = map(int, part.split("/"))
    last_type = set({without_types(c.name): c.name for c in all_cases()}.values())
    for c in itertools.islice(all_cases(), first, None, step):
        if only not in c.name or (without and re.search(without, c.name)):
            continue
        if one_type and c.name not in last_type:
            continue
        assert c.name not in results, f"two cases are named {c.name}"
        if step > 1:
            torch.mpsx.synchronize()
            print(f"case: {c.name}", flush=True)
        try:
            results[c.name] = run(c, "mpsx")
        except Exception as e:
            results[c.name] = f"{type(e).__name__}: {e}"
        if with_cpu and c.reference != "none":
            expected[c.name] = run(c, "cpu")
            bounds[c.name] = error_bounds(c)
    launched = {row.name for row in mpsx.profiler.rows() if row.route == "native"}
    names = set(mpsx._runtime.kernel_names())
    torch.save({"results": results, "expected": expected, "bounds": bounds, "launched": launched, "names": names}, path)


if __name__ == "__main__":
    options = dict(itertools.pairwise(sys.argv))
    main(sys.argv[1], "--cpu" in sys.argv, options.get("--part", "0/1"), options.get("--only", ""),
         options.get("--without", ""), "--one-type" in sys.argv)  # fmt: skip
