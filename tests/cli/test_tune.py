"""`python -m mpsx tune`: the table, the tuning file, and the search."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from processes import run_in_subprocess

import vendor
from mpsx import __main__ as command
from mpsx import _runtime, tuning
from mpsx.cli.tune import main as tune
from mpsx.cli.tune.cases import Case, cases, rows
from mpsx.cli.tune.measure import Bench, Budget
from mpsx.cli.tune.search import WRONG, Search

FAMILIES = ("apple7", "apple8", "apple9", "apple10", "sm_80", "sm_90")
TABLE = Path(__file__).resolve().parents[2] / "src" / "runtime" / "tuning.def"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Use the same numbers as before after each test."""
    before = tune.in_use()
    yield
    _runtime.set_tuning(before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder, whose tuning files are read."""
    if _runtime.driver()["name"] == "simt":
        pytest.skip("simt reads no tuning file, because it has no speed")
    monkeypatch.setenv("MPSX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MPSX_TUNING")
    return tmp_path


def column_sums() -> Case:
    """Return a case whose launches depend on reduce_groups on every driver."""
    (case,) = (case for case in rows((4096, 64), "f32") if case.name.startswith("sum of columns"))
    return case


# The table


@pytest.mark.parametrize("family", FAMILIES)
def test_the_table_covers_every_family(family: str) -> None:
    table, defaults = _runtime.tuning(family), _runtime.tuning("")
    stated = re.findall(rf"^MPSX_TUNED\({family}, (\w+), ", TABLE.read_text(), re.MULTILINE)
    assert {"tensor_tier", "matmul_tensor_outputs"} <= set(stated) <= set(table)
    changed = {name for name in table if table[name]["table"] != defaults[name]["table"]}
    assert changed <= set(stated)
    assert all(row["low"] <= row["table"] <= row["high"] for row in table.values())
    assert (table["tensor_tier"]["table"] == 1) == (family in ("apple10", "sm_90"))


def test_every_row_has_a_family_and_a_source() -> None:
    """A group of rows for several families may share the comment of its first rows."""
    groups: dict[str, list[str]] = {}
    for line in TABLE.read_text().split("\n"):
        if match := re.match(r"MPSX_TUNED\((\w+), (\w+), ", line):
            assert match[1] in FAMILIES, line
            groups.setdefault(match[2], []).append(line)
    assert all("//" in lines[0] for lines in groups.values())


@pytest.mark.parametrize(("values", "message"), [
    ({"reduce_group": 2}, "no number is named reduce_group"),
    ({"tensor_tier": 2}, "expected tensor_tier from 0 to 1, got 2"),
    ({"reduce_groups": math.nan}, "expected reduce_groups from 1 to"),
])  # fmt: skip
def test_wrong_numbers(values: dict[str, float], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        _runtime.set_tuning(values)


def test_a_number_changes_the_launches() -> None:
    x = torch.randn(4096, 64, device="mpsx")
    _runtime.set_tuning({})
    split = _runtime.plan(lambda: x.sum(0))
    _runtime.set_tuning({"reduce_groups": 1})
    whole = _runtime.plan(lambda: x.sum(0))
    assert len(split) == 2 and len(whole) == 1  # without partial sums, there is nothing to merge
    torch.testing.assert_close(x.sum(0).cpu(), x.cpu().sum(0), rtol=1e-4, atol=1e-3)


def test_a_plan_runs_nothing() -> None:
    x = torch.zeros(100, device="mpsx")
    (launch,) = _runtime.plan(lambda: x.add_(1))
    assert launch.startswith("add") and "threads" in launch
    assert x.sum().item() == 0
    with pytest.raises(ZeroDivisionError):
        _runtime.plan(lambda: 1 / 0)
    assert x.add_(1).sum().item() == 100  # the plan has ended


# The file


READ = """
import warnings
from mpsx import __main__ as command
from mpsx import _runtime, tuning
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    x = torch.ones(4096, 64, device="mpsx")
    launches = [len(_runtime.plan(lambda: x.sum(0))) for _ in range(3)]
    x.sum(0).cpu()
    found = _runtime.tuning()["reduce_groups"]["value"]
    from mpsx.cli import info
    (said,) = [value for name, value in info.driver() if name == "tuning"]
print(launches, found, [str(w.message) for w in caught], said, sep="\\n")
"""


def read(folder: Path, **environment: str) -> list[str]:
    """Return what a new process reads: launches, reduce_groups, warnings, and info's line."""
    done = run_in_subprocess("import torch, mpsx" + READ, MPSX_CACHE_DIR=str(folder), **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().split("\n")


def test_the_file_is_loaded(folder: Path) -> None:
    assert read(folder)[:3] == ["[2, 2, 2]", "1024.0", "[]"]
    file = tuning.write({"reduce_groups": 1}, date="2026-01-31")
    assert file.parent == folder and file.name.startswith(f"tuning-{_runtime.driver()['name']}-")
    launches, value, caught, said = read(folder)
    assert (launches, value, caught) == ("[1, 1, 1]", "1.0", "[]")
    assert said.startswith("1 numbers measured on 2026-01-31, in ")
    launches, value, caught, said = read(folder, MPSX_TUNING="0")
    assert (launches, value, caught) == ("[2, 2, 2]", "1024.0", "[]")
    assert said == "the defaults, because of MPSX_TUNING=0"


@pytest.mark.parametrize(("change", "why"), [
    ("{", "it cannot be read"),
    ("[]", "it is not a tuning file"),
    ({"numbers": [1]}, "it is not a tuning file"),
    ({"mpsx": "0.0.1"}, "it was written for mpsx '0.0.1', and this is"),
    ({"device": "Apple M9"}, "it was written for device 'Apple M9', and this is"),
    ({"driver": "cpu"}, "it was written for driver 'cpu', and this is"),
    ({"numbers": {"speed": 1}}, "it has an unknown number 'speed'"),
    ({"numbers": {"reduce_groups": 0}}, "it has reduce_groups = 0, and expected is a number from 1 to"),
    ({"numbers": {"reduce_groups": "4"}}, "it has reduce_groups = '4'"),
    ({"numbers": {"reduce_groups": math.nan}}, "it has reduce_groups = nan"),
])  # fmt: skip
def test_bad_files(folder: Path, change: str | dict, why: str) -> None:
    file = tuning.write({"reduce_groups": 1}, date="2026-01-31")
    file.write_text(change if isinstance(change, str) else json.dumps(json.loads(file.read_text()) | change))
    with pytest.warns(UserWarning, match=f"mpsx: ignoring {re.escape(str(file))}: {re.escape(why)}"):
        numbers, said = tuning.load.__wrapped__()
    assert numbers == {} and why in said and said.startswith("the defaults")


def test_a_bad_file_is_ignored_with_one_warning(folder: Path) -> None:
    tuning.write({"reduce_groups": 1}).write_text("{")
    launches, value, caught, said = read(folder)
    assert (launches, value) == ("[2, 2, 2]", "1024.0")
    assert caught.count("mpsx: ignoring ") == 1 and "it cannot be read" in caught
    assert "it cannot be read" in said and said.startswith("the defaults")


def test_a_warning_as_an_error_does_not_stop_the_driver(folder: Path) -> None:
    tuning.write({}).write_text("{")
    done = run_in_subprocess("import torch, mpsx; print(torch.ones(3, device='mpsx').sum().item())",
                             MPSX_CACHE_DIR=str(folder), PYTHONWARNINGS="error::UserWarning")  # fmt: skip
    assert done.stdout == "3.0\n", done.stderr


# The search


@vendor.preferred
def test_cases_of_cpu_libraries_are_left_out() -> None:
    """Regression test: every plan ran the CPU libraries' attention, so `doctor` took more than ten minutes."""
    matmuls = [case for case in cases("tiny") if case.name.startswith("matmul")]
    planned = Bench(1e-3, 1).launches(matmuls, {})
    assert len(planned) == len(matmuls) > 0
    assert not any(planned.values())


class FakeBench(Bench):
    """Times that depend only on the launches, and wrong results for some of them."""

    def __init__(self, seconds: dict[int, float], wrong: tuple[int, ...] = ()) -> None:
        self.inputs, self.expected, self.checked = {}, {}, []
        self.seconds, self.bad = seconds, wrong

    def error(self, case: Case, values: dict[str, float]) -> str:
        count = len(self.launches([case], values)[case.name])
        self.checked.append(count)
        return "injected" if count in self.bad else super().error(case, values)

    def compare(self, case: Case, candidates: list[dict[str, float]]) -> list[float]:
        counts = [len(self.launches([case], values)[case.name]) for values in candidates]
        assert set(counts) <= set(self.checked), "measured before it was checked"
        return [self.seconds[count] for count in counts]


def found(bench: Bench) -> tuple[Search, dict[str, float]]:
    """Search for the best number of launches for sums of columns."""
    search = Search(bench, [column_sums()], _runtime.tuning(), Budget(60))
    search.start()
    return search, search.needed(search.improve({}))


def test_chooses_the_fastest_launches() -> None:
    _, values = found(FakeBench({1: 1.0, 2: 2.0}))
    assert list(values) in (["reduce_groups"], ["reduce_split_elements"])
    assert found(FakeBench({1: 2.0, 2: 1.0}))[1] == {}
    assert found(FakeBench({1: 0.99, 2: 1.0}))[1] == {}  # 1% is noise


def test_never_chooses_a_wrong_kernel() -> None:
    """A variant that would be ten times as fast is wrong, and reported with the names of its kernels."""
    search, values = found(FakeBench({1: 0.1, 2: 1.0}, wrong=(1,)))
    assert values == {}
    assert search.wrong and all(re.match(r"sum_columns_f32 in sum of columns", str(each)) for each in search.wrong)
    search, values = found(FakeBench({1: 9.0, 2: 1.0}, wrong=(2,)))  # the default is wrong, and nine times as fast
    assert len(search.plan(values)[column_sums().name]) == 1
    assert max(search.measured.values()) == WRONG


def test_finds_wrong_results() -> None:
    """The check of results finds one wrong element, NaN, and errors of the launch."""
    case, bench = column_sums(), Bench(1e-4, 1)
    assert bench.error(case, {}) == ""

    def corrupt(value: float) -> Case:
        def run(x: torch.Tensor) -> torch.Tensor:
            y = x.sum(0)
            if x.device.type != "cpu":
                y[17] += value
            return y

        return Case(case.name, case.dtype, case.shapes, run)

    assert "differs from the CPU's result by" in bench.error(corrupt(1.0), {})
    assert "differs from the CPU's result by nan" in bench.error(corrupt(math.nan), {})
    broken = Case(case.name, case.dtype, case.shapes, lambda x: torch.mm(x, x))
    assert "cannot be multiplied" in bench.error(broken, {})


@pytest.mark.parametrize(("seconds", "failed", "said"), [
    ({1: 2.0, 2: 1.0}, 1, "Of these, 0 are at least as fast as with the defaults (within 2%), and 1 are slower: "
                          "less than 90% are as fast. With the 10 shapes that keep their kernels, it is 91%."),
    ({1: 1.0, 2: 2.0}, 0, "Of these, 1 are at least as fast as with the defaults (within 2%), and 0 are slower: "
                          "at least 90% are as fast. With the 10 shapes that keep their kernels, it is 100%."),
])  # fmt: skip
def test_verify_judges_the_cases_whose_kernels_change(
    seconds: dict[int, float], failed: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Regression test: cases with the same kernels counted as not slower."""
    keep = [Case(f"add {n}", torch.float32, ((n,),), lambda x: x + 1) for n in range(1, 11)]
    bench = FakeBench(seconds)
    bench.checked = [2]  # the defaults' kernels
    monkeypatch.setattr(tune, "Bench", lambda *_: bench)
    monkeypatch.setattr(tune, "cases", lambda _: [column_sums(), *keep])
    _runtime.set_tuning({"reduce_groups": 1})
    assert tune.verify("full") == failed
    printed = capsys.readouterr().out
    assert "1 numbers differ from the table's. They change the kernels of 1 of 11 shapes" in printed
    assert said in printed


def test_stops_when_the_time_is_over() -> None:
    search = Search(FakeBench({}), [column_sums()], _runtime.tuning(), Budget(0))
    search.start()
    assert search.improve({}) == {}


# The command line


def test_command(folder: Path) -> None:
    """`tune` writes a file that a new process reads, and --verify compares it with the defaults."""
    for arguments, expected in [
        (["--size", "tiny", "--seconds", "20", "--rows"], r"Wrote \d+ numbers to .*tuning-"),
        (["--size", "tiny", "--verify"], r"They change the kernels of \d+ of \d+ shapes that were not tuned\."),
    ]:
        done = subprocess.run([sys.executable, "-m", "mpsx", "tune", *arguments], capture_output=True, text=True,
                              timeout=240, check=False)  # fmt: skip
        assert re.search(expected, done.stdout), done.stdout + done.stderr
        assert "WRONG" not in done.stdout and "Traceback" not in done.stderr
    (file,) = folder.glob("tuning-*.json")
    record = json.loads(file.read_text())
    assert {"mpsx", "driver", "device", "date", "numbers", "seconds", "wrong"} <= set(record)
    assert read(folder)[2] == "[]"


def test_simt_is_rejected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_runtime, "driver", lambda: {"name": "simt"})
    assert command.main(["tune"]) == 2
    assert "the simt driver checks kernels" in capsys.readouterr().err


def test_cases_launch_kernels() -> None:
    """Every case of the quick size runs and has the right result with the defaults."""
    bench, tiny = Bench(1e-4, 1), cases("tiny")
    plan = bench.launches(tiny, {})
    assert not {case.name: why for case in tiny if plan[case.name] and (why := bench.error(case, {}))}


def test_tile_groups() -> None:
    """--fresh measures the tiles of an operator and a type together."""
    groups = tune.tile_groups(_runtime.tuning(""))
    assert [len(tiles) for tiles in groups] == [7, 8, 5, 3]
    search = Search(FakeBench({}), [column_sums()], _runtime.tuning(), Budget(60))
    search.start()
    assert search.speeds(groups[0]) == {}  # no case depends on them
