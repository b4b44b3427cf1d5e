"""The command line of tools/opmatrix.py."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import export, page, pool, records, summary, totals
from .tags import DIRECTIONS, DRIVERS, MORE_DIRECTIONS, SHOWN, STATUSES, TAGS

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "build" / "opmatrix"
SAMPLES = {"host": 6, "simt": 2, "metal": 2, "cuda": 6}


class Unavailable(RuntimeError):
    """Raised if a driver cannot run on this machine."""


def package() -> Path:
    """Return the mpsx folder: the installed package if there is one, otherwise the tools/dev.py build."""
    spec = importlib.util.find_spec("mpsx")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent
    built = ROOT / "build" / "dev" / "site" / "mpsx"
    if not (built / "__init__.py").exists():
        raise Unavailable("mpsx is neither installed nor built: run python tools/dev.py build")
    return built


def environment(driver: str) -> dict[str, str]:
    """Return the environment variables for a worker that uses `driver`."""
    found = package()
    path = os.pathsep.join(filter(None, [str(found.parent), os.environ.get("PYTHONPATH")]))
    if driver == "metal" and sys.platform != "darwin":
        sys.path.append(str(ROOT / "tools" / "build"))
        import emulated_metal

        os.environ["PYTHONPATH"] = path
        try:
            return emulated_metal.environment(found)
        except emulated_metal.Unavailable as error:
            raise Unavailable(str(error)) from error
    return dict(os.environ, PYTHONPATH=path, MPSX_DRIVER=driver)


class Progress:
    """A callback that prints progress and failures to stderr."""

    def __init__(self, driver: str, total: int) -> None:
        self.driver, self.total, self.done, self.start = driver, total, 0, time.monotonic()
        self.statuses: Counter[str] = Counter()
        self.shown = 0.0

    def __call__(self, record: dict[str, Any]) -> None:
        """Count and print a record."""
        self.done += 1
        self.statuses[record["status"]] += 1
        if record["status"] == "fails":
            print(f"\r{record['op']} {record['direction']} {record['dtype']}: {record['why']}", file=sys.stderr)
        now = time.monotonic()
        if now - self.shown > (0.2 if sys.stderr.isatty() else 30) or self.done == self.total:
            self.shown = now
            left = (now - self.start) / self.done * (self.total - self.done)
            counts = ", ".join(f"{self.statuses[s]} {s}" for s in SHOWN if self.statuses[s])
            end = "" if sys.stderr.isatty() and self.done < self.total else "\n"
            print(f"\r{self.driver}: {self.done}/{self.total} ({counts}), {left:.0f} s left ", end=end, file=sys.stderr,
                  flush=True)  # fmt: skip


def measure(driver: str, cases: list[Any], arguments: argparse.Namespace) -> tuple[records.Store, set[records.Key]]:
    """Measure the cases without an up-to-date result. Return all results, and the keys of the up-to-date ones."""
    import torch

    store = records.Store(arguments.output / f"{driver}.jsonl")
    count = arguments.samples if arguments.samples is not None else SAMPLES[driver]
    env = environment(driver)
    versions = (torch.__version__, driver)
    tests = [ROOT / "tests" / "opinfo" / name for name in ("checks.py", "common.py")]
    now = records.fingerprint(package(), tests, count or None, versions)

    def is_current(key: records.Key) -> bool:
        record = store.records.get(key)
        return record is not None and (arguments.keep or record.get("fingerprint") == now)

    keys = [(case.op, case.direction, case.dtype) for case in cases]
    wanted = [key for key in keys if arguments.fresh or not is_current(key)]
    if arguments.report:
        wanted = []
    # Start the longest cases first, to balance the workers.
    wanted.sort(key=lambda key: -store.records.get(key, {}).get("seconds", 0.0))
    if wanted:
        progress = Progress(driver, len(wanted))

        def done(record: dict[str, Any]) -> None:
            store.add(record | {"fingerprint": now})
            progress(record)

        requests = [{"op": op, "direction": direction, "dtype": dtype, "count": count or None}
                    for op, direction, dtype in wanted]  # fmt: skip
        pool.measure_all(requests, env, jobs=arguments.jobs, seconds=arguments.timeout, done=done)
        store.compact()
    return store, {key for key in keys if is_current(key)}


def check(driver: str, measured: dict[records.Key, str], keys: Iterable[records.Key], partial: bool) -> list[str]:
    """Compare measurements with the committed summary. Return error messages."""
    committed = summary.load(driver)
    if committed is None:
        return [f"{driver}: no committed summary ({summary.path_of(driver).relative_to(ROOT)})"]
    worse, stale = summary.differences(committed, measured)
    found = [f"{driver}: {text}" for text in worse]
    found += [f"{driver}: the summary is stale: {text}" for text in stale]
    if not partial:
        gone = set(committed.statuses) - {key for key in keys if key[1] in DIRECTIONS}
        found += [f"{driver}: the summary is stale: no such case: {' '.join(key)}" for key in sorted(gone)]
    if driver == "host" and totals.in_readme(totals.README.read_text()) != totals.section(committed, driver):
        found.append(f"{driver}: the totals in README.md differ from the summary")
    return found


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    description = __import__("__main__").__doc__
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME",
                        help="select operators by parts of their names")  # fmt: skip
    parser.add_argument("--drivers", nargs="+", choices=DRIVERS, default=["host"])
    parser.add_argument("--dtypes", nargs="+", choices=TAGS, default=[])
    parser.add_argument("--directions", nargs="+", choices=DIRECTIONS + MORE_DIRECTIONS, default=list(DIRECTIONS))
    parser.add_argument("--samples", type=lambda word: 0 if word == "all" else int(word),
                        help=f"number of samples per OpInfo, or 'all'; default {SAMPLES}")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="worker processes; default: one per core")
    parser.add_argument("--timeout", type=float, default=120.0, help="time limit per case in seconds")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="output folder; default build/opmatrix")
    parser.add_argument("--fresh", action="store_true", help="ignore current results")
    parser.add_argument("--keep", action="store_true", help="keep results of other builds")
    parser.add_argument("--report", action="store_true", help="do not measure; write from existing results")
    parser.add_argument("--check", action="store_true",
                        help="compare with the committed summary; status 1 if it differs")  # fmt: skip
    parser.add_argument("--update", action="store_true",
                        help="write the committed summary, and the totals in README.md")  # fmt: skip
    return parser.parse_args(argv)


def update(driver: str, version: str, store: records.Store, current: set[records.Key], partial: bool,
           mps: dict[records.Key, str]) -> None:  # fmt: skip
    """Write the committed summary. A partial run keeps the rows that it did not measure."""
    found = summary.summarize(version, (store.records[key] for key in current), mps)
    before = summary.load(driver) if partial else None
    if before is not None:
        found = summary.Summary(version, before.statuses | found.statuses, before.mps | found.mps)
    summary.save(driver, found)
    if driver == "host":
        totals.write_readme(found, driver)


def main(argv: list[str] | None = None) -> int:
    """Run the command-line interface, and return the exit status."""
    arguments = parse(argv)
    import torch

    from . import upstream
    from .cases import by_id, cases, family

    wanted = cases(arguments.directions, arguments.dtypes, arguments.only)
    if not wanted:
        print(f"opmatrix: no operator matches {', '.join(arguments.only)}", file=sys.stderr)
        return 2
    partial = bool(arguments.only or arguments.dtypes or arguments.directions != list(DIRECTIONS))
    version = torch.__version__.partition("+")[0]
    keys = [(case.op, case.direction, case.dtype) for case in wanted]
    mps = upstream.statuses(by_id(), keys)
    families = {name: family(op) for name, op in by_id().items()}
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows, problems = [], []
    for driver in arguments.drivers:
        try:
            store, current = measure(driver, wanted, arguments)
        except (Unavailable, pool.WorkerFailed) as error:
            print(f"opmatrix: {driver}: {error}", file=sys.stderr)
            return 2
        measured = {key: store.records[key]["status"] for key in keys if key in current}
        rows += [export.row(driver, store.records[key], families, mps) for key in keys if key in store.records]
        print(totals.markdown(summary.Summary(version, measured, mps), driver))
        if arguments.update:
            update(driver, version, store, current, partial, mps)
        if arguments.check:
            problems += check(driver, measured, keys, partial)
    about = {"torch": version, "drivers": arguments.drivers, "statuses": STATUSES}
    export.write(arguments.output, rows, about)
    page.write(arguments.output / "index.html", rows, about)
    print(f"{arguments.output / 'index.html'}, matrix.json, matrix.csv")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0
