"""Kernels should move each byte once, with 16 bytes per lane. Compare device-memory traffic with the limits in
traffic_cases.

The simt driver counts the traffic. traffic_misses.tsv lists operators that exceed a limit, with figures that must not
get worse. The sweep fails if a listed operator meets its limits. `python tests/simt/test_traffic.py` rewrites the file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from traffic_cases import LIMITS, cases

HERE = Path(__file__).resolve().parent
MISSES = HERE / "traffic_misses.tsv"
WORSE = 1.05  # factor by which the figures in the file may grow


def known_misses() -> dict[str, tuple[float, float]]:
    """Return (traffic, transactions) for the cases in traffic_misses.tsv."""
    rows = [line.split("\t") for line in MISSES.read_text().splitlines()[1:]]
    return {name: (float(traffic), float(transactions)) for name, traffic, transactions in rows}


def misses(case: dict) -> bool:
    """Return whether a case exceeds one of the limits of its category."""
    traffic, transactions = LIMITS[case["category"]]
    return round(case["traffic"], 2) > traffic or round(case["transactions"], 2) > transactions


def profiled(path: Path, *arguments: str) -> dict[str, dict]:
    """Profile the cases in the given categories in a separate process."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MPSX_SIMT_")} | {"MPSX_DRIVER": "simt"}
    environment["MPSX_SIMT_PROFILE"] = os.devnull  # compiles kernels for profiling instead of checking
    command = [sys.executable, str(HERE / "traffic_cases.py"), str(path), *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(path.read_text())


def regressions(found: dict[str, dict], all_known: bool = False) -> list[str]:
    """Describe cases that exceed a limit but are not in the file, and cases in the file that got worse.

    If `all_known` is set, also describe cases in the file that now meet their limits.
    """
    known, wrong = known_misses(), []
    for name, case in found.items():
        if "error" in case:
            wrong.append(f"{name}: {case['error']}")
            continue
        now = f"{name}: traffic {case['traffic']:.2f}, transactions {case['transactions']:.2f}"
        limits = "limits {:.2f} and {:.2f}".format(*LIMITS[case["category"]])
        if name not in known:
            if misses(case):
                wrong.append(f"{now}; {limits}")
        elif not misses(case):
            if all_known:
                wrong.append(f"{now} is within its {limits}: remove it from {MISSES.name}")
        elif case["traffic"] > WORSE * known[name][0] or case["transactions"] > WORSE * known[name][1]:
            wrong.append("{}; it was {:.2f} and {:.2f}".format(now, *known[name]))
    return wrong


@pytest.mark.parametrize("category", LIMITS)
def test_traffic(category: str, tmp_path: Path) -> None:
    wrong = regressions(profiled(tmp_path / "found.json", category, "--quick"))
    assert not wrong, "\n".join(wrong)


@pytest.mark.sweep
@pytest.mark.parametrize("category", LIMITS)
def test_all_traffic(category: str, tmp_path: Path) -> None:
    wrong = regressions(profiled(tmp_path / "found.json", category), all_known=True)
    assert not wrong, "\n".join(wrong)


def test_known_misses_are_cases() -> None:
    assert set(known_misses()) <= {case.name for case in cases()}


def write_misses() -> None:
    """Rewrite the file with the current figures."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = profiled(Path(folder, "found.json"))
    rows = [f"{name}\t{case['traffic']:.2f}\t{case['transactions']:.2f}" for name, case in found.items()
            if misses(case)]  # fmt: skip
    MISSES.write_text("\n".join(["case\ttraffic\ttransactions", *rows]) + "\n")


if __name__ == "__main__":
    write_misses()
