"""Format the totals of a committed summary as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .records import Key
from .summary import Summary
from .tags import DIRECTIONS, MORE_DIRECTIONS, SHOWN, TAGS

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BEGIN, END = "<!-- opmatrix: written by tools/opmatrix.py -->", "<!-- /opmatrix -->"

GROUPS = {
    "float32": ("f32",), "float16, bfloat16": ("f16", "bf16"),
    "integers, bool": ("i64", "i32", "i16", "i8", "u8", "bool", "u16", "u32", "u64"),
    "complex64": ("c64",), "float64, complex128, complex32": ("f64", "c128", "c32", "bc32"),
    "float8": ("f8e4m3", "f8e5m2", "f8e4m3u", "f8e5m2u"), "all": tuple(TAGS),
}  # fmt: skip


def count(statuses: dict[Key, str], direction: str, tags: tuple[str, ...]) -> Counter[str]:
    """Count the cases with each status."""
    return Counter(status for (_, d, dtype), status in statuses.items() if d == direction and dtype in tags)


def rows(summary: Summary) -> Iterator[tuple[str, str, Counter[str], Counter[str]]]:
    """Yield the direction, the name of the dtype group, mpsx's counts, and the counts of PyTorch's MPS backend."""
    for direction in DIRECTIONS + MORE_DIRECTIONS:
        for name, tags in GROUPS.items():
            ours = count(summary.statuses, direction, tags)
            if ours:
                yield direction, name, ours, count(summary.mps, direction, tags)


def markdown(summary: Summary, driver: str) -> str:
    """Format the table of totals."""
    lines = [
        f"Operators of PyTorch's own test database (OpInfo, torch {summary.torch}) on the driver `{driver}`, in pairs "
        "(operator, type):",
        "",
        f"| direction | types | pairs | {' | '.join(SHOWN)} | PyTorch's MPS passes |",
        "|---|---|--:|" + "--:|" * (len(SHOWN) + 1),
    ]
    for direction, name, ours, theirs in rows(summary):
        tested = sum(theirs.values())
        mps = f"{theirs['passes']} of {tested}" if tested else "–"
        cells = [f"{sum(ours.values())}", *(f"{ours[status]}" for status in SHOWN), mps]
        lines.append(f"| {direction} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def section(summary: Summary, driver: str) -> str:
    """Return the README section, including its markers."""
    return f"{BEGIN}\n{markdown(summary, driver)}{END}"


def in_readme(text: str) -> str:
    """Return the README's section with the totals, or "" if there is none."""
    start, end = text.find(BEGIN), text.find(END)
    return text[start : end + len(END)] if 0 <= start < end else ""


def write_readme(summary: Summary, driver: str) -> None:
    """Replace the section in README.md."""
    text = README.read_text()
    old = in_readme(text)
    if not old:
        raise ValueError(f"expected the lines {BEGIN} and {END} in {README.name}")
    README.write_text(text.replace(old, section(summary, driver)))
