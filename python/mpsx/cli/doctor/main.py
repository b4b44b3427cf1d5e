"""The doctor's command line. Runs each stage in its own process and writes the report."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from .check import Outcome
from .stages import STAGES

# Time limits in seconds. They are generous, because a driver may have to compile every pipeline.
LIMITS = {"environment": 120, "kernels": 1800, "families": 900, "device": 600, "tuning": 600}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser."""
    parser.add_argument("--seconds", type=float, default=300, help="duration of the stress stage (default: 300)")
    parser.add_argument("--output", type=Path, help="report file (default: mpsx-doctor-DATE.md)")
    parser.add_argument("--stages", default=",".join(STAGES), help="comma-separated stages (default: all)")
    parser.add_argument("--stage", choices=list(STAGES), help=argparse.SUPPRESS)  # run one stage in this process


def describe_exit(status: int) -> str:
    """Describe a process's exit status in words."""
    if status >= 0:
        return f"its process exited with status {status}"
    try:
        return f"its process was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"its process was killed by signal {-status}"


def truncated(lines: list[str]) -> str:
    """Return the first and last lines of a process's output. A crash prints its reason first."""
    omitted = len(lines) - 100
    if omitted > 0:
        lines = [*lines[:40], f"… {omitted} lines omitted …\n", *lines[-60:]]
    return "".join(lines)


def run_stage(stage: str, seconds: float) -> list[Outcome]:
    """Run a stage and return its outcomes. A crash or a hang becomes a failed outcome."""
    limit = seconds + 300 if stage == "stress" else LIMITS[stage]
    options = ["--stage", stage, "--seconds", str(seconds)]
    command = [sys.executable, "-X", "faulthandler", "-m", "mpsx", "doctor", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
    reader.start()
    hung = threading.Event()
    timer = threading.Timer(limit, lambda: (hung.set(), process.kill()))
    timer.start()
    outcomes, last = [], None
    for line in process.stdout:
        try:
            outcome = Outcome(**json.loads(line))
        except (ValueError, TypeError):
            errors.append(line)
            continue
        last = outcome if outcome.status == "started" else None
        if outcome.status != "started":
            outcomes.append(outcome)
            show(outcome)
    status = process.wait()
    timer.cancel()
    reader.join()
    process.stdout.close()
    process.stderr.close()
    if status != 0 or last is not None:
        end = f"still running after {limit:.0f} s" if hung.is_set() else describe_exit(status)
        at = f"in {last.name}: " if last is not None else ""
        outcomes.append(Outcome(stage, "the stage finishes", "failed", 0.0, at + end + "\n" + truncated(errors)))
        show(outcomes[-1])
    elif errors:
        outcomes.append(Outcome(stage, "printed", "note", 0.0, truncated(errors).strip()))
    return outcomes


def show(outcome: Outcome) -> None:
    """Print progress: failures, and checks that took longer than a second."""
    if outcome.status == "failed":
        print(f"  FAILED  {outcome.name}: {outcome.detail.splitlines()[0] if outcome.detail else ''}", flush=True)
    elif outcome.status == "ok" and outcome.seconds > 1:
        print(f"  ok      {outcome.name} ({outcome.seconds:.1f} s)", flush=True)


def anonymized(text: str) -> str:
    """Replace the user's home directory with ~."""
    home = str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text


def indented(text: str) -> list[str]:
    """Format text as a Markdown code block."""
    return ["", *("    " + line for line in anonymized(text).splitlines()), ""]


def report(found: dict[str, list[Outcome]], seconds: float) -> str:
    """Format the report with failures first."""
    everything = [outcome for outcomes in found.values() for outcome in outcomes]
    failed = [outcome for outcome in everything if outcome.status == "failed"]
    passed = sum(outcome.status == "ok" for outcome in everything)
    now = datetime.datetime.now(datetime.timezone.utc)
    lines = [f"# mpsx doctor, {now:%Y-%m-%d %H:%M} UTC", "",
             f"{passed} checks passed, {len(failed)} failed, in {seconds:.0f} seconds.", ""]  # fmt: skip
    for outcome in failed:
        lines += [f"- FAILED {outcome.stage}: {outcome.name}", *indented(outcome.detail)]
    for stage, outcomes in found.items():
        lines += [f"## {stage}", ""]
        for outcome in outcomes:
            if outcome.status == "note":
                lines += [f"- {outcome.name}:", *indented(outcome.detail)]
            else:
                detail = anonymized(outcome.detail) if outcome.status == "ok" else "see above"
                lines.append(f"- {outcome.status} {outcome.name} ({outcome.seconds:.2f} s) {detail}".rstrip())
        lines.append("")
    return "\n".join(lines)


def main(arguments: argparse.Namespace) -> int:
    """Run the command. Return 1 if a check failed."""
    if arguments.stage:
        STAGES[arguments.stage](arguments.seconds)
        return 0
    wanted = arguments.stages.split(",")
    unknown = [name for name in wanted if name not in STAGES]
    if unknown:
        print(f"doctor: expected stages among {', '.join(STAGES)}, got {', '.join(unknown)}", file=sys.stderr)
        return 2
    start, found = time.monotonic(), {}
    for stage in wanted:
        print(stage, flush=True)
        found[stage] = run_stage(stage, arguments.seconds)
    text = report(found, time.monotonic() - start)
    path = arguments.output or Path(f"mpsx-doctor-{datetime.datetime.now():%Y%m%d-%H%M}.md")
    path.write_text(text)
    print(text.split("\n## ", maxsplit=1)[0].strip())
    print(f"\nWrote {os.path.relpath(path)}. Please attach it to an issue, even if nothing failed.")
    return int(any(outcome.status == "failed" for outcomes in found.values() for outcome in outcomes))
