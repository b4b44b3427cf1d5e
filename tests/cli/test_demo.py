"""`python -m mpsx demo` and `python -m mpsx info`. The demo trains the same model on both devices without fallbacks,
and plots the losses."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mpsx
import vendor
from mpsx import __main__ as command
from mpsx.cli import info
from mpsx.cli.demo.data import MODULES, digits, standard_library
from mpsx.cli.demo.models import GPT
from mpsx.cli.demo.picture import bars
from mpsx.cli.demo.tasks import TASKS
from mpsx.cli.demo.training import Race, Run, race

STEPS = 6


def run_race(name: str, dtype: torch.dtype = torch.float32, steps: int = STEPS) -> Race:
    task = TASKS[name](0)
    runs = [Run(task, device, dtype, steps, 0) for device in ("mpsx", "cpu")]
    return race(task, runs, steps, lambda _loss: None)


@pytest.mark.parametrize("name", TASKS)
def test_losses_equal_those_on_the_cpu(name: str, no_fallback: None) -> None:
    result = run_race(name)
    assert result.other is not None
    assert len(result.run.losses) == len(result.other.losses) == STEPS
    assert result.run.losses[-1] < result.run.losses[0]
    torch.testing.assert_close(torch.tensor(result.run.losses), torch.tensor(result.other.losses))
    assert result.run.score == result.other.score
    assert result.run.sample == result.other.sample
    assert result.fallbacks == []


@pytest.mark.parametrize("name", TASKS)
def test_bfloat16_is_close(name: str, no_fallback: None) -> None:
    result = run_race(name, torch.bfloat16)
    assert result.other is not None
    # These losses follow several optimizer steps in bfloat16, which has 8 significant bits.
    torch.testing.assert_close(
        torch.tensor(result.run.losses), torch.tensor(result.other.losses), rtol=2**-6, atol=2**-6
    )


def test_time_breakdown_adds_up(no_fallback: None) -> None:
    result = run_race("resnet")
    shown = bars(result)
    libraries = vendor.is_preferred()  # true only for the host driver
    assert {route for _, route, _ in shown} == {"native", "outside"} | ({"vendor"} if libraries else set())
    total = sum(result.run.seconds) / STEPS * 1e3
    assert sum(milliseconds for _, _, milliseconds in shown) == pytest.approx(total)
    assert result.calls("native") > 50 * STEPS
    assert result.calls("vendor") >= 9 * STEPS * libraries  # the forward pass has nine convolutions


def test_digits_are_split_and_normalized() -> None:
    data = digits(0)
    assert data.train[0].shape == (1437, 1, 8, 8)
    assert data.test[0].shape == (360, 1, 8, 8)
    assert abs(data.train[0].mean()) < 1e-4
    assert data.train[0].std().item() == pytest.approx(1, abs=1e-4)
    assert data.train[1].bincount().min() > 100  # each of the ten digits is frequent


def test_batches_repeat_with_the_seed() -> None:
    for task in (TASKS["resnet"], TASKS["gpt"]):
        first, second, other = (next(task(seed).batches()) for seed in (0, 0, 1))
        assert torch.equal(first[0], second[0])
        assert not torch.equal(first[0], other[0])


def test_text_is_the_standard_library() -> None:
    text = standard_library()
    assert len(MODULES) == len(set(MODULES))
    assert len(text.train) + len(text.test) > 1_000_000
    assert text.decode(text.encode("def main(): pass")) == "def main(): pass"
    assert "import os" in text.decode(text.train)
    inputs, targets = next(text.batches(2, 32, 0))
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_generated_text_is_the_same_on_both_devices(no_fallback: None) -> None:
    torch.manual_seed(0)
    model = GPT(96, 32, width=32, heads=2, layers=1).eval()
    start = torch.tensor([5, 6, 7])
    expected = model.write(start, 40, seed=3)
    assert expected.shape == (43,)
    assert torch.equal(model.to("mpsx").write(start, 40, seed=3), expected)
    assert not torch.equal(model.write(start, 40, seed=4), expected)


def test_causal_mask() -> None:
    model = GPT(50, 16, width=32, heads=2, layers=2).eval()
    text = torch.randint(50, (1, 16))
    changed = text.clone()
    changed[0, 10:] = (changed[0, 10:] + 1) % 50
    assert torch.equal(model(text)[0, :10], model(changed)[0, :10])
    assert not torch.allclose(model(text)[0, 10:], model(changed)[0, 10:])


@pytest.mark.parametrize("flags", [("--model", "resnet"), ("--model", "gpt", "--dtype", "bfloat16", "--no-compare")])
def test_command(flags: tuple[str, ...], tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    arguments = [sys.executable, "-m", "mpsx", "demo", "--steps", "4", "--output", str(picture), *flags]
    environment = dict(os.environ, MPSX_FALLBACK="error", OMP_NUM_THREADS="1")
    done = subprocess.run(
        arguments, check=False, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert re.search(r"device +mpsx on the driver \w+: .+; kernels compiled by .+", done.stdout)
    assert re.search(r"^native +[\d,]+ launches of \d+ Metal kernels$", done.stdout, re.MULTILINE)
    assert re.search(r"^fallback +0 calls$", done.stdout, re.MULTILINE)
    assert ("Largest difference" in done.stdout) == ("--no-compare" not in flags)
    header = picture.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", header[16:])
    assert width > height > 500


@pytest.mark.parametrize(
    ("flags", "message"),
    [(("--steps", "0"), "--steps: expected at least 1, got 0"), (("--model", "vgg"), "invalid choice: 'vgg'")],
)
def test_bad_flags(flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = command.main(["demo", *flags])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert message in capsys.readouterr().err


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("mpsx.cli.demo.main.NEEDED", {"no_such_module": "some-package", "sys": "python"})
    assert command.main(["demo"]) == 2
    assert "The demo needs some-package: pip install 'mpsx[demo]'" in capsys.readouterr().err


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    kept = torch.ones(3 << 20, dtype=torch.uint8, device="mpsx")
    assert command.main(["info"]) == 0
    text = capsys.readouterr().out
    driver = mpsx.driver()
    for expected in (mpsx.__version__, torch.__version__, driver["compiler"], driver["isa"], driver["device"]):
        assert expected in text
    allocated = re.search(r"allocated +([\d.]+) ([MG])iB by tensors", text)
    assert allocated is not None
    assert float(allocated[1]) * (1024 if allocated[2] == "G" else 1) >= kept.nbytes / 2**20
    for name in info.VARIABLES:
        assert name in text


def test_info_explains_why_metal_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(system: str, driver: str, built: bool) -> str:
        monkeypatch.setattr("platform.system", lambda: system)
        monkeypatch.setattr(info._runtime, "driver", lambda: {"name": driver})
        monkeypatch.setattr(info._build_info, "METAL_DRIVER", built)
        return info.why_metal()

    monkeypatch.delenv("MPSX_DRIVER", raising=False)
    assert fake("Darwin", "metal", True) == "in use"
    assert fake("Linux", "host", False).startswith("not available: Metal needs macOS, and this is Linux")
    assert fake("Darwin", "host", False).startswith("not built")
    assert fake("Darwin", "host", True).startswith("not found")
    monkeypatch.setenv("MPSX_DRIVER", "host")
    assert fake("Darwin", "host", True) == "not selected: MPSX_DRIVER=host"
