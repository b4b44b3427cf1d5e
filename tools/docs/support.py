"""Generate the page on operator support from the committed measurements in tools/opmatrix/status."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from opmatrix import page as html
from opmatrix import summary, totals
from opmatrix.strict_reasons import UNLIKE_THE_LISTS
from opmatrix.tags import DRIVERS, DTYPES, tag_of

from mpsx.strict import lists

TABLE = "**[Open the searchable table](matrix.html)** of all operators, dtypes, and drivers.\n\n"


def rows() -> Iterator[dict[str, Any]]:
    """Yield one table row for each committed status."""
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


def strict_tables() -> str:
    """Return tables of what strict mode rejects: totals by dtype, and the OpInfos grouped by their rejected dtypes."""
    if not torch.__version__.startswith(lists.VERSION):
        return f"The tables need PyTorch {lists.VERSION}; this site was built with {torch.__version__}."
    from opmatrix import strict  # this import loads PyTorch's test database

    counts: dict[str, Counter[str]] = defaultdict(Counter)
    rejected: dict[str, set[str]] = defaultdict(set)
    for key, lacks in strict.expected().items():
        tag = tag_of(key[1])
        (group,) = (name for name, tags in totals.GROUPS.items() if tag in tags and name != "all")
        for name in (group, "all"):
            counts[name]["not compared" if strict.reason(key) else "rejected" if lacks else "accepted"] += 1
        if lacks and not strict.reason(key):
            rejected[key[0]].add(tag)
    columns = ("rejected", "accepted", "not compared")
    lines = [f"| dtypes | pairs | {' | '.join(columns)} |", "|---|--:|--:|--:|--:|"]
    lines += [f"| {group} | {counts[group].total()} | {' | '.join(str(counts[group][name]) for name in columns)} |"
              for group in totals.GROUPS if group in counts]  # fmt: skip
    tested = {name: {tag_of(dtype) for op, dtype in strict.expected() if op == name} for name in rejected}
    by_dtypes: dict[str, list[str]] = defaultdict(list)
    for name, tags in rejected.items():
        shown = "all" if tags == tested[name] else ", ".join(DTYPES[tag] for tag in DTYPES if tag in tags)
        by_dtypes[shown].append(f"`{name}`")
    lines += ["", "| dtypes | OpInfos that strict mode rejects |", "|---|---|"]
    lines += [f"| {shown} | {', '.join(names)} |" for shown, names in
              sorted(by_dtypes.items(), key=lambda item: -len(item[1]))]  # fmt: skip
    return "\n".join(lines)


def strict_rows() -> str:
    """Return the table of entries in PyTorch's lists that strict mode does not follow."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, (dtypes, why) in UNLIKE_THE_LISTS.items():
        reasons.setdefault(("all" if dtypes == "*" else dtypes, why), []).append(f"`{name}`")
    lines = [f"| {', '.join(names)} | {dtypes} | {why} |" for (dtypes, why), names in reasons.items()]
    return "\n".join(["| OpInfos | dtypes | reason |", "|---|---|---|", *lines])
