"""Strict mode raises the same errors as PyTorch's MPS backend, and its report names the source lines at fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import mpsx

CTC = "torch.nn.functional.ctc_loss(x.log_softmax(-1)[:, None], torch.tensor([[1]], device='mps'), (4,), (1,))"


def ctc_loss(x: torch.Tensor) -> torch.Tensor:
    """Compute ctc_loss, which the MPS backend does not implement."""
    return F.ctc_loss(x.log_softmax(-1)[:, None], torch.tensor([[1]], device="mps"), (4,), (1,))


REJECTED: dict[str, tuple[Callable[[torch.Tensor], object], type[Exception], str]] = {
    "float64": (lambda x: torch.ones(2, dtype=torch.float64, device="mps"), TypeError,
                "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64"),
    "to float64": (lambda x: x.double(), TypeError, "Cannot convert a MPS Tensor to float64"),
    "moved float64": (lambda x: torch.ones(2).double().to("mps"), TypeError, "Cannot convert a MPS Tensor to float64"),
    "float64 result": (lambda x: x.sum(dtype=torch.float64), TypeError, "Cannot convert a MPS Tensor to float64"),
    "complex128": (lambda x: x.to(torch.complex128), TypeError, "Trying to convert ComplexDouble to the MPS backend"),
    "float8": (lambda x: torch.ones(2).to(torch.float8_e5m2).to("mps"), TypeError, "Trying to convert Float8_e5m2"),
    "missing": (ctc_loss, NotImplementedError, r"'aten::_ctc_loss' is not currently implemented for the MPS device"),
    "structured": (lambda x: torch.heaviside(x, x), NotImplementedError, "The operator 'aten::heaviside.out'"),
    "svdvals": (torch.linalg.svdvals, NotImplementedError, "The operator 'aten::_linalg_svd.U'"),
    "dtype": (lambda x: F.relu(x > 0), RuntimeError, "'relu' is not implemented for bool on the MPS device"),
    "dimensions": (lambda x: torch.ones([1] * 17, device="mps"), RuntimeError, "dimensions <= 16, but got 17"),
    "pool": (lambda x: F.adaptive_avg_pool2d(x[None], 3), RuntimeError, "must be divisible by output sizes"),
}  # fmt: skip


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name: str) -> None:
    call, error, message = REJECTED[name]
    with mpsx.as_mps(strict=True):
        x = torch.randn(4, 4, device="mps")
        with pytest.raises(error, match=message):
            call(x)


def test_training_is_accepted() -> None:
    with mpsx.as_mps(strict=True):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU(),
                                    torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 2))
        model = model.to("mps")
        optimizer = torch.optim.AdamW(model.parameters())
        y = torch.tensor([0, 1], device="mps")
        with torch.autocast("mps", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(torch.randn(2, 3, 8, 8, device="mps")), y)
        loss.backward()
        optimizer.step()
        assert loss.item() > 0
        assert torch.linalg.inv(torch.eye(3, device="mps")).sum() == 3


def test_other_threads_and_the_end_of_the_block() -> None:
    errors: list[Exception] = []

    def work() -> None:
        try:
            torch.ones(2, dtype=torch.float64, device="mpsx")
        except TypeError as error:
            errors.append(error)

    with mpsx.as_mps(strict=True):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(errors) == 1
    work()
    assert len(errors) == 1
    with pytest.raises(ValueError, match=r"strict: expected True, False, or one of error, report, got 'often'"):
        mpsx.as_mps(strict="often").__enter__()


def test_fallback_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    mpsx.strict.checks._warned.clear()
    with mpsx.as_mps(strict=True):
        with pytest.warns(UserWarning, match=r"'aten::_ctc_loss' is not currently supported on the MPS backend"):
            ctc_loss(torch.randn(4, 4, device="mps"))
        with pytest.raises(TypeError):
            torch.ones(2, dtype=torch.float64, device="mps")


def test_report() -> None:
    mpsx.strict.clear()
    with mpsx.as_mps(strict="report"):
        x = torch.randn(4, 4, device="mps")
        assert ctc_loss(x) > 0
        assert x.double().dtype == torch.float64
        assert torch.heaviside(x, x).shape == (4, 4)
    found = mpsx.strict.rows()
    assert [(row["kind"], row["what"]) for row in found] == [
        ("operator", "aten::_ctc_loss"), ("tensor", "float64"), ("operator", "aten::heaviside.out")]  # fmt: skip
    assert all("test_strict.py:" in str(row["where"]) for row in found)
    assert mpsx.strict.text().startswith("on a Mac: 2 operators rejected (aten::_ctc_loss at ")


PROGRAM = f"""
import torch
def test_loss():
    x = torch.ones(4, 4, device='mps')
    {CTC}
    torch.ones(2, dtype=torch.float64, device='mps')
def test_sum():
    assert torch.ones(2, device='mps').sum() == 2
if __name__ == '__main__':
    test_loss()
"""


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    environment = os.environ | {"MPSX_FALLBACK": "silent"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment, timeout=300)


def test_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    done = python("mpsx", "run", "--strict=report", "--json", "found.json", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(
        "mpsx strict: on a Mac: 1 operator rejected (aten::_ctc_loss at train.py:5), float64 at train.py:6\n"
    )
    found = json.loads((tmp_path / "found.json").read_text())["found"]
    assert found[0] == {"kind": "operator", "what": "aten::_ctc_loss", "where": "train.py:5", "calls": 1}
    stopped = python("mpsx", "run", "--strict", "train.py", cwd=tmp_path)
    assert stopped.returncode == 1
    assert "NotImplementedError: The operator 'aten::_ctc_loss'" in stopped.stderr


def test_pytest_option(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PROGRAM)
    plugin = ("pytest", "-p", "mpsx.strict.pytest_plugin", "-p", "no:cacheprovider", "-q")
    report = python(*plugin, "--mps-strict=report", cwd=tmp_path)
    assert "test_it.py::test_loss: on a Mac: 1 operator rejected (aten::_ctc_loss at test_it.py:5)" in report.stdout
    assert "2 passed" in report.stdout, report.stdout
    strict = python(*plugin, "--mps-strict", cwd=tmp_path)
    assert "1 failed, 1 passed" in strict.stdout, strict.stdout
    assert "test_it.py:5" in strict.stdout and "checks.py" not in strict.stdout, strict.stdout
