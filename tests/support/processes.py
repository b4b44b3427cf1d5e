"""Run code in child processes, and check whether processes are running."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from template_process import Template

template = functools.cache(Template)


def run_in_subprocess(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` after `import torch` with the given environment variables. Capture the output as text."""
    code, variables = "import torch\n" + code, os.environ | environment
    if sys.platform != "linux" or not template().can_run(variables):
        return subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        status = template().run(code, variables, out.fileno(), errors.fileno())
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(code, status, out.read(), errors.read())


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
