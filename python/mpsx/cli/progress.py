"""A progress bar on one line of stderr."""

from __future__ import annotations

import sys


class Progress:
    """Prints "step N of M" and the name of the current step on one line of stderr."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.live = sys.stderr.isatty()

    def show(self, what: str) -> None:
        """Print the number and name of the next step."""
        self.done += 1
        if self.live:
            filled = 30 * self.done // self.total
            print(f"\r[{'#' * filled}{'.' * (30 - filled)}] {self.done}/{self.total}  {what:<40}", end="",
                  file=sys.stderr, flush=True)  # fmt: skip

    def close(self) -> None:
        """End the progress line."""
        if self.live:
            print(file=sys.stderr)
