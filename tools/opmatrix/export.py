"""Export the results as JSON and CSV, with one row per driver, operator, direction, and dtype."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .records import Key, Record
from .tags import DTYPES

FIELDS = (
    "driver", "operator", "family", "direction", "dtype", "status", "samples", "native_samples", "vendor_samples",
    "view_samples", "fallback_samples", "kernels", "vendor", "fallback", "why", "mps",
)  # fmt: skip


def row(driver: str, record: Record, families: dict[str, str], mps: dict[Key, str]) -> dict[str, Any]:
    """Convert a record to a row with all fields."""
    shares = record.get("shares", {})
    return {
        "driver": driver,
        "operator": record["op"],
        "family": families.get(record["op"], ""),
        "direction": record["direction"],
        "dtype": DTYPES[record["dtype"]],
        "status": record["status"],
        "samples": record.get("samples", 0),
        **{f"{status}_samples": shares.get(status, 0) for status in ("native", "vendor", "view", "fallback")},
        "kernels": record.get("kernels", []),
        "vendor": record.get("vendor", {}),
        "fallback": record.get("fallback", []),
        "why": record.get("why", ""),
        "mps": mps.get((record["op"], record["direction"], record["dtype"]), "not tested"),
    }


def write(folder: Path, rows: Iterable[dict[str, Any]], about: dict[str, Any]) -> None:
    """Write matrix.json and matrix.csv."""
    rows = list(rows)
    (folder / "matrix.json").write_text(json.dumps({**about, "rows": rows}, indent=0) + "\n")
    with (folder / "matrix.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for item in rows:
            vendor = " ".join(f"{op} ({library})" if library else op for op, library in item["vendor"].items())
            flat = {"kernels": " ".join(item["kernels"]), "vendor": vendor, "fallback": " ".join(item["fallback"])}
            writer.writerow(item | flat)
