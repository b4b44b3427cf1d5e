"""The Python code in the documentation runs as it is."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch
import yaml

import mpsx

DOCS = Path(mpsx.__file__).parent / "docs"
# On these pages, code blocks depend on the preceding blocks.
PAGES = ("index", "kernels_without_a_mac", "shaders", "compile", "accuracy", "debugging", "from_mlx")
LIBRARIES = {"Transformers": "accelerate", "Lightning": "lightning", "Accelerate": "accelerate",
             "PyTorch Geometric": "torch_geometric", "Diffusers": "diffusers", "Keras": "keras"}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore")


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test in an empty folder. Afterwards, restore the environment and the fallback mode."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with mpsx.fallback.using_mode("silent"):
        yield


@pytest.mark.parametrize("page", PAGES)
def test_page(page: str) -> None:
    found = blocks((DOCS / f"{page}.md").read_text())
    assert found
    torch.manual_seed(0)
    scope = {"__name__": page, "torch": torch, "mpsx": mpsx}
    for code in found:
        exec(compile(code, f"{page}.md", "exec"), scope)


SECTIONS = {text.split("\n", 1)[0]: text for text in (DOCS / "training.md").read_text().split("\n## ")[1:]
            if blocks(text)}  # fmt: skip


@pytest.mark.parametrize("title", SECTIONS)
def test_training(title: str) -> None:
    library = LIBRARIES[title.partition(":")[0]]
    pytest.importorskip(library, reason=f"{library} is not installed")
    (code,) = blocks(SECTIONS[title])
    exec(compile(code, "training.md", "exec"), {"__name__": "training"})


def test_ci_workflow() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "ci.md").read_text(), re.MULTILINE | re.DOTALL)
    (job,) = yaml.safe_load(text)["jobs"].values()
    assert job["runs-on"].startswith("ubuntu")
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert sum("-p mpsx.strict.pytest_plugin --mps-strict" in command for command in commands) == 2
