"""Every program in mpsx.examples runs and learns at its small size. The sweep also runs a few steps at the real
size."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import mpsx.examples

NEEDS = {"vit_trainer": ("transformers", "accelerate", "sklearn"), "lightning_fit": ("lightning", "sklearn"),
         "lora": ("peft", "transformers"), "diffusion": ("sklearn",)}  # fmt: skip
HELPERS = {"options", "digits"}
NAMES = sorted({module.name for module in pkgutil.iter_modules(mpsx.examples.__path__)} - HELPERS)
# Fewer steps than the default, but still enough to reduce the loss.
STEPS = {"gpt": "30", "vit_trainer": "40", "lightning_fit": "28", "lora": "12", "diffusion": "60", "metal_kernel": "40"}

pytestmark = pytest.mark.filterwarnings("ignore")


def run(name: str, *arguments: str) -> tuple[float, float]:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package, reason=f"{name} needs {package}")
    return importlib.import_module(f"mpsx.examples.{name}").main(list(arguments))


SLOW = pytest.param("compiled", marks=pytest.mark.sweep)  # the tests in tests/docs compile a model by default


@pytest.mark.parametrize("name", [SLOW if name == "compiled" else name for name in NAMES])
def test_small(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    steps = ("--steps", STEPS[name]) if name in STEPS else ()
    first, last = run(name, *steps)
    assert last < 0.95 * first, capsys.readouterr().out


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_real(name: str) -> None:
    first, last = run(name, "--real", "--steps", "3")
    assert first > 0 and last > 0


def test_listed() -> None:
    assert all(f"    {name} " in mpsx.examples.__doc__ for name in NAMES)
