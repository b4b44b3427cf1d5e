"""The release workflow, the changelog, and the wheel checks."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import check_wheels
import pytest
from test_workflow import ROOT, WORKFLOWS

RELEASE = WORKFLOWS["release"]["jobs"]


def test_order() -> None:
    assert RELEASE["wheels"]["uses"] == "./.github/workflows/wheels.yml" and RELEASE["wheels"]["needs"] == "version"
    assert "workflow_call" in WORKFLOWS["wheels"][True]  # YAML 1.1 reads `on` as true
    assert set(RELEASE["publish"]["needs"]) == {"wheels", "install"}
    assert RELEASE["publish"]["permissions"] == {"id-token": "write"}


def test_every_wheel_is_installed_without_a_checkout() -> None:
    install = RELEASE["install"]
    wheels = WORKFLOWS["wheels"]["jobs"]["wheels"]
    assert install["strategy"]["matrix"]["os"] == wheels["strategy"]["matrix"]["os"]
    assert not any("checkout" in step.get("uses", "") for step in install["steps"])
    commands = "\n".join(step.get("run", "") for step in install["steps"])
    assert "python -m mpsx demo" in commands and "python -m mpsx doctor" in commands


def test_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert text.startswith("# Changelog\n") and "## [Unreleased]" in text
    headings = re.findall(r"^## \[(.+?)\]( - \d{4}-\d\d-\d\d)?$", text, re.MULTILINE)
    assert all(date for version, date in headings if version != "Unreleased")
    sections = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Not verified"}


def wheel(folder: Path, torch: str, *more: str) -> Path:
    path = folder / "mpsx-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mpsx-0.1.0.dist-info/METADATA", f"Name: mpsx\nRequires-Dist: torch{torch}\n")
        for name in (*check_wheels.NEEDED, "mpsx/_runtime.cpython-311.so", *more):
            archive.writestr(name, "")
    return path


@pytest.mark.parametrize(
    ("torch", "more", "expected"),
    [
        ("<2.14,>=2.13", (), []),
        (">=2.11", (), ["expected a requirement on one minor version of torch"]),
        ("<2.14,>=2.13", ("mpsx/_runtime.pyx", "mpsx.libs/libc10-1.so"), ["file mpsx/_runtime.pyx", "libc10"]),
    ],
)
def test_check_wheels(tmp_path: Path, torch: str, more: tuple[str, ...], expected: list[str]) -> None:
    found = check_wheels.problems(wheel(tmp_path, torch, *more))
    assert len(found) == len(expected)
    assert all(part in text for part, text in zip(expected, found, strict=True))


def test_check_wheels_rejects_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_wheels, "LARGEST", 10)
    assert "expected at most 0" in check_wheels.problems(wheel(tmp_path, "<2.14,>=2.13"))[0]
