"""Every line that an integration patches still exists in the installed version of the library."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from types import SimpleNamespace

import pytest
from processes import run_in_subprocess

from mpsx import integrations
from mpsx.integrations import LIBRARIES, rewrite


@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_patches_apply(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    patches = importlib.import_module(f"mpsx.integrations.{LIBRARIES[library]}").PATCHES
    names = [name for name in patches if name.partition(".")[0] == library]
    assert names
    if library == "keras":
        monkeypatch.setenv("KERAS_BACKEND", "torch")
    imported = [name for name in names if _is_importable(name)]
    assert integrations.failed_patches == []
    if not imported:
        pytest.skip(f"the dependencies of {library} are not installed")


def _is_importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:  # a dependency is not installed
        return False
    return True


def _sample(x: int) -> str:
    name = "cuda"
    return f"{name}:{x}"


class _Derived(dict):
    def get(self, key: str) -> str:
        return super().get(key, "cpu")


def test_line() -> None:
    module = importlib.import_module(__name__)
    reference = _sample
    first = _sample.__code__.co_firstlineno
    rewrite.line("_sample", 'name = "cuda"', 'name = "mpsx"')(module)
    assert reference(3) == "mpsx:3"
    assert reference.__code__.co_firstlineno == first
    rewrite.line("_Derived.get", '"cpu"', '"mpsx"')(module)  # get() calls super(), which needs __class__
    assert _Derived().get("x") == "mpsx"
    with pytest.raises(ValueError, match="_sample has changed, expected 'absent'"):
        rewrite.line("_sample", "absent", "")(module)


def _with_a_lambda_default(x: int, scale: object = lambda x: x) -> str:
    return f"cuda:{scale(x)}"


def test_line_of_a_function_with_nested_functions() -> None:
    rewrite.line("_with_a_lambda_default", "cuda", "mpsx")(importlib.import_module(__name__))
    assert _with_a_lambda_default(1) == "mpsx:1"


def _factorial(n: int) -> int:
    return n * _factorial(n - 1) if n > 2 else 1


def test_line_of_a_recursive_function() -> None:
    rewrite.line("_factorial", "else 1", "else 2")(importlib.import_module(__name__))
    assert _factorial(4) == 24


def test_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(__name__="library", DEVICE="cpu")
    monkeypatch.setenv("LIBRARY_DEVICE", "cpu")
    rewrite.constant("DEVICE", "mpsx", unless="LIBRARY_DEVICE")(module)
    assert module.DEVICE == "cpu"
    monkeypatch.delenv("LIBRARY_DEVICE")
    rewrite.constant("DEVICE", "mpsx", unless="LIBRARY_DEVICE")(module)
    assert module.DEVICE == "mpsx"
    with pytest.raises(ValueError, match="library has changed, expected a variable 'absent'"):
        rewrite.constant("absent", "mpsx")(module)


def test_unsupported_version_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(__name__)
    monkeypatch.setattr(integrations, "_patches", lambda name: (rewrite.line("_sample", "absent", ""),))
    with pytest.warns(UserWarning, match="mpsx cannot patch .*_sample has changed"):
        integrations.apply(module)
    integrations.failed_patches.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        integrations.apply(module)


@pytest.mark.sweep
def test_disabled_by_environment() -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    code = "from accelerate import Accelerator; print(Accelerator().device.type)"
    assert run_in_subprocess(code).stdout.split() == ["mpsx"]
    assert run_in_subprocess(code, MPSX_INTEGRATIONS="0").stdout.split() == ["cpu"]
