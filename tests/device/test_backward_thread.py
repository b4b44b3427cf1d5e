"""When kernels run on the CPU, backward passes run on the calling thread (python/mpsx/device/backward.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from processes import run_in_subprocess
from torch.utils.checkpoint import checkpoint

import mpsx

pytestmark = pytest.mark.usefixtures("silent_fallback")


@pytest.fixture(autouse=True)
def _only_where_kernels_run_on_the_cpu() -> None:
    if mpsx.driver()["asynchronous"]:
        pytest.skip("GPU drivers keep autograd's device thread")


class Recorder(torch.autograd.Function):
    """An identity function whose backward records the current thread and launches a kernel."""

    threads: list[int]

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        Recorder.threads.append(threading.get_ident())
        return grad + 0 * grad.exp()


def loss_of(x: torch.Tensor) -> torch.Tensor:
    return Recorder.apply(x * 2).square().sum()


def leaf() -> torch.Tensor:
    return torch.ones(5, device="mpsx", requires_grad=True)


def backward() -> None:
    x = leaf()
    loss_of(x).backward()
    assert torch.equal(x.grad.cpu(), torch.full((5,), 8.0))


def grad_of_grad() -> None:
    x = leaf()
    (first,) = torch.autograd.grad(loss_of(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second.cpu(), torch.full((5,), 8.0))


def func_vjp() -> None:
    y, vjp = torch.func.vjp(lambda x: (x * 2).square().sum(), leaf().detach())
    assert torch.equal(vjp(torch.ones_like(y))[0].cpu(), torch.full((5,), 8.0))
    backward()


def reentrant_checkpoint() -> None:
    x = leaf()
    checkpoint(lambda x: checkpoint(loss_of, x, use_reentrant=True), x, use_reentrant=True).backward()
    assert torch.equal(x.grad.cpu(), torch.full((5,), 8.0))


def deep_reentrant_checkpoint() -> None:
    """Nest more than 60 backward passes. Beyond that depth, the engine moves work to its thread pool."""
    x = leaf()

    def nested(depth: int, x: torch.Tensor) -> torch.Tensor:
        return x * 1.0 if depth == 0 else checkpoint(nested, depth - 1, x, use_reentrant=True)

    (nested(70, x).sum() + loss_of(x)).backward()
    assert torch.equal(x.grad.cpu(), torch.full((5,), 9.0))


def scripted() -> None:
    """Start the backward pass in C++ through TorchScript, which bypasses the Python engine."""
    run = torch.jit.CompilationUnit("def run(loss: Tensor) -> Tensor:\n  loss.backward()\n  return loss\n").run
    x = leaf()
    run(loss_of(x))
    assert torch.equal(x.grad.cpu(), torch.full((5,), 8.0))


def hook_with_backward() -> None:
    """Start another backward pass in a gradient hook."""

    def hook(grad: torch.Tensor) -> None:
        with torch.enable_grad():
            backward()

    loss = loss_of(leaf())
    loss.register_hook(hook)
    loss.backward()


BACKWARD_CASES: list[Callable[[], None]] = [
    backward, grad_of_grad, func_vjp, reentrant_checkpoint, deep_reentrant_checkpoint, scripted, hook_with_backward,
]  # fmt: skip


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("run_backward", BACKWARD_CASES, ids=lambda case: case.__name__)
def test_runs_on_the_calling_thread(run_backward: Callable[[], None], enabled: bool) -> None:
    """Run on the main thread and on a second thread. The user's multithreading setting must not change."""

    def run() -> None:
        with torch.autograd.set_multithreading_enabled(enabled):
            Recorder.threads = []
            run_backward()
            assert Recorder.threads
            assert set(Recorder.threads) == {threading.get_ident()}
            assert torch.autograd.is_multithreading_enabled() == enabled
        assert torch.autograd.is_multithreading_enabled()

    run()
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def test_setting_survives_an_error() -> None:
    x = leaf()
    loss = x.sum()

    def fail(grad: torch.Tensor) -> None:
        raise ValueError("from a hook")

    loss.register_hook(fail)
    with pytest.raises(ValueError, match="from a hook"):
        loss.backward()
    assert torch.autograd.is_multithreading_enabled()


def test_concurrent_backward_passes() -> None:
    """Run backward on several threads. Each thread has its own graph, and all graphs share one weight."""
    weight = torch.ones(64, 64, device="mpsx", requires_grad=True)
    found: dict[int, set[int]] = {}
    start = threading.Barrier(4)

    def train() -> None:
        seen: set[int] = set()
        start.wait()
        for _ in range(20):
            y = torch.ones(8, 64, device="mpsx") @ weight
            y.register_hook(lambda grad: seen.add(threading.get_ident()))
            y.sum().backward()
        found[threading.get_ident()] = seen

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {ident: {ident} for ident in found}
    assert len(found) == 4
    torch.testing.assert_close(weight.grad.cpu(), torch.full((64, 64), 4.0 * 20 * 8))


ENGINE_THREADS = """
import os
def engine_threads():
    names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
    return [name for name in names if name.startswith("pt_autograd")]
torch.ones(3, requires_grad=True).sum().backward()
assert engine_threads() == [], engine_threads()
x = torch.ones(3, device="mpsx", requires_grad=True)
x.sum().backward()
assert engine_threads() == [], engine_threads()
assert x.grad.tolist() == [1.0] * 3
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads thread names from Linux's /proc")
def test_no_device_thread() -> None:
    """Backward through CPU or mpsx graphs does not start a device thread. Backward through GPU graphs does."""
    done = run_in_subprocess(ENGINE_THREADS)
    assert done.returncode == 0, done.stderr
