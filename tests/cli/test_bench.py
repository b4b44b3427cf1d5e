"""`python -m mpsx bench` measures every model on every device, and writes a chart and a JSON file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mpsx.cli.bench import main as bench
from mpsx.cli.bench.models import BUILD, SIZES, batch

pytest.importorskip("matplotlib", reason="draws the chart")


def test_tiny(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mpsx", "bench", "--size", "tiny", "--models", "bert", "--steps", "2",
               "--threads", "1", "--json", "bench.json"]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "bench.json").read_text())
    assert set(results["seconds"]) == {
        f"bert {phase} {device}" for phase in bench.PHASES for device in ("cpu", *results["devices"])}  # fmt: skip
    assert all(len(times) == 2 for times in results["seconds"].values())
    for key, cell in results["speedups"].items():
        assert 0 < cell["low"] <= cell["median"] <= cell["high"], key
    assert "BERT, training" in done.stdout and "smaller than the published sizes" in done.stdout
    assert (tmp_path / "mpsx-bench.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_baseline_does_not_load_mpsx() -> None:
    code = f"import sys; sys.path.insert(0, {str(bench.WORKER.parent)!r}); import worker; print('mpsx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                          env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PATH": ""})  # fmt: skip
    assert done.stdout == "False\n"


@pytest.mark.parametrize("name", BUILD)
def test_models(name: str) -> None:
    size = SIZES["tiny"]
    x, y = batch(name, size)
    assert BUILD[name](size.shrink)(x).shape[0] == len(y) == size.batches[name]


def test_speedup() -> None:
    assert bench.speedup([2.0, 2.0, 4.0], [1.0, 0.5, 2.0]) == {"median": 2.0, "low": 1.0, "high": 4.0}


def test_errors_name_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="BERT on nowhere: "):
        bench.measure("bert", "tiny", "nowhere", 1, (0, 1), 0, bench.Progress(1))


def test_a_time_limit_leaves_two_measured_steps() -> None:
    found = bench.measure("bert", "tiny", "cpu", 1, (1, 50), 1e-6, bench.Progress(102))
    assert [len(times) for times in found.values()] == [2, 2]
