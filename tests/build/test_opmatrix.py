"""tools/opmatrix.py: measurements, failing workers, and output files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from opmatrix import cases, export, page, pool, records, routes, summary, totals, upstream
from opmatrix import measure as measuring
from opmatrix.cli import Progress, check
from opmatrix.tags import DIRECTIONS, SHOWN, STATUSES, TAGS

import mpsx

ROOT = Path(__file__).resolve().parents[2]

# Measurements


@pytest.mark.parametrize(
    ("op", "direction", "dtype", "status"),
    [
        ("exp", "forward", "f32", "native"),
        ("exp", "backward", "f32", "native"),
        ("exp", "forward", "f64", "fallback"),
        ("addmm", "forward", "f32", "vendor"),
        ("transpose", "forward", "f32", "view"),
        ("transpose", "backward", "f32", "view"),
        ("linalg.eig", "forward", "f32", "fallback"),
        ("exp", "forward_mode", "f32", "native"),
        ("exp", "double_backward", "f32", "native"),
        ("jiterator_unary", "forward", "f32", "untested"),
    ],
)
def test_measured_status(op: str, direction: str, dtype: str, status: str) -> None:
    if status == "vendor" and mpsx.driver()["name"] != "host":
        status = "native"  # only the host driver uses vendor libraries
    record = measuring.measure(cases.Case(op, direction, dtype), 2)
    assert record.status == status, record
    assert bool(record.kernels) == (status == "native")
    assert bool(record.fallback) == (status == "fallback")
    assert (record.vendor == {"aten::addmm.out": "oneDNN/MKL through ATen"}) == (status == "vendor")
    assert bool(record.why) == (status == "untested")
    assert record.samples == sum(record.shares.values()) == (0 if status == "untested" else 2)
    assert json.loads(json.dumps(record.as_dict()))["status"] == status


def test_wrong_result_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases.checks, "on_device", lambda op, sample: (sample.input.to("mpsx") + 1, (), {}))
    record = measuring.measure(cases.Case("exp", "forward", "f32"), 2)
    assert record.status == "fails"
    assert "AssertionError: Tensor-likes are not close" in record.why


def test_worst_sample_determines_the_status() -> None:
    kernel, vendor, fallback = ["kernel:a"], ["kernel:a", "vendor:b"], ["vendor:b", "kernel:a", "fallback:c"]
    assert [routes.route(log) for log in ([], kernel, vendor, fallback)] == ["view", "native", "vendor", "fallback"]
    for better, worse in zip((["view"], ["native"], ["vendor"]), ("native", "vendor", "fallback"), strict=True):
        assert routes.worst(Counter([*better * 9, worse])) == worse


def test_every_cpu_dtype_is_a_case() -> None:
    forward = [case for case in cases.cases() if case.direction == "forward"]
    declared = sum(len(op.supported_dtypes("cpu")) for op in cases.op_db)
    # OpInfos that declare no CPU dtypes are measured in float32.
    without = [op for op in cases.op_db if not op.supported_dtypes("cpu")]
    assert len(forward) == len(set(forward)) == declared + len(without)
    assert {case.op for case in cases.cases(only=["softmax"])} >= {"softmax", "masked.softmax", "log_softmax"}
    assert {case.dtype for case in cases.cases(tags=["f16"])} == {"f16"}


def test_status_of_pytorch_mps() -> None:
    """The expected statuses match the lists in PyTorch's common_mps.py."""
    ops = cases.by_id()
    before = {name: op.decorators for name, op in ops.items()}
    keys = [(c.op, c.direction, c.dtype) for c in cases.cases(only=["linalg.eig", "exp", "empty", "mm", "softmax"])]
    found = upstream.statuses(ops, keys)
    assert found["exp", "forward", "f32"] == "passes"
    assert found["exp", "backward", "f32"] == "passes"
    assert found["linalg.eig", "forward", "f32"] == "fails"
    assert found["empty", "forward", "f32"] == "skipped"
    assert ("exp", "forward", "f64") not in found
    assert ("exp", "backward", "bf16") not in found
    assert {name: op.decorators for name, op in ops.items()} == before  # unchanged, because other tests read them


# Failing workers

WORKER = """
import json, os, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"begin": True}), flush=True)
    if request["op"] == "crash":
        os.abort()
    if request["op"] == "hang":
        time.sleep(60)
    if request["op"] == "exit":
        sys.exit("no more")
    print(json.dumps({"op": request["op"], "direction": "forward", "dtype": "f32", "status": "native"}), flush=True)
"""


def run_pool(names: list[str], jobs: int) -> dict[str, dict[str, Any]]:
    """Measure the named cases in a pool of workers, and return the records."""
    found: dict[str, dict[str, Any]] = {}
    requests = [{"op": name, "direction": "forward", "dtype": "f32", "count": 1} for name in names]
    pool.measure_all(requests, dict(os.environ), jobs=jobs, seconds=2, done=lambda r: found.update({r["op"]: r}),
                     command=(sys.executable, "-c", WORKER))  # fmt: skip
    return found


def test_dying_worker_loses_only_one_case() -> None:
    found = run_pool(["a", "crash", "b", "hang", "c", "exit", "d"], 2)
    assert {name for name, record in found.items() if record["status"] == "native"} == {"a", "b", "c", "d"}
    assert "signal SIGABRT" in found["crash"]["why"]
    assert "time limit" in found["hang"]["why"]
    assert found["exit"]["why"] == "the process ended: status 1: no more"


def test_worker_that_does_not_start() -> None:
    with pytest.raises(pool.WorkerFailed, match="no such driver"):
        pool.measure_all([{"op": "a"}], dict(os.environ), jobs=1, seconds=1, done=print,
                         command=(sys.executable, "-c", "raise SystemExit('no such driver')"))  # fmt: skip


def test_results_survive_an_interrupted_run(tmp_path: Path) -> None:
    store = records.Store(tmp_path / "host.jsonl")
    for status in ("fails", "native"):
        store.add({"op": "exp", "direction": "forward", "dtype": "f32", "status": status})
    store.add({"op": "abs", "direction": "forward", "dtype": "f32", "status": "native"})
    with store.path.open("a") as file:
        file.write('{"op": "sin", "dire')  # as if a worker had been interrupted while writing
    store.file.close()
    again = records.Store(store.path)
    assert {key[0]: record["status"] for key, record in again.records.items()} == {"exp": "native", "abs": "native"}
    again.compact()
    assert [json.loads(line)["op"] for line in store.path.read_text().splitlines()] == ["abs", "exp"]


def test_fingerprints(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    library, test = tmp_path / "lib" / "libmpsx.so", tmp_path / "checks.py"
    library.write_bytes(b"one")
    test.write_text("a")
    seen = [records.fingerprint(tmp_path, [test], 6, ["2.13", "host"])]
    assert records.fingerprint(tmp_path, [test], 6, ["2.13", "host"]) == seen[0]
    library.write_bytes(b"two")
    seen.append(records.fingerprint(tmp_path, [test], 6, ["2.13", "host"]))
    test.write_text("b")
    seen.append(records.fingerprint(tmp_path, [test], 6, ["2.13", "host"]))
    seen.append(records.fingerprint(tmp_path, [test], None, ["2.13", "host"]))
    seen.append(records.fingerprint(tmp_path, [test], None, ["2.13", "simt"]))
    assert len(set(seen)) == len(seen)


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("host", 2)
    for status in ("native", "fails"):
        progress({"op": "exp", "direction": "forward", "dtype": "f32", "status": status, "why": "wrong"})
    written = capsys.readouterr().err
    assert "exp forward f32: wrong" in written
    assert "host: 2/2 (1 native, 1 fails), 0 s left" in written


# The committed summary

SMALL = summary.Summary(
    "2.13.0",
    {("exp", "forward", "f32"): "native", ("exp", "forward", "i64"): "native", ("exp", "backward", "f32"): "fails",
     ("mm", "forward", "f32"): "vendor", ("t", "forward", "f32"): "view", ("eig", "forward", "f32"): "fallback"},
    {("exp", "forward", "f32"): "passes", ("exp", "forward", "i64"): "fails", ("eig", "forward", "f32"): "skipped"},
)  # fmt: skip


def test_summary_round_trip() -> None:
    assert summary.parse(SMALL.text()) == SMALL
    with pytest.raises(ValueError, match="expected a summary"):
        summary.parse("# torch 2.13.0\noperator\n")


def test_totals() -> None:
    lines = {tuple(line.split(" | ")[:2]): line for line in totals.markdown(SMALL, "host").splitlines()}
    assert lines["| forward", "float32"].split(" | ")[2:] == ["4", "1", "1", "1", "1", "0", "0", "1 of 2 |"]
    assert lines["| forward", "integers, bool"].split(" | ")[2:] == ["1", "1", "0", "0", "0", "0", "0", "0 of 1 |"]
    assert lines["| backward", "all"].split(" | ")[2:] == ["1", "0", "0", "0", "0", "1", "0", "– |"]
    assert {tag for tags in list(totals.GROUPS.values())[:-1] for tag in tags} == set(TAGS)
    assert set(SHOWN) == set(STATUSES)


def test_regressions_and_stale_entries() -> None:
    now = {("exp", "forward", "f32"): "fallback", ("mm", "forward", "f32"): "native", ("t", "forward", "f32"): "native",
           ("eig", "forward", "f32"): "fails", ("exp", "forward", "i64"): "native", ("sin", "forward", "f32"): "native",
           ("exp", "forward_mode", "f32"): "native"}  # fmt: skip
    worse, stale = summary.differences(SMALL, now)
    assert worse == ["exp forward f32: was native, is fallback", "eig forward f32: was fallback, is fails"]
    assert stale == ["mm forward f32: was vendor, is native", "t forward f32: was view, is native",
                     "sin forward f32: was missing, is native"]  # fmt: skip
    assert summary.differences(SMALL, SMALL.statuses) == ([], [])


def test_committed_summary_is_complete() -> None:
    """The totals match the README. If torch has the recorded version, the recorded cases match the current ones."""
    committed = summary.load("host")
    assert committed is not None
    assert check("host", {}, [], partial=True) == []
    assert "fails" not in {status for key, status in committed.statuses.items() if key[2] == "f32"}
    if committed.torch == torch.__version__.partition("+")[0]:
        keys = {(case.op, case.direction, case.dtype) for case in cases.cases()}
        assert set(committed.statuses) == keys


def test_check_reports_differences(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(summary, "FOLDER", tmp_path)
    monkeypatch.setattr(totals, "README", tmp_path / "README.md")
    summary.save("host", SMALL)
    totals.README.write_text(f"# Title\n\n{totals.BEGIN}\n{totals.END}\n\nThe end.\n")
    stale = "host: the totals in README.md differ from the summary"
    assert check("host", SMALL.statuses, SMALL.statuses, False) == [stale]
    totals.write_readme(SMALL, "host")
    assert totals.README.read_text().endswith("\n\nThe end.\n")
    assert check("host", SMALL.statuses, SMALL.statuses, False) == []
    now = SMALL.statuses | {("exp", "forward", "f32"): "fallback"}
    assert check("host", now, now, False) == ["host: exp forward f32: was native, is fallback"]
    less = {key: status for key, status in SMALL.statuses.items() if key[0] != "t"}
    assert check("host", less, less, False) == ["host: the summary is stale: no such case: t forward f32"]
    assert check("host", less, less, True) == []


# HTML, JSON and CSV


def some_rows() -> list[dict[str, Any]]:
    """Return rows that together use every field."""
    base = {"op": "exp", "direction": "forward", "dtype": "f32"}
    found = [
        base | {"status": "native", "samples": 2, "shares": {"native": 2}, "kernels": ["exp_dense_f32", "exp_any_f32"]},
        base | {"dtype": "f64", "status": "fallback", "shares": {"fallback": 1, "view": 1}, "fallback": ["aten::exp"]},
        base | {"op": "mm", "status": "vendor", "shares": {"vendor": 1}, "vendor": {"aten::mm": "oneDNN"}},
        base | {"op": "eig", "direction": "backward", "status": "fails", "why": "</script><b>raised"},
    ]
    return [export.row("host", record, {"exp": "unary"}, {("exp", "forward", "f32"): "passes"}) for record in found]


def test_json_and_csv(tmp_path: Path) -> None:
    export.write(tmp_path, some_rows(), {"torch": "2.13.0"})
    found = json.loads((tmp_path / "matrix.json").read_text())
    assert found["torch"] == "2.13.0"
    assert found["rows"] == some_rows()
    lines = (tmp_path / "matrix.csv").read_text().splitlines()
    assert lines[0] == ",".join(export.FIELDS)
    assert lines[1] == "host,exp,unary,forward,float32,native,2,2,0,0,0,exp_dense_f32 exp_any_f32,,,,passes"
    assert lines[3] == "host,mm,,forward,float32,vendor,0,0,1,0,0,,aten::mm (oneDNN),,,not tested"


def test_html_page_is_self_contained(tmp_path: Path) -> None:
    page.write(tmp_path / "index.html", some_rows(), {"torch": "2.13.0"})
    text = (tmp_path / "index.html").read_text()
    assert text.count("</script>") == 1  # the data must not contain a closing script tag
    assert not re.search(r"(src|href)=|url\(|@import|https?://", text)
    data = json.loads(re.search(r"const DATA = (\{.*\});", text)[1])
    assert [name for name, _ in data["operators"]] == ["eig", "exp", "mm"]
    assert data["dtypes"] == [["f32", "float32"], ["f64", "float64"]]
    op, dtype, status, mps, samples, *texts = data["cells"]["host"]["backward"][0]
    assert (op, dtype, list(STATUSES)[status], data["mps"][mps], samples) == (0, 0, "fails", "not tested", [0] * 4)
    assert [data["strings"][i] for i in texts] == ["", "", "", "</script><b>raised"]
    for name in re.findall(r'\$\("(\w+)"\)', text):
        assert f'id="{name}"' in text


@pytest.mark.sweep
def test_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "tools/opmatrix.py", "--only", "softmax", "--output", str(tmp_path), "--check"]
    run = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    rows = json.loads((tmp_path / "matrix.json").read_text())["rows"]
    assert {row["operator"] for row in rows} >= {"softmax", "log_softmax", "masked.softmax"}
    assert {row["direction"] for row in rows} == set(DIRECTIONS)
    again = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0
    assert "host: " not in again.stderr  # all measurements are reused


def test_where() -> None:
    run = subprocess.run([sys.executable, "tools/where.py", "softmax"], cwd=ROOT, check=True, capture_output=True,
                         text=True)  # fmt: skip
    for pattern in (
        r"metal/norm/softmax\.metal:\d+ +softmax_rows_f32", r"src/ops/norm/softmax\.cpp:\d+ +softmax_backward",
        r"src/ops/norm/softmax\.cpp:\d+ +_softmax_backward_data", r"tests/ops/norm/test_softmax\.py:\d+",
        r"host softmax forward +native f32,f16,bf16",
    ):  # fmt: skip
        assert re.search(pattern, run.stdout), run.stdout
    warned = subprocess.run([sys.executable, "tools/where.py", "_linalg_eigh"], cwd=ROOT, check=True,
                            capture_output=True, text=True)  # fmt: skip
    assert re.search(r"host linalg\.eigh forward +", warned.stdout), warned.stdout
    cut = subprocess.run("python3 tools/where.py softmax | head -1".replace("python3", sys.executable), cwd=ROOT,
                         shell=True, check=True, capture_output=True, text=True)  # fmt: skip
    assert (cut.stdout, cut.stderr) == ("kernels:\n", "")
    name = "nosuch" + "operator"  # split, so that where.py does not find the name in this file
    unknown = subprocess.run([sys.executable, "tools/where.py", name], cwd=ROOT, check=False,
                             capture_output=True, text=True)  # fmt: skip
    assert unknown.returncode == 1
    assert f"found nothing named {name}" in unknown.stderr
