"""Code in a process of its own: what is read once a process."""

from __future__ import annotations

import os
import subprocess
import sys


def run_in_subprocess(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `code` after `import torch`, with these environment variables; its output as text."""
    return subprocess.run([sys.executable, "-c", "import torch\n" + code], env=os.environ | environment,
                          capture_output=True, text=True, check=False)  # fmt: skip
