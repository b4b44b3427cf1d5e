"""Dynamic metadata for scikit-build-core: where this source tree comes from, as far as it knows."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path


def repository() -> str | None:
    """The page of the repository: the workflow's, else that of the checkout's remote."""
    if "GITHUB_REPOSITORY" in os.environ:
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{os.environ['GITHUB_REPOSITORY']}"
    words = ["git", "-C", str(Path(__file__).parent), "remote", "get-url", "origin"]
    try:
        remote = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git
        return None
    found = re.fullmatch(r"(?:https://|ssh://git@|git@)(?:[^/@]*@)?([\w.-]+)[:/](.+?)(?:\.git)?/?", remote)
    return f"https://{found[1]}/{found[2]}" if found else None


def dynamic_metadata(field: str, settings: dict[str, object] | None = None, *_: object) -> dict[str, str]:
    """Returns the value of `urls`; called by the build backend."""
    if field != "urls":
        raise ValueError(f"project_urls: expected the field 'urls', got {field!r}")
    page = repository()
    return {"Repository": page, "Issues": f"{page}/issues"} if page else {}
