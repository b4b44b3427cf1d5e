"""tools/bench/ncu.py: compare predicted counts with measured counts, read from files in the formats of simt and ncu."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "bench" / "ncu.py"
LOADS = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"


def compare(folder: Path, sectors: int, blocks: int, ran: str = "copy_f32") -> subprocess.CompletedProcess[str]:
    """Run the tool on one launch of 4 threadgroups. The prediction is 8 requests for 32 sectors."""
    accesses = {"device load": {"requests": 8, "transactions": 32}}
    launch = {"kernel": "copy_f32", "groups": [2, 2, 1], "accesses": accesses}
    (folder / "predicted.json").write_text(json.dumps({"copy f32": {"launches": [launch]}}))
    (folder / "run.json").write_text(json.dumps({"copy f32": [ran]}))
    sys.path.insert(0, str(TOOL.parent.parent))
    from bench import ncu

    metrics = {metric: "0" for needed, _, _ in ncu.COLUMNS.values() for metric in needed}
    metrics |= {LOADS.format("requests"): "8", LOADS.format("sectors"): f"{sectors:,}"}
    with open(folder / "measured.csv", "w", newline="") as file:
        file.write("==PROF== Connected\n")
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        rows.writerow(["ID", "Kernel Name", "Block Size", "Grid Size", *metrics])
        rows.writerow(["", "", "", "", *("sector" for _ in metrics)])
        rows.writerow(["0", "mpsx_k_copy_f32", "(64, 1, 1)", f"({blocks}, 1, 1)", *metrics.values()])
    command = [sys.executable, str(TOOL), "compare", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("sectors", "blocks", "agree"), [(32, 4, 1), (33, 4, 1), (40, 4, 0), (32, 5, 0)])
def test_compare(sectors: int, blocks: int, agree: int, tmp_path: Path) -> None:
    found = compare(tmp_path, sectors, blocks)
    assert f"{agree} of 1 launches agree within 5% in every count; 1 kernels" in found.stdout, found.stderr
    assert found.returncode == 1 - agree
    assert ("!" in found.stdout) == (sectors == 40)


def test_other_kernel(tmp_path: Path) -> None:
    found = compare(tmp_path, 32, 4, ran="copy_f16")
    assert "copy_f32" in found.stdout and "copy_f16" in found.stdout and found.returncode == 1
