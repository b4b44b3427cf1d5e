"""The GitHub workflows are valid, and their commands match the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="parses the workflows: pip install pyyaml")

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}

# The first version of each action that runs on Node 24. GitHub removed Node 20 from its runners in September 2026.
ACTIONS = {"actions/checkout": 5, "actions/setup-python": 6, "actions/upload-artifact": 6}


def machines(job: dict[str, Any]) -> list[str]:
    """Return the operating systems on which a job runs."""
    return job["strategy"]["matrix"]["os"] if "strategy" in job else [job["runs-on"]]


def commands(name: str) -> str:
    """Return all commands in a workflow."""
    return "\n".join(step.get("run", "") for job in WORKFLOWS[name]["jobs"].values() for step in job["steps"])


@pytest.mark.parametrize("name", ["ci", "wheels"])
def test_jobs(name: str) -> None:
    jobs = WORKFLOWS[name]["jobs"]
    assert {machine.split("-")[0] for job in jobs.values() for machine in machines(job)} == {"ubuntu", "macos"}
    for job in jobs.values():
        assert job["timeout-minutes"] <= 360
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                action, version = re.fullmatch(r"([\w.-]+/[\w.-]+)@v(\d+)", step["uses"]).groups()
                assert int(version) >= ACTIONS[action], step["uses"]
            assert step.keys() <= {"name", "uses", "with", "run", "env", "if", "continue-on-error"}
    assert True in WORKFLOWS[name] or "on" in WORKFLOWS[name]  # YAML 1.1 reads `on` as true


def test_commands_exist() -> None:
    assert (ROOT / ".ci" / "run").exists()
    assert ".ci/run" in commands("ci")
    subcommands = set(re.findall(r"python -m mpsx (\w+)", commands("ci")))
    assert subcommands == {"info", "doctor"}
    main = (ROOT / "python" / "mpsx" / "__main__.py").read_text()
    assert all(f'"{name}"' in main for name in subcommands)
    assert "'.[test]'" in commands("ci")


def test_wheels_on_every_machine() -> None:
    assert machines(WORKFLOWS["wheels"]["jobs"]["wheels"]) == ["ubuntu-24.04", "ubuntu-24.04-arm", "macos-15"]
    for command in ("python -m cibuildwheel", "python -m build --sdist", "python -m twine check --strict"):
        assert command in commands("wheels")
    settings = (ROOT / "pyproject.toml").read_text()
    assert "[tool.cibuildwheel]" in settings
    assert re.search(r'test-command = "python -m mpsx info && ', settings)
