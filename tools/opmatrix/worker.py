"""A worker process. It reads requests from stdin and writes answers to stdout, as one JSON object per line.

A request is {"op", "direction", "dtype", "count"}. The worker first writes {"ready": true}. For each request it writes
{"begin": true} and then a record.
"""

from __future__ import annotations

import json
import os
import sys

import torch

from .cases import Case, by_id
from .measure import measure


def main() -> None:
    """Answer requests until stdin is closed."""
    # Redirect stdout to stderr, so that output printed by operators does not corrupt the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    torch.set_num_threads(1)  # there is one worker per core
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
