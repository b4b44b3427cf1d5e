"""Another process compiles a backward graph while this one compiles the forward graph."""

from __future__ import annotations

import gc
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
import torch
from processes import run_compiled

from mpsx.inductor import backward_process, compile_process
from mpsx.inductor.compile_process import Call, Process, Settings

# Each test's script begins with this. `lookups` counts how often Inductor's cache contains a graph ("hit") or does not
# ("miss").
SCRIPT = """
import concurrent.futures
import os
import signal
import time
from collections import Counter

import mpsx
from mpsx.inductor import backward_process
from torch._inductor.codecache import FxGraphCache

load_with_key, lookups = FxGraphCache.load_with_key, Counter()

def count(*args, is_backward, **kwargs):
    found = load_with_key(*args, is_backward=is_backward, **kwargs)
    lookups["backward " * is_backward + found[1]["cache_state"]] += 1
    return found

FxGraphCache.load_with_key = count
sent, real_submit = [], backward_process.process.submit

def submit(job):
    sent.append(real_submit(job))
    return sent[-1]

backward_process.process.submit = submit
backward_process.MIN_INPUTS = 4

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = torch.nn.LayerNorm(16), torch.nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.linear(self.norm(x)).view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return x + y.transpose(1, 2).reshape(x.shape).sin()

torch.manual_seed(0)
model = torch.nn.Sequential(*(Layer() for _ in range(2))).to("mpsx")
x = torch.randn(2, 8, 16, device="mpsx")

def gradients(function):
    model.zero_grad()
    loss = function(x).square().mean()
    concurrent.futures.wait(backward_process._compiling.values(), 100)
    loss.backward()
    return [p.grad.clone() for p in model.parameters()]

def check(**options):
    torch._dynamo.reset()
    torch.testing.assert_close(gradients(torch.compile(model, **options)), gradients(model))
"""


def run(code: str, folder: Path, **environment: str) -> None:
    done = run_compiled(SCRIPT + code, TORCHINDUCTOR_CACHE_DIR=str(folder), **environment)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("driver", ["host", "simt"])
def test_backward_graph_is_found(driver: str, tmp_path: Path) -> None:
    """This process finds the backward graph and its kernel libraries in the caches, and loads the eager kernels."""
    # With an empty cache, simt would compile all eager kernels.
    cache = {"MPSX_CACHE_DIR": str(tmp_path / "mpsx")} if driver == "host" else {}
    run("""
from mpsx import _runtime
from mpsx.inductor import preloading
from mpsx.shader import build

libraries, real_build, preloaded, real_load = [], build.build, set(), preloading.load

def built(*args):
    result = real_build(*args)
    libraries.append(result.cached)
    return result

def load(*args):
    launches = real_load(*args)
    preloaded.update(launch.split()[0] for launch in launches)
    return launches

build.build, preloading.load = built, load
loss = torch.compile(model)(x).square().mean()
concurrent.futures.wait(sent, 100)
time.sleep(1)  # for the callback of the future
preloading.pool().shutdown()
if _runtime.driver()["simd_width"] > 1:
    assert any("attention_backward" in name for name in preloaded), preloaded
libraries.clear()
loss.backward()
assert lookups == {"miss": 1, "backward hit": 1}, lookups
assert libraries and all(libraries), libraries
found = [p.grad.clone() for p in model.parameters()]
torch.testing.assert_close(found, gradients(model))
""", tmp_path, MPSX_DRIVER=driver, **cache)  # fmt: skip


def test_modes(tmp_path: Path) -> None:
    """Other modes and settings use the process too."""
    run("""
check(mode="reduce-overhead")
assert lookups == {"miss": 1, "backward hit": 1}, lookups
torch.use_deterministic_algorithms(True)
torch.set_float32_matmul_precision("medium")
torch.utils.deterministic.fill_uninitialized_memory = False
with torch.autocast("mpsx", torch.bfloat16), torch._inductor.config.patch(_micro_pipeline_tp=True):
    found = gradients(torch.compile(model))
    torch.testing.assert_close(found, gradients(model), rtol=2e-2, atol=1e-3)
assert lookups == {"miss": 2, "backward hit": 2}, lookups
""", tmp_path)  # fmt: skip


def test_unexpected_strides(tmp_path: Path) -> None:
    """If the forward pass saves a tensor with other strides than expected, this process compiles the graph."""
    run("""
values = backward_process.graph_compile.fx_placeholder_vals

def other_strides(gm):
    found = values(gm)
    with found[0].fake_mode:
        return [torch.empty_strided(x.shape, x.stride()[::-1], dtype=x.dtype, device=x.device)
                if x.dim() == 2 else x for x in found]

send = backward_process.send

def send_others(*args):
    backward_process.graph_compile.fx_placeholder_vals = other_strides
    future = send(*args)
    backward_process.graph_compile.fx_placeholder_vals = values
    return future

backward_process.send = send_others
check()
assert sent[0].exception() is None
assert lookups == {"miss": 1, "backward miss": 1}, lookups
""", tmp_path)  # fmt: skip


def test_unknown_operators(tmp_path: Path) -> None:
    """This process compiles graphs with operators that the other one does not know."""
    run("""
@torch.library.custom_op("test::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2

double.register_fake(torch.empty_like)
double.register_autograd(lambda ctx, grad: double(grad))
model.append(type("Double", (torch.nn.Module,), {"forward": lambda self, x: double(x)})())
check()
assert "double" in str(sent[0].exception()), sent[0].exception()
assert not backward_process.process.failed
assert lookups == {"miss": 1, "backward miss": 1}, lookups
""", tmp_path)  # fmt: skip


def test_killed_process(tmp_path: Path) -> None:
    """If the process is killed, this one compiles the graph, and later graphs too."""
    run("""
process = backward_process.process

def submit_and_kill(job):
    future = submit(job)
    while not future.running():
        time.sleep(0.1)
    os.kill(process.child.pid, signal.SIGKILL)
    return future

process.submit = submit_and_kill
check()
assert isinstance(sent[0].exception(), EOFError), sent[0].exception()
assert lookups == {"miss": 1, "backward miss": 1}, lookups
assert process.failed and real_submit(b"").cancelled()
with torch.autocast("mpsx", torch.bfloat16):
    gradients(torch.compile(model))
assert len(sent) == 1 and lookups == {"miss": 2, "backward miss": 2}, lookups
""", tmp_path)  # fmt: skip


def test_graphs_that_are_not_sent(tmp_path: Path) -> None:
    """Graphs with symbolic sizes or few inputs are compiled in this process, and so are all with one thread."""
    run("""
def send(*args):
    future = real_send(*args)
    assert future is None
    return future

class Pass(torch._inductor.custom_graph_pass.CustomGraphPass):
    def __call__(self, graph):
        pass

    def uuid(self):
        return "pass"

real_send, backward_process.send = backward_process.send, send
model = torch.nn.Sequential(*(torch.nn.LayerNorm(16) for _ in range(2))).to("mpsx")
with torch._inductor.config.patch(compile_threads=1):
    check()
check(dynamic=True)
with torch._inductor.config.patch(post_grad_custom_post_pass=Pass()):
    check()
backward_process.lowering.lowerings["test"] = Pass()
check()
del backward_process.lowering.lowerings["test"]
w = torch.randn(3, device="mpsx", requires_grad=True)
torch.compile(lambda x: (x * w).sin().sum())(torch.randn(3, device="mpsx")).backward()
assert not sent and lookups["backward miss"] == 4, lookups  # the model is the same with and without a lowering
""", tmp_path)  # fmt: skip


def test_the_process_starts_with_the_first_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """On many cores, the process starts before the size of the graph is known, but not for inference."""
    process, started = Process(), []
    monkeypatch.setattr(backward_process, "process", process)
    monkeypatch.setattr(process, "start", lambda: started.append(True))
    torch.zeros(1, device="mpsx")  # starts the driver
    with torch._inductor.config.patch(compile_threads=2):
        backward_process.start_first()
    with torch._inductor.config.patch(compile_threads=16):
        with torch.no_grad():
            backward_process.start_first()
        assert not started
        backward_process.start_first()
        assert started
        process.child = object()
        backward_process.start_first()
        assert len(started) == 1


def test_the_process_ends_without_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_process, "IDLE_SECONDS", 0)
    torch.zeros(1, device="mpsx")
    process = Process()
    for _ in range(2):  # it can be started again
        process.start()
        while process.runs:
            time.sleep(0.1)
        assert process.child.wait(60) is not None and not process.failed


def test_call() -> None:
    """The call of an operator can be pickled without the operator."""
    assert Call.of(torch.ops.aten.sum.dim_IntList, (1,), {}).unpack() == (torch.ops.aten.sum.dim_IntList, (1,), {})


def test_settings() -> None:
    before = Settings.current()
    others = Settings(True, True, torch.float64, 1, ("tf32", False, False, False))
    others.set()
    try:
        assert Settings.current() == others
    finally:
        before.set()
    assert Settings.current() == before


def test_compiled_functions_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Futures are dropped with the compiled function."""
    monkeypatch.setattr(backward_process, "MIN_INPUTS", 1)
    monkeypatch.setattr(backward_process, "send", lambda *args: Future())
    w = torch.ones(3, device="mpsx", requires_grad=True)
    torch.compile(lambda x: (x * w).cos())(torch.ones(3, device="mpsx"))
    assert backward_process._compiling
    torch._dynamo.reset()
    gc.collect()
    assert not backward_process._compiling
    assert not hasattr(backward_process._thread, "backward")
