"""Run code in child processes, and check whether processes are running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_in_subprocess(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` after `import torch` with the given environment variables. Capture the output as text."""
    return subprocess.run([sys.executable, "-c", "import torch\n" + code], env=os.environ | environment,
                          capture_output=True, text=True, check=False)  # fmt: skip


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
