"""Overloads that have a kernel in PyTorch's MPS backend do not fall back to the CPU.

Each overload in mps_operators.txt is called.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import torch
from mps_operators import overload, read_list, replay

import mpsx
import vendor

TESTS = Path(__file__).resolve().parents[1]
RECORDED = "2.13."  # torch version whose sample numbers are in mps_operators.txt
# Fraction of torch 2.13's overloads that torch 2.11 may lack.
RECENT = 0.05


def failures() -> list[str]:
    """Describe overloads that fell back or failed, and overloads that no sample calls."""
    found, called = [], set()
    for name, run in replay():
        called.add(name)
        with mpsx.fallback.using_mode("error"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                run()
            except Exception as error:  # collect all failures
                found.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
    if not torch.__version__.startswith(RECORDED):  # other versions have different samples
        return found
    due = {name for name, source in read_list().items() if overload(name) is not None and not source.startswith("none")}
    return found + [f"{name}: not reached" for name in sorted(due - called)]


def test_list() -> None:
    """PyTorch has all listed overloads except for a few new ones. Overloads without a call have a reason."""
    names = read_list()
    assert sum(overload(name) is None for name in names) <= RECENT * len(names)
    assert not [name for name, source in names.items() if source == "none"]


def test_no_fallback() -> None:
    found = failures()
    assert not found, "\n".join(found)


if vendor.is_preferred():

    def test_no_fallback_without_vendor_libraries() -> None:
        path = os.pathsep.join([str(TESTS / "support"), str(TESTS), os.environ.get("PYTHONPATH", "")])
        run = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False,
                             env=os.environ | {"MPSX_VENDOR": "off", "PYTHONPATH": path})  # fmt: skip
        assert run.returncode == 0, run.stdout + run.stderr[-2000:]


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit("\n".join(failures()) or 0)
