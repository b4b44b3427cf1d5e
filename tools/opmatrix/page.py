"""Write a self-contained HTML page: page.html with page.css, page.js, and the data inlined."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .tags import DTYPES, STATUSES

HERE = Path(__file__).resolve().parent
SHORT = {full: tag for tag, full in DTYPES.items()}
MPS = ("not tested", "passes", "fails", "skipped")


class Strings:
    """A table that assigns an index to each distinct string."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        return self.index.setdefault(text, len(self.index))


def data(rows: Iterable[dict[str, Any]], about: dict[str, Any]) -> dict[str, Any]:
    """Compress the rows into the format that `unpack` in page.js reads."""
    rows = sorted(rows, key=lambda row: row["operator"].lower())
    strings, statuses = Strings(), list(STATUSES)
    operators: dict[str, str] = {row["operator"]: row["family"] for row in rows}
    present = {row["dtype"] for row in rows}
    dtypes = [full for full in DTYPES.values() if full in present]
    index = {name: i for i, name in enumerate(operators)}
    cells: dict[str, dict[str, list[list[Any]]]] = {}
    for row in rows:
        vendor = [f"{op} ({library})" if library else op for op, library in row["vendor"].items()]
        cells.setdefault(row["driver"], {}).setdefault(row["direction"], []).append([
            index[row["operator"]], dtypes.index(row["dtype"]), statuses.index(row["status"]), MPS.index(row["mps"]),
            [row[f"{status}_samples"] for status in ("native", "vendor", "view", "fallback")],
            strings(", ".join(row["kernels"])), strings(", ".join(vendor)), strings(", ".join(row["fallback"])),
            strings(row["why"]),
        ])  # fmt: skip
    return {
        "torch": about["torch"], "statuses": STATUSES, "mps": MPS, "operators": list(operators.items()),
        "dtypes": [[SHORT[full], full] for full in dtypes], "strings": list(strings.index), "cells": cells,
    }  # fmt: skip


def write(path: Path, rows: Iterable[dict[str, Any]], about: dict[str, Any]) -> None:
    """Write the page to `path`."""
    text = json.dumps(data(rows, about), separators=(",", ":")).replace("<", "\\u003c")
    page = (HERE / "page.html").read_text()
    for mark, content in (("/* page.css */", (HERE / "page.css").read_text()), ("/* page.js */",
                          (HERE / "page.js").read_text()), ("{/* data */}", text)):  # fmt: skip
        before, found, after = page.partition(mark)
        if not found:
            raise ValueError(f"expected {mark} in page.html")
        page = before + content + after
    path.write_text(page)
