"""Run the fuzzer and print the differences it finds."""

from __future__ import annotations

import argparse
import collections
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HANG_SECONDS = 60.0
START_SECONDS = 600.0  # timeout for the first case, which includes importing torch
STRIDE = 1_000_000  # child process n starts at group n * STRIDE


@dataclass
class Report:
    """Statistics and differences of one fuzzing run."""

    seed: int
    cases: int = 0
    findings: list[dict] = field(default_factory=list)
    reasons: collections.Counter = field(default_factory=collections.Counter)
    torch_crashes: list[str] = field(default_factory=list)

    def add(self, row: dict) -> None:
        if row.get("reason"):
            self.reasons[row["reason"]] += 1
        else:
            self.findings.append(row)
            print(f"{row['kind']:9} {row['where']} {row['form']} {row['line']}\n          {row['detail']}", flush=True)


def run_child(report: Report, number: int, pattern: str, seconds: float, groups: int, lock: threading.Lock) -> None:
    """Fuzz in a child process until the time is up. If the process dies, restart after the group that killed it."""
    first, left = number * STRIDE, seconds
    while left > 0:
        with tempfile.NamedTemporaryFile() as status_file:
            status_file.write(b" " * 256)
            status_file.flush()
            command = [sys.executable, "-m", "tests.fuzz.child", str(report.seed), str(first), pattern]
            command.append(status_file.name)
            command += [str(left), str(number * STRIDE + groups)]
            child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            lines: queue.Queue = queue.Queue()
            reader = threading.Thread(target=lambda c=child, q=lines: [q.put(line) for line in c.stdout], daemon=True)
            reader.start()
            last, since, count, started = b"", time.time(), 0, 0.0
            pending: dict = {}
            while child.poll() is None or not lines.empty() or reader.is_alive():
                try:
                    row = json.loads(lines.get(timeout=0.5))
                except (queue.Empty, json.JSONDecodeError):
                    row = {}
                if "count" in row:
                    count, first = row["count"], row["group"]
                elif "pending" in row:
                    pending = row["pending"]
                elif row:
                    pending = {}
                    with lock:
                        report.add(row)
                now = Path(status_file.name).read_bytes()
                if now != last:
                    last, since = now, time.time()
                    started = started or since  # don't count the time spent importing torch
                patience = HANG_SECONDS if last.strip() else START_SECONDS
                if time.time() - since > patience and child.poll() is None:
                    child.kill()
            report.cases += count
            if child.returncode == 0:
                return
            left -= time.time() - started
            if pending:
                with lock:
                    report.add(pending)
            else:
                hung = time.time() - since > HANG_SECONDS
                record_death(report, last.decode().strip(), pattern, child.returncode, hung, lock)
            match = re.match(r"\d+:(\d+):", last.decode())
            first = int(match[1]) + 1 if match else first + 1


def record_death(report: Report, state: str, pattern: str, status: int, hung: bool, lock: threading.Lock) -> None:
    """Report a crash or a hang, unless the CPU crashes or hangs as well."""
    where, phase, name, form, *_ = [*state.split(), "", "", "", ""]
    command = [sys.executable, "-m", "tests.fuzz.child", where, pattern]
    kwargs = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 2 * HANG_SECONDS}
    with lock:
        try:
            if phase == "cpu" or (not hung and subprocess.run([*command, "cpu"], check=False, **kwargs).returncode < 0):
                report.torch_crashes.append(f"{where} {name}")
                return
            alone = subprocess.run(command, check=False, **kwargs)
            again = alone.stdout
            if not hung and alone.returncode == 0:  # an earlier case corrupted memory, on the CPU or on mpsx
                kwargs["env"] = os.environ | {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}
                if subprocess.run([*command, "cpu", "before"], check=False, **kwargs).returncode < 0:
                    report.torch_crashes.append(f"before {where}")
                    return
        except subprocess.TimeoutExpired as late:
            again = (late.stdout or b"").decode()
        line = again.split("\n")[0] or state
        kind = "hang" if hung else "crash"
        report.add({"where": where, "name": name, "form": form, "kind": kind, "detail": f"status {status}",
                     "line": line, "reason": None})  # fmt: skip


def fuzz(seconds: float, seed: int, pattern: str, driver: str | None, jobs: int, groups: int = STRIDE) -> Report:
    """Fuzz in `jobs` child processes until `seconds` have passed or each has run `groups` groups."""
    if driver:
        os.environ["MPSX_DRIVER"] = driver
    report, lock = Report(seed), threading.Lock()
    threads = [
        threading.Thread(target=run_child, args=(report, n, pattern, seconds, groups, lock)) for n in range(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--ops", default=".", help="a regular expression for operator names")
    parser.add_argument("--driver", help="host, simt, cuda or metal (default: the one in use)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--case", help="seed:group:number of a finding; use the same --ops as in that run")
    arguments = parser.parse_args()
    if arguments.case:
        return subprocess.call([sys.executable, "-m", "tests.fuzz.child", arguments.case, arguments.ops], cwd=ROOT)
    print(f"seed {arguments.seed}", flush=True)
    report = fuzz(arguments.seconds, arguments.seed, arguments.ops, arguments.driver, arguments.jobs)
    for why, count in report.reasons.most_common():
        print(f"{count:6} {why}")
    print(f"{report.cases} cases, {len(report.findings)} findings, {sum(report.reasons.values())} with a reason, "
          f"{len(report.torch_crashes)} crashes in PyTorch: {', '.join(report.torch_crashes[:9])}")  # fmt: skip
    return bool(report.findings)


if __name__ == "__main__":
    sys.exit(main())
