"""Measured results on disk, as one JSON object per line. Each line is appended as soon as it is measured, so an
interrupted run can resume."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

Record = dict[str, Any]
Key = tuple[str, str, str]  # operator, direction, dtype


def key_of(record: Record) -> Key:
    """Return the key of a record."""
    return record["op"], record["direction"], record["dtype"]


def fingerprint(package: Path, tests: Iterable[Path], count: int | None, versions: Iterable[str]) -> str:
    """Hash everything that affects the results: native libraries, tests, number of samples, and versions."""
    digest = hashlib.sha256()
    files = [*sorted((package / "lib").glob("*")), *sorted(package.glob("_runtime*")), *tests]
    for path in files:
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    digest.update(repr((count, *versions)).encode())
    return digest.hexdigest()[:16]


class Store:
    """The results of one driver."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[Key, Record] = {}
        self.file: IO[str] | None = None
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    record = json.loads(line)
                except ValueError:  # an interrupted run may leave an incomplete last line
                    continue
                self.records[key_of(record)] = record

    def add(self, record: Record) -> None:
        """Add a record and append it to the file."""
        self.records[key_of(record)] = record
        if self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = self.path.open("a")
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()

    def compact(self) -> None:
        """Rewrite the file in sorted order, with one line per case."""
        if self.file is not None:
            self.file.close()
            self.file = None
        if not self.records:
            return
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(self.records[key]) + "\n" for key in sorted(self.records)))
        os.replace(temporary, self.path)
