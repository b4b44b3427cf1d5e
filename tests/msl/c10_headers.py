"""Detect which names torch's c10/metal/*.h define. Before torch 2.13, some names that tests use are missing."""

import re
from pathlib import Path

import torch

from mpsx.shader import toolchain

FOLDER = Path(toolchain.torch_include()) / "c10/metal"
CODE = "".join(re.sub(r"//.*", "", file.read_text()) for file in FOLDER.glob("*.h"))
WORDS = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", CODE, flags=re.DOTALL)))


def has(text):
    """Return whether the headers contain `text`. Since torch 2.13 they must, so fail if they do not."""
    found = text in (WORDS if text.isidentifier() else CODE)
    assert found or torch.__version__ < "2.13", f"{text} is not in {FOLDER}"
    return found
