"""Run groups of cases until killed, and print each difference as a JSON object."""

from __future__ import annotations

import contextlib
import json
import mmap
import re
import sys
import time
import traceback
import warnings

import torch

import mpsx

from .cases import cases
from .compare import compare, run
from .reasons import reason
from .reduce import reduced

SEEN = 3  # maximum number of differences to report per operator, form and kind


def main(seed: int, first: int, pattern: str, status_file: str, seconds: float, last: int) -> None:
    """Write the current case to `status_file`. The parent reads the file if this process dies."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    mpsx.fallback.set_mode("silent")
    with open(status_file, "r+b") as file:
        memory = mmap.mmap(file.fileno(), 256)
    torch.ones(1, device="mpsx").add_(1)  # makes simt compile its kernels before the first case
    torch.mpsx.synchronize()
    seen: dict[tuple, int] = {}
    count, group, until = 0, first, time.time() + seconds
    while time.time() < until and group < last:
        for case in cases(seed, group, pattern):
            state = f"{case.where} {{}} {case.name} {case.form}"

            def note(phase: str, state: str = state) -> None:
                memory[:256] = state.format(phase).encode().ljust(256)[:256]

            try:
                finding = compare(case, note)
            except Exception:
                emit(case, "fuzzer", traceback.format_exc()[-300:], case.name)
                continue
            count += 1
            note("cpu")  # generating the next case runs CPU operators
            if finding is None:
                continue
            key = (case.name, case.form, finding.kind)
            seen[key] = seen.get(key, 0) + 1
            if seen[key] > SEEN:
                continue
            line = case.text()
            if not reason(case.name, finding.kind, f"{line} {finding.detail}"):
                emit(case, finding.kind, finding.detail, line, pending=True)  # reducing may crash
                note("reduce")
                smaller, finding = reduced(case, finding)
                line = smaller.text()
            emit(case, finding.kind, finding.detail, line)
        group += 1
        if group % 5 == 0:
            print(json.dumps({"count": count, "group": group}), flush=True)
    print(json.dumps({"count": count, "group": group}), flush=True)


def emit(case: object, kind: str, detail: str, line: str, pending: bool = False) -> None:
    why = reason(case.name, kind, f"{line} {detail}")
    row = {"where": case.where, "name": case.name, "form": case.form, "kind": kind, "detail": detail, "line": line}
    row |= {"reason": why}
    print(json.dumps({"pending": row} if pending else row), flush=True)


def show(where: str, pattern: str) -> None:
    """Print one case, run it, and print the difference if there is one."""
    warnings.simplefilter("ignore")
    seed, group = map(int, where.split(":")[:2])
    for case in cases(seed, group, pattern):
        if case.where == where:
            print(case.text(), flush=True)
            print(compare(case))


def repeat(where: str, pattern: str, before: bool) -> None:
    """Run the group's cases up to this one on the CPU 50 times, so that memory corruption crashes the process.

    With `before`, run the 20 preceding groups once instead. The caller enables memory checks in the allocator.
    """
    seed, group, number = map(int, where.split(":"))
    if before:
        chosen = [case for g in range(max(group - 20, 0), group) for case in cases(seed, g, pattern)]
    else:
        chosen = [case for case in cases(seed, group, pattern) if int(case.where.rpartition(":")[2]) <= number] * 50
    for case in chosen:
        with contextlib.suppress(Exception):
            run(case, "cpu")


if __name__ == "__main__":
    if re.fullmatch(r"\d+:\d+:\d+", sys.argv[1]):
        if sys.argv[3:]:
            repeat(sys.argv[1], sys.argv[2], sys.argv[3:] == ["cpu", "before"])
        else:
            show(sys.argv[1], sys.argv[2])
    else:
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5]), int(sys.argv[6]))
