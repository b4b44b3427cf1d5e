"""MkDocs hooks: link to files in the repository, and add generated pages."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "build")]

import support  # noqa: E402
import torch_ops  # noqa: E402
from mkdocs.structure.files import File  # noqa: E402
from project_urls import repository  # noqa: E402

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")
DOCS = "python/mpsx/docs"


def on_config(config: Any) -> Any:
    """Link to the repository if its address is known."""
    if page := repository():
        config["repo_url"] = page
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the changelog and the table of operators."""
    files.append(File.generated(config, "changelog.md", content=(ROOT / "CHANGELOG.md").read_text()))
    files.append(File.generated(config, "matrix.html", content=support.matrix()))
    return files


# Maps placeholders in pages to the functions that generate their replacements.
GENERATED = {"totals": support.all_totals, "strict-tables": support.strict_tables, "strict": support.strict_rows,
             "schemas": torch_ops.schemas}  # fmt: skip


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Insert generated text, and replace links to files outside the documentation.

    If the repository's address is known, such links point to the repository. Otherwise, they become plain text.
    """
    for mark, text in GENERATED.items():
        if f"<!-- {mark} -->" in markdown:
            markdown = markdown.replace(f"<!-- {mark} -->", text())

    def replaced(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if target.startswith(("http:", "https:", "mailto:")):
            return match[0]
        path = posixpath.normpath(posixpath.join(DOCS, posixpath.dirname(page.file.src_uri), target))
        if path.startswith(DOCS) or not (ROOT / path).exists():
            return match[0]  # MkDocs itself reports missing files
        base = config.get("repo_url")
        return f"[{text}]({base}/blob/main/{path}{anchor})" if base else text

    return LINK.sub(replaced, markdown)
