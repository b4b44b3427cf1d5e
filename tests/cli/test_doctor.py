"""`python -m mpsx doctor`: stages, crash reports, and the report file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
import torch

from mpsx import _runtime
from mpsx.cli.doctor import families, main
from mpsx.cli.doctor.check import Outcome


def run(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    """Run the doctor, and return its exit status and its report."""
    parser = argparse.ArgumentParser()
    main.add_arguments(parser)
    path = tmp_path / "report.md"
    status = main.main(parser.parse_args([*arguments, "--output", str(path)]))
    return status, path.read_text() if path.exists() else ""


def test_healthy_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nobody/has/this/home")
    status, report = run(tmp_path, "--stages", "environment,kernels,stress", "--seconds", "2")
    assert status == 0, report
    assert " 0 failed" in report
    for text in ("## environment", "mpsx info", "- ok all load", "## stress", "runs, "):
        assert text in report


@pytest.mark.parametrize("case", families.cases(), ids=lambda case: f"{case.family}-{case.name}")
def test_families(case: families.Case) -> None:
    families.compare(case)


@pytest.mark.parametrize("dtype", families.FLOATS[1:])
def test_families_in_half_precision(dtype: torch.dtype) -> None:
    for case in families.cases():
        if case.family in ("activation", "norm"):
            families.compare(case, dtype)


def test_wrong_result_is_a_failure() -> None:
    wrong = families.Case("wrong", "wrong", lambda x: x + (x.device.type == "mpsx"), lambda: [torch.ones(3)], False)
    with pytest.raises(AssertionError, match="not close"):
        families.compare(wrong)


def replace_python(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Make the doctor's stages run a shell script in place of Python."""
    script = folder / "python"
    line = '{"stage": "device", "name": "threads", "status": "started", "seconds": 0, "detail": ""}'
    script.write_text(f"#!/bin/sh\necho '{line}'\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def test_crash_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_python(tmp_path, monkeypatch, "echo a last word >&2\nkill -SEGV $$")
    status, report = run(tmp_path, "--stages", "device")
    assert status == 1
    assert "in threads: its process was killed by SIGSEGV" in report
    assert "a last word" in report


def test_start_and_end_of_long_output_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_python(tmp_path, monkeypatch, "echo the reason >&2\nseq 1000 >&2\necho a last word >&2\nkill -ABRT $$")
    _, report = run(tmp_path, "--stages", "device")
    assert "    the reason\n" in report and "    a last word\n" in report
    assert "… 902 lines omitted …" in report and "\n    500\n" not in report


def test_hang_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_python(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setitem(main.LIMITS, "device", 0.5)
    status, report = run(tmp_path, "--stages", "device")
    assert status == 1
    assert "in threads: still running after 0 s" in report or "in threads: still running after 1 s" in report


def test_unknown_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--stages", "liver") == (2, "")
    expected = "expected stages among environment, kernels, families, device, tuning, stress, got liver"
    assert expected in capsys.readouterr().err


def test_report_hides_the_home_folder() -> None:
    home = str(Path.home())
    text = main.report({"device": [Outcome("device", "x", "failed", 1.0, f"cannot open {home}/x")]}, 1.0)
    assert f"{home}/x" not in text
    assert "cannot open ~/x" in text


def test_tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report says how many kernels a tuning would change, but the tuning stays as it is."""
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path / "cache"))
    status, report = run(tmp_path, "--stages", "environment,tuning")
    assert status == 0, report
    assert "  tuning           the defaults" in report
    assert "## tuning" in report
    if _runtime.driver()["name"] != "simt":
        assert "- ok every variant is right" in report
        assert "- numbers (rows of src/runtime/tuning.def):" in report
    assert not list((tmp_path / "cache").glob("tuning-*"))
