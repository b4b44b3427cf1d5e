#!/usr/bin/env python3
"""Run PyTorch's own tests on mpsx, from a checkout of the installed version of PyTorch.

    python tests/upstream/run.py ~/pytorch                      every file in FILES
    python tests/upstream/run.py ~/pytorch test_reductions -k sum
    python tests/upstream/run.py ~/pytorch test_mps             the tests for mps, with the device renamed

PyTorch instantiates its device-generic tests for PrivateUse1 devices. A failure is expected if the same test fails on
the CPU, for example because of a different SciPy version, or if it matches a line of expectations.txt, which states a
reason. After a complete file, the script also reports lines that matched no failure. The exit status is 1 if there are
unexpected failures.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

EXPECTATIONS = Path(__file__).with_name("expectations.txt")
FILES = ("test_torch", "test_type_promotion", "test_tensor_creation_ops", "test_sort_and_select", "test_reductions",
         "test_indexing", "test_shape_ops", "test_view_ops", "test_scatter_gather_ops", "test_nn", "test_unary_ufuncs",
         "test_binary_ufuncs", "test_mps")  # fmt: skip
RENAMED = [(r"\btorch\.mps\b", "torch.mpsx"), (r"\b_compile_shader\b", "compile_shader"),
           (r"(['\"])mps(:\d+)?\1", r"\1mpsx\2\1"), (r"\bis_mps\b", "is_mpsx"),
           (r"torch\.backends\.mps\.is_available\(\)", "True"), (r"\.mps\(\)", ".mpsx()"),
           (r"torch\.backends\.mps\.is_macos13_or_newer\(\d*\)", "True"), (r"MACOS_VERSION (?=[<>])", "15.2 "),
           (r"int\(subprocess.check_output\(.*hw.memsize.*\)\)", "16 << 30"),
           (r"unittest\.expectedFailure", "(lambda test: test)")]  # fail on mps, but pass on mpsx  # fmt: skip


def expectations() -> list[tuple[str, str]]:
    """Read the patterns for `file::class::test` and their reasons."""
    rows = []
    for number, line in enumerate(EXPECTATIONS.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            pattern, bar, reason = (part.strip() for part in line.partition("|"))
            if not bar or not reason:
                raise SystemExit(f"{EXPECTATIONS.name}:{number}: expected 'pattern | reason'")
            rows.append((pattern, reason))
    return rows


def run(file: Path, folder: Path, options: list[str], jobs: int, seconds: int, device: str = "privateuse1") -> Path:
    """Run a test file, and return the path of its JUnit XML report."""
    if file.stem == "test_mps":
        text = file.read_text()
        for pattern, new in RENAMED:
            text = re.sub(pattern, new, text)
        file = folder / file.name
        file.write_text(text)
    record = folder / f"{file.stem}.{device}.xml"
    environment = os.environ | {"PYTORCH_TESTING_DEVICE_ONLY_FOR": device, "MPSX_FALLBACK": "silent",
                                "PYTORCH_TEST_WITH_SLOW": "0"}  # fmt: skip
    # xdist replaces crashed workers and fails the tests that they were running. PyTorch's conftest.py requires the
    # pytest version that its CI uses.
    command = [sys.executable, "-m", "pytest", str(file), f"-n{jobs}", "-q", "-p", "no:cacheprovider", "--no-header",
               "--noconftest", f"--rootdir={file.parent}", "--maxfail=100000",
               f"--junit-xml={record}", "--tb=line", *options]  # fmt: skip
    try:
        subprocess.run(
            command, cwd=file.parent, env=environment, stdout=subprocess.DEVNULL, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"{file.stem}: stopped after {seconds} s", flush=True)
    return record


def failures(record: Path, stem: str) -> tuple[int, dict[str, str]]:
    """Return the number of passed tests and the messages of the failed tests."""
    passed, failed = 0, {}
    for case in ElementTree.parse(record).iter("testcase"):
        name = f"{stem}::{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        bad = [child for child in case if child.tag in ("failure", "error")]
        if bad:
            failed[name] = (bad[0].get("message") or "").split("\n")[0][:200]
        elif not any(child.tag == "skipped" for child in case):
            passed += 1
    return passed, failed


def on_cpu(name: str) -> str:
    stem, group, test = name.split("::")
    return f"{stem}::{re.sub('(PRIVATEUSE1|MPSX)$', 'CPU', group)}::{test.replace('_mpsx', '_cpu', 1)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="checkout of PyTorch, or its folder 'test'")
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument("-k", help="select tests, as in pytest")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=int, default=7200, help="time limit per file")
    given = parser.parse_args()
    tests = given.checkout / "test" if (given.checkout / "test").is_dir() else given.checkout
    known, unexpected, used, complete = expectations(), 0, set(), set()
    for stem in given.files:
        file = tests / f"{stem}.py"
        if not file.exists():
            print(f"{stem}: not found")
            continue
        with tempfile.TemporaryDirectory() as folder:
            record = run(file, Path(folder), ["-k", given.k] if given.k else [], given.jobs, given.seconds)
            if not record.exists():
                unexpected += 1
                continue
            passed, failed = failures(record, stem)
            cpu_failed: dict[str, str] = {}
            if failed and stem != "test_mps":
                names = " or ".join(sorted({on_cpu(name).rpartition("::")[2].partition("[")[0] for name in failed}))
                record = run(file, Path(folder), ["-k", names], given.jobs, given.seconds, "cpu")
                cpu_failed = failures(record, stem)[1] if record.exists() else {}
        complete |= set() if given.k else {stem}
        # If a file cannot be imported, the name of the failed test has no class.
        same_on_cpu = {name for name in failed if on_cpu(name) in cpu_failed and "::::" not in name}
        expected, rest = 0, len(failed) - len(same_on_cpu)
        for name, message in failed.items():
            if name in same_on_cpu:
                continue
            patterns = [pattern for pattern, _ in known if fnmatch.fnmatchcase(name, pattern)]
            used |= set(patterns)
            expected += bool(patterns)
            if not patterns:
                print(f"  {name}: {message}", flush=True)
        unexpected += rest - expected
        print(f"{stem}: {passed} passed, {len(same_on_cpu)} failed as on the CPU, {expected} expected, "
              f"{rest - expected} unexpected", flush=True)  # fmt: skip
    for pattern, _ in known:
        if pattern not in used and pattern.partition("::")[0] in complete:
            print(f"  no failure matches {pattern}")
    return bool(unexpected)


if __name__ == "__main__":
    sys.exit(main())
