"""`pytest -p mpsx.strict.pytest_plugin --mps-strict`: run tests written for mps, and reject what a Mac would reject.

`--mps-strict` fails a test at the first call that MPS rejects. `--mps-strict=report` does not change any test result.
It lists the rejected calls by test at the end. Works with pytest-xdist.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

PROPERTY = "mps_strict"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --mps-strict."""
    parser.addoption("--mps-strict", nargs="?", const="error", default="", choices=("error", "report"),
                     help="run tests written for mps on mpsx, and reject what PyTorch's MPS rejects")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Name the device mps for the whole session."""
    mode = config.getoption("--mps-strict")
    if mode:
        from mpsx import strict
        from mpsx.device import mps_alias

        mps_alias.enter()
        strict.enter(mode)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the device's name."""
    if config.getoption("--mps-strict"):
        from mpsx import strict
        from mpsx.device import mps_alias

        strict.leave()
        mps_alias.leave()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Attach the rejected calls to the test's report."""
    if item.config.getoption("--mps-strict") != "report":
        return (yield)
    from mpsx import strict

    strict.clear()
    try:
        return (yield)
    finally:
        if strict.rows():
            item.user_properties.append((PROPERTY, strict.text()))


def pytest_terminal_summary(terminalreporter: object) -> None:
    """List the rejected calls by test."""
    if terminalreporter.config.getoption("--mps-strict") != "report":
        return
    found = [(test.nodeid, dict(test.user_properties)[PROPERTY])
             for tests in terminalreporter.stats.values() for test in tests
             if getattr(test, "when", None) == "call" and PROPERTY in dict(test.user_properties)]  # fmt: skip
    terminalreporter.section("mpsx strict")
    for name, text in found:
        terminalreporter.line(f"{name}: {text}")
    if not found:
        terminalreporter.line("on a Mac: nothing rejected")
