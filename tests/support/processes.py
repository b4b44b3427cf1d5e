"""Run code in child processes, and check whether processes are running."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import torch
from template_process import Template


@functools.cache
def template(*modules: str) -> Template:
    """Start this process's template that imports `modules`."""
    return Template(dict(os.environ), *modules)


def run_in_subprocess(code: str, *modules: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` after `import torch` with the given environment variables. Capture the output as text. `modules` are
    imported once for many processes."""
    code, variables = "import torch\n" + code, os.environ | environment
    # The modules may initialize CUDA, and then forked processes cannot use it.
    forks = sys.platform == "linux" and not (modules and torch.cuda.device_count())
    if forks and template(*modules).can_run(variables):
        return template(*modules).run(code, variables)
    return subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)


def run_compiled(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As run_in_subprocess, for code that calls torch.compile."""
    return run_in_subprocess(code, "torch._dynamo", "torch._inductor.compile_fx", **environment)


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
