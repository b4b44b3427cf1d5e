"""`python -m mpsx`: help, usage errors, and what `help()` shows for the package."""

from __future__ import annotations

import pydoc

import pytest
import torch

import mpsx
from mpsx import __main__ as command


def output_of(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str]:
    """Run a command that exits. Return its exit status and its output."""
    with pytest.raises(SystemExit) as stopped:
        command.main(list(arguments))
    captured = capsys.readouterr()
    return stopped.value.code, captured.out + captured.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = output_of("--version", capsys=capsys)
    assert status == 0
    assert text.startswith(f"mpsx {mpsx.__version__}, torch {torch.__version__}")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("run", "--help"), (0, "script.py [arguments]")),
        (("run",), (2, "python -m mpsx run: error: expected a script")),
        (("run", "-m"), (2, "expected a script, or -m and a module")),
        (("run", "nowhere.py"), (2, "python -m mpsx run: cannot open 'nowhere.py': no such file")),
        (("run", "--fast", "x.py"), (2, "python -m mpsx run: error: unrecognized arguments: --fast")),
        (("run", "--strict=maybe", "x.py"), (2, "argument --strict: invalid choice: 'maybe'")),
        (("run", "--json", "x.json", "x.py"), (2, "--json needs --strict=report")),
        (("info", "--fast"), (2, "python -m mpsx info: error: unrecognized arguments: --fast")),
    ],
)
def test_usage(arguments: tuple[str, ...], expected: tuple[int, str], capsys: pytest.CaptureFixture[str]) -> None:
    status, text = output_of(*arguments, capsys=capsys)
    assert status == expected[0]
    assert expected[1] in text


def test_help_lists_the_interface() -> None:
    assert {"compile_shader", "ops", "as_mps", "fallback", "strict"} <= set(dir(mpsx))
    package = pydoc.plain(pydoc.render_doc(mpsx))
    assert "compile_shader(source" in package and "mpsx.ops" in package
    device = pydoc.plain(pydoc.render_doc(torch.mpsx))
    for name in ("memory_allocated", "empty_cache", "manual_seed", "class Stream", "compile_shader"):
        assert name in device, name


def test_help_of_a_kernel() -> None:
    assert "in the order of its buffers" in mpsx._shader.Kernel.__call__.__doc__
