"""The page on operator support, from the committed measurements of tools/opmatrix/status."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opmatrix import page as html
from opmatrix import summary, totals
from opmatrix.strict_reasons import UNLIKE_THE_LISTS
from opmatrix.tags import DRIVERS, DTYPES

TABLE = "**[Open the searchable table](matrix.html)** of all operators, dtypes, and drivers.\n\n"


def rows() -> Iterator[dict[str, Any]]:
    """Yield a row of the table for each committed status."""
    for driver in DRIVERS:
        committed = summary.load(driver)
        for (op, direction, tag), status in committed.statuses.items() if committed else ():
            yield {
                "driver": driver, "operator": op, "family": "", "direction": direction, "dtype": DTYPES[tag],
                "status": status, "kernels": [], "vendor": {}, "fallback": [], "why": "",
                "mps": committed.mps.get((op, direction, tag), "not tested"),
                **{f"{name}_samples": 0 for name in ("native", "vendor", "view", "fallback")},
            }  # fmt: skip


def matrix() -> str:
    """Return the searchable table as an HTML page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrix.html"
        html.write(path, rows(), {"torch": summary.load("host").torch})
        return path.read_text()


def all_totals() -> str:
    """Return the totals of every driver as Markdown."""
    found = ((driver, summary.load(driver)) for driver in DRIVERS)
    return TABLE + "\n".join(f"## Driver {driver}\n\n{totals.markdown(committed, driver)}"
                             for driver, committed in found if committed)  # fmt: skip


def strict_rows() -> str:
    """Return the table of the rows that strict mode does not follow."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, (dtypes, why) in UNLIKE_THE_LISTS.items():
        reasons.setdefault(("all" if dtypes == "*" else dtypes, why), []).append(f"`{name}`")
    lines = [f"| {', '.join(names)} | {dtypes} | {why} |" for (dtypes, why), names in reasons.items()]
    return "\n".join(["| OpInfos | dtypes | reason |", "|---|---|---|", *lines])
