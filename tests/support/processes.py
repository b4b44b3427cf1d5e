"""Run code in child processes, and check whether processes are running."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

from template_process import Template


@functools.cache
def template() -> Template:
    """Start this process's template."""
    return Template(dict(os.environ))


def run_in_subprocess(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` after `import torch` with the given environment variables. Capture the output as text."""
    code, variables = "import torch\n" + code, os.environ | environment
    if sys.platform == "linux" and template().can_run(variables):
        return template().run(code, variables)
    return subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
