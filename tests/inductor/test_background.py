"""Generated kernels are compiled in the background while Inductor lowers the rest of the graph."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import pytest
import torch
from processes import run_compiled
from torch._inductor import utils
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler

from mpsx.inductor import kernels
from mpsx.shader.interpreter import TURN_SECONDS, paused_collection

# Compiles a graph with more kernels than a library has, and prints what is built, and when.
SCRIPT = """
import gc

import torch
import mpsx
from mpsx.inductor import kernels
from mpsx.shader import compiler
from torch._inductor.codegen.wrapper import PythonWrapperCodegen

kernels.KERNELS_PER_LIBRARY = 4
real_build, real_start, real_generate = compiler.Builder.build, kernels.Kernels.start, PythonWrapperCodegen.generate
enabled = []

def built(*args):
    print("built\\n", end="")  # in one piece, as threads call this
    return real_build(*args)

def start(self):
    print("start", len(self.waiting))
    real_start(self)

def generate(*args):
    print("generated")
    enabled.append(gc.isenabled())
    return real_generate(*args)

compiler.Builder.build, kernels.Kernels.start, PythonWrapperCodegen.generate = built, start, generate

def f(x, w):
    for i in range(10):
        x = (x @ w + i).sin()
    return x

torch.manual_seed(0)
x, w = torch.randn(8, 8, device="mpsx"), torch.randn(8, 8, device="mpsx")
torch.testing.assert_close(torch.compile(f)(x, w), f(x, w))
assert not any(enabled) and gc.isenabled()
"""


def test_libraries_start_while_inductor_lowers(tmp_path: Path) -> None:
    """All libraries start before the graph's module is written. A second process builds none."""
    variables = {"MPSX_DRIVER": "host", "MPSX_CACHE_DIR": str(tmp_path / "mpsx"),
                 "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}  # fmt: skip
    first, second = (run_compiled(SCRIPT, **variables) for _ in range(2))
    assert first.returncode == 0, first.stderr[-3000:]
    assert second.returncode == 0, second.stderr[-3000:]
    words = first.stdout.split("\n")
    assert [w for w in words[: words.index("generated")] if w != "built"] == ["start 4", "start 4", "start 2"]
    assert words.count("built") == 3  # the module finds the libraries
    assert "built" not in second.stdout


def test_errors_reach_the_caller() -> None:
    found = kernels.Kernels()
    kernel = found.add("broken", "kernel void broken(device float* x) { x[0] = nothing; }", [], [], 1)
    assert kernel.result() is kernel
    with pytest.raises(SyntaxError, match="nothing"):
        kernel()


@pytest.mark.parametrize("version", [torch.__version__, "2.12.0"])
def test_first_call_replaces_the_kernel(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later calls run the kernel itself. Before torch 2.13, Inductor calls an attribute."""
    monkeypatch.setattr(torch, "__version__", version)
    module: dict[str, object] = {}
    text = "kernel void fill(device float* x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"
    first = module["fill"] = kernels.Kernels(module).add("fill", text, [], [], 1)
    x = torch.zeros(4, device="mpsx")
    for count in (1, 2):
        call = module["fill"] if version == torch.__version__ else module["fill"].generated_kernel
        call(x, threads=[4])
        assert x.tolist() == [count] * 4
        assert module["fill"] is not first


def test_collector_is_paused() -> None:
    """The garbage collector is paused during a compilation, also after a reset, which removes Dynamo's callbacks."""
    torch._dynamo.reset()
    enabled = []

    def backend(gm: torch.fx.GraphModule, _: list[torch.Tensor]) -> torch.fx.GraphModule:
        enabled.append(gc.isenabled())
        return gm

    torch.compile(lambda x: x + 1, backend=backend)(torch.zeros(2))
    assert enabled == [False]
    assert gc.isenabled()


def test_collector_stays_disabled() -> None:
    """A program that has disabled the garbage collector finds it disabled after a compilation."""
    torch._dynamo.reset()
    gc.disable()
    try:
        torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(2))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_collector_stays_paused_while_a_thread_needs_it() -> None:
    """Threads pause the collector for overlapping times."""
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with paused_collection:
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    assert gc.isenabled()
    thread.start()
    entered.wait()
    with paused_collection:
        leave.set()
        thread.join()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_threads_take_short_turns_during_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    before, during = sys.getswitchinterval(), []
    monkeypatch.setattr(kernels, "load", lambda *_, **__: during.append(sys.getswitchinterval()))
    with pytest.raises(AttributeError, match="fill"):  # load() returns None
        kernels.compiled("", ["fill"])
    assert during == [pytest.approx(TURN_SECONDS)]
    assert sys.getswitchinterval() == before


def test_dtype_rules_added_later_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "op_dtype_propagation_rules", dict(utils.op_dtype_propagation_rules))
    DtypePropagationOpsHandler()
    rule = next(iter(utils.op_dtype_propagation_rules.values()))
    utils.op_dtype_propagation_rules["mpsx_test_rule"] = rule
    assert hasattr(DtypePropagationOpsHandler(), "mpsx_test_rule")
