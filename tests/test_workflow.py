"""The GitHub workflow: well formed, and its commands are those that the documents name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="a YAML parser reads the workflow: pip install pyyaml")

ROOT = Path(__file__).resolve().parent.parent
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())

# The first versions that run on Node 24; GitHub's machines have no Node 20 since September 2026.
ACTIONS = {"actions/checkout": 5, "actions/setup-python": 6, "actions/upload-artifact": 6}


def test_jobs() -> None:
    jobs = WORKFLOW["jobs"]
    assert {job["runs-on"].split("-")[0] for job in jobs.values()} == {"ubuntu", "macos"}
    for job in jobs.values():
        assert job["timeout-minutes"] <= 360
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                action, version = re.fullmatch(r"([\w.-]+/[\w.-]+)@v(\d+)", step["uses"]).groups()
                assert int(version) >= ACTIONS[action], step["uses"]
            assert step.keys() <= {"name", "uses", "with", "run", "env", "if", "continue-on-error"}
    assert True in WORKFLOW or "on" in WORKFLOW  # YAML 1.1 reads `on` as true


def test_commands_exist() -> None:
    commands = "\n".join(step.get("run", "") for job in WORKFLOW["jobs"].values() for step in job["steps"])
    assert (ROOT / ".ci" / "run").exists()
    assert ".ci/run" in commands
    subcommands = set(re.findall(r"python -m mpsx (\w+)", commands))
    assert subcommands == {"info", "doctor"}
    main = (ROOT / "python" / "mpsx" / "__main__.py").read_text()
    assert all(f'"{name}"' in main for name in subcommands)
    assert "'.[test]'" in commands
