"""Dynamic metadata for scikit-build-core: the repository's URLs, if known."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path


def repository() -> str | None:
    """Return the repository's URL, taken from the GitHub workflow or the git remote."""
    if "GITHUB_REPOSITORY" in os.environ:
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{os.environ['GITHUB_REPOSITORY']}"
    command = ["git", "-C", str(Path(__file__).parent), "remote", "get-url", "origin"]
    try:
        remote = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # git is not installed
        return None
    found = re.fullmatch(r"(?:https://|ssh://git@|git@)(?:[^/@]*@)?([\w.-]+)[:/](.+?)(?:\.git)?/?", remote)
    return f"https://{found[1]}/{found[2]}" if found else None


def dynamic_metadata(field: str, settings: dict[str, object] | None = None, *_: object) -> dict[str, str]:
    """Return the value of the field `urls`. scikit-build-core calls this."""
    if field != "urls":
        raise ValueError(f"project_urls: expected the field 'urls', got {field!r}")
    page = repository()
    return {"Repository": page, "Issues": f"{page}/issues"} if page else {}
