"""The committed summary for a driver: one line per operator and direction, with the dtypes for each status.

Columns are separated by tabs, which keeps diffs readable. Additional columns contain the statuses on PyTorch's MPS
backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .records import Key, Record
from .tags import MORE_DIRECTIONS, SHOWN, TAGS

FOLDER = Path(__file__).resolve().parent / "status"
RANK = {"fails": 0, "fallback": 1, "vendor": 2, "native": 3, "view": 3}
MPS = ("passes", "fails", "skipped")
COLUMNS = ("operator", "direction", *SHOWN, *(f"mps {status}" for status in MPS))


@dataclass
class Summary:
    """The statuses of cases on mpsx and on PyTorch's MPS backend."""

    torch: str  # version of torch whose OpInfos were measured
    statuses: dict[Key, str] = field(default_factory=dict)
    mps: dict[Key, str] = field(default_factory=dict)

    def rows(self) -> Iterator[tuple[str, str, dict[str, str], dict[str, str]]]:
        """Yield (operator, direction, status by dtype, MPS status by dtype) in insertion order."""
        grouped: dict[tuple[str, str], tuple[dict[str, str], dict[str, str]]] = {}
        for column, found in enumerate((self.statuses, self.mps)):
            for (op, direction, dtype), status in found.items():
                grouped.setdefault((op, direction), ({}, {}))[column][dtype] = status
        for (op, direction), (ours, theirs) in grouped.items():
            if ours:
                yield op, direction, ours, theirs

    def text(self) -> str:
        """Format the summary for the committed file."""
        lines = [f"# torch {self.torch}", "\t".join(COLUMNS)]
        for op, direction, ours, theirs in sorted(self.rows(), key=lambda row: row[:2]):
            cells = [cell(ours, status) for status in SHOWN] + [cell(theirs, status) for status in MPS]
            lines.append("\t".join([op, direction, *cells]))
        return "\n".join(lines) + "\n"


def cell(statuses: dict[str, str], status: str) -> str:
    """Return the dtypes that have this status, separated by commas."""
    return ",".join(sorted((t for t, s in statuses.items() if s == status), key=TAGS.index)) or "-"


def parse(text: str) -> Summary:
    """Parse the format of Summary.text()."""
    first, header, *lines = text.splitlines()
    if not first.startswith("# torch ") or tuple(header.split("\t")) != COLUMNS:
        raise ValueError(f"expected a summary with the columns {', '.join(COLUMNS)}")
    summary = Summary(first.removeprefix("# torch "))
    for line in lines:
        op, direction, *cells = line.split("\t")
        for i, (status, types) in enumerate(zip((*SHOWN, *MPS), cells, strict=True)):
            into = summary.statuses if i < len(SHOWN) else summary.mps
            into |= {(op, direction, dtype): status for dtype in types.split(",") if dtype != "-"}
    return summary


def path_of(driver: str) -> Path:
    """Return the path of a driver's committed summary."""
    return FOLDER / f"{driver}.tsv"


def load(driver: str) -> Summary | None:
    """Load a driver's committed summary. Return None if there is none."""
    path = path_of(driver)
    return parse(path.read_text()) if path.exists() else None


def save(driver: str, summary: Summary) -> None:
    """Write a driver's summary."""
    FOLDER.mkdir(exist_ok=True)
    path_of(driver).write_text(summary.text())


def summarize(torch: str, records: Iterable[Record], mps: dict[Key, str]) -> Summary:
    """Summarize measured records. Records with a direction in MORE_DIRECTIONS are skipped."""
    statuses = {(r["op"], r["direction"], r["dtype"]): r["status"] for r in records
                if r["direction"] not in MORE_DIRECTIONS}  # fmt: skip
    return Summary(torch, statuses, mps)


def differences(committed: Summary, measured: dict[Key, str]) -> tuple[list[str], list[str]]:
    """Compare measurements with the committed summary. Return the cases that got worse, and all other differences."""
    worse, stale = [], []
    for (op, direction, dtype), status in measured.items():
        if direction in MORE_DIRECTIONS:
            continue
        before = committed.statuses.get((op, direction, dtype))
        if before == status:
            continue
        text = f"{op} {direction} {dtype}: was {before or 'missing'}, is {status}"
        lost = before in RANK and status in RANK and RANK[status] < RANK[before]
        (worse if lost else stale).append(text)
    return worse, stale
