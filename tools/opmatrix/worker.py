"""A process that measures cases: one JSON object a line comes in, one goes out before and one after each case.

In: {"op", "direction", "dtype", "count"}. Out: {"ready": true} once, then {"begin": true} and the record, in turns.
"""

from __future__ import annotations

import json
import os
import sys

import torch

from .cases import Case, by_id
from .measure import measure


def main() -> None:
    """Serves until its input ends."""
    # Output that operators print must not get into the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    torch.set_num_threads(1)  # as many workers as cores
    by_id()

    def answer(message: dict[str, object]) -> None:
        answers.write(json.dumps(message) + "\n")

    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        answer({"begin": True})
        case = Case(request["op"], request["direction"], request["dtype"])
        answer(measure(case, request["count"]).as_dict())


if __name__ == "__main__":
    main()
