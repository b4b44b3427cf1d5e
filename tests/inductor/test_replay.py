"""torch.compile with mode="reduce-overhead": recorded launches compute the same as the compiled graph without them."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import mpsx
import vendor
from mpsx.inductor import replay


class Counts:
    """How many recordings were made and replayed."""

    recorded = replayed = 0

    def clear(self) -> None:
        self.recorded = self.replayed = 0


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counts]:
    torch._dynamo.reset()
    found = Counts()
    record, again = replay.Recorded.__init__, replay.Recorded.replay

    def recording(*args: object) -> None:
        found.recorded += 1
        record(*args)

    def replaying(*args: object) -> object:
        found.replayed += 1
        return again(*args)

    monkeypatch.setattr(replay.Recorded, "__init__", recording)
    monkeypatch.setattr(replay.Recorded, "replay", replaying)
    yield found
    torch._dynamo.reset()


@pytest.fixture
def skips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Messages that say why graphs were not recorded."""
    found: list[str] = []
    monkeypatch.setattr(replay.cudagraph_utils, "log_cudagraph_skip_and_bump_counter", found.append)
    return found


def unrecorded(function: Callable[[], object]) -> object:
    """Call a function that runs compiled graphs, without recording or replaying them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay.Graph, "run", lambda graph, inputs: None)
        return function()


def compiled(function: Callable[..., object], **options: object) -> Callable[..., object]:
    return torch.compile(function, mode="reduce-overhead", fullgraph=True, **options)


def inputs(*shape: int) -> Iterator[torch.Tensor]:
    for seed in itertools.count():
        yield torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to("mpsx")


def test_inference(counts: Counts) -> None:
    f = compiled(lambda x, y: ((x * y).softmax(-1), x.expand(3, 5, 7).sum(1) + y.mean(), x[2:]))
    for k, (x, y) in enumerate(itertools.islice(zip(inputs(5, 7), inputs(5, 7), strict=True), 6)):
        expected = unrecorded(lambda x=x, y=y: f(x, y))
        for found, wanted in zip(f(x, y), expected, strict=True):
            assert torch.equal(found, wanted), k
    assert (counts.recorded, counts.replayed) == (1, 4)


def test_results_stay_valid_while_they_are_in_use(counts: Counts, skips: list[str]) -> None:
    f = compiled(lambda x: x * 2 + 1)
    sources = list(itertools.islice(inputs(6, 5), 20))
    kept = [f(x) for x in sources]  # every recording is in use, so the last calls run without one
    for x, result in zip(sources, kept, strict=True):
        assert torch.equal(result, x * 2 + 1)
    assert (counts.recorded, counts.replayed) == (replay.MAX_RECORDINGS, 0)
    assert len(skips) == 1 and "results of the last 8 calls that are still in use" in skips[0]
    view = kept[2][1]
    del kept, result
    for x in sources:
        assert torch.equal(f(x), x * 2 + 1)
    assert counts.recorded == replay.MAX_RECORDINGS and counts.replayed == 20
    assert torch.equal(view, sources[2][1] * 2 + 1)


def test_results_as_inputs(counts: Counts) -> None:
    f = compiled(lambda x: (x * 3 + 1).sin())
    x = y = next(inputs(4, 4))
    for _ in range(10):
        x, y = f(x), (y * 3 + 1).sin()
        assert torch.equal(x, y)
    assert counts.recorded == 2 and counts.replayed >= 6


def test_memory_does_not_grow() -> None:
    f = compiled(lambda x: x.softmax(-1).cumsum(0).sin())
    x = next(inputs(64, 64))
    for _ in range(3):
        f(x)
    before = torch.mpsx.memory_allocated(), torch.mpsx.memory_reserved()
    for _ in range(100):
        f(x)
    assert (torch.mpsx.memory_allocated(), torch.mpsx.memory_reserved()) == before
    del f
    torch._dynamo.reset()
    gc.collect()
    assert torch.mpsx.memory_allocated() < before[0]


def test_dynamic_sizes_have_separate_recordings(counts: Counts) -> None:
    f = compiled(lambda x: (x.cumsum(0) * 2, x.shape[0]), dynamic=True)
    for _ in range(3):
        for rows in (3, 5):
            x = torch.randn(rows, 4, device="mpsx")
            found, size = f(x)
            assert size == rows and torch.equal(found, x.cumsum(0) * 2)
    assert (counts.recorded, counts.replayed) == (2, 2)


class Network(nn.Module):
    """Operators that have kernels on every driver."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embedding, self.norm, self.batch_norm = nn.Embedding(11, 16), nn.LayerNorm(16), nn.BatchNorm1d(16)
        self.dropout = dropout

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(F.gelu(self.batch_norm(self.embedding(x))))
        return F.cross_entropy(F.dropout(hidden, self.dropout, self.training), target)


@pytest.mark.parametrize("fallback_random", [False, True])
def test_training(counts: Counts, fallback_random: bool) -> None:
    torch.manual_seed(0)
    model = Network(0.5).to("mpsx")
    initial = {name: x.clone() for name, x in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(model, fullgraph=True,
                         options={"triton.cudagraphs": True, "fallback_random": fallback_random})  # fmt: skip
    data = [(torch.randint(11, (9,), device="mpsx"), torch.randint(16, (9,), device="mpsx")) for _ in range(6)]
    same = data[-1]

    def train() -> list[torch.Tensor]:
        model.load_state_dict(initial)
        torch.mpsx.manual_seed(7)
        history = []
        for x, target in [*data, same, same]:
            optimizer.zero_grad()
            loss = step(x, target)
            loss.backward()
            optimizer.step()
            history += [loss.detach().clone(), *(p.grad.clone() for p in model.parameters()), model.norm.weight.clone(),
                        model.batch_norm.running_var.clone()]  # fmt: skip
        return history

    expected = unrecorded(train)
    for found, wanted in zip(train(), expected, strict=True):
        assert torch.equal(found, wanted)
    assert counts.replayed >= 8  # forward and backward
    losses = []
    for _ in range(3):  # only the random numbers change
        model.load_state_dict(initial)
        losses.append(step(*same).item())
    assert len(set(losses)) == 3


def test_gradient_accumulation_and_two_forward_passes(counts: Counts) -> None:
    """The saved tensors of a pending backward pass, and gradients that accumulate, are not overwritten."""
    model, twin = (Network(0).to("mpsx").eval() for _ in range(2))
    twin.load_state_dict(model.state_dict())
    step = compiled(model)
    for _ in range(4):
        x, y = torch.randint(11, (2, 9), device="mpsx"), torch.randint(16, (2, 9), device="mpsx")
        for network, function in ((model, step), (twin, twin)):
            network.zero_grad()
            for _ in range(2):
                (function(x[0], y[0]) + function(x[1], y[1])).backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)
    assert counts.replayed >= 8


def test_compiled_optimizer(counts: Counts) -> None:
    parameters, twins = ([x.clone().requires_grad_() for x in itertools.islice(inputs(6, 5), 3)] for _ in range(2))
    found, expected = (torch.optim.AdamW(p, lr=0.1, capturable=True, foreach=True) for p in (parameters, twins))
    step = torch.compile(found.step, mode="reduce-overhead")
    rounding = 0 if torch.__version__ >= "2.13" else 1e-6  # before 2.13, Dynamo computes lerp without fma
    for gradients in itertools.islice(inputs(3, 6, 5), 6):
        for p, q, gradient in zip(parameters, twins, gradients, strict=True):
            p.grad, q.grad = gradient.clone(), gradient.clone()
        step()
        expected.step()
        for p, q in zip(parameters, twins, strict=True):
            torch.testing.assert_close(p, q, rtol=rounding, atol=rounding)
    assert counts.replayed >= 3


def test_updates_in_place(counts: Counts) -> None:
    def update(cache: torch.Tensor, position: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, position, x)
        return cache.cumsum(0)

    f = compiled(update)
    for _ in range(2):  # with two caches
        cache, expected = torch.zeros(6, 4, device="mpsx"), torch.zeros(6, 4, device="mpsx")
        for position, x in zip(range(6), inputs(1, 4), strict=False):
            at = torch.tensor([position], device="mpsx")
            expected.index_copy_(0, at, x)
            assert torch.equal(f(cache, at, x), expected.cumsum(0))
            assert torch.equal(cache, expected)
    assert (counts.recorded, counts.replayed) == (2, 9)


def test_errors(counts: Counts) -> None:
    f = compiled(lambda table, index: F.embedding(index, table) + 1)
    table = next(inputs(5, 4))
    for indices in ([0, 4], [1, 2], [3, 3], [9, 0], [2, 1]):
        index = torch.tensor(indices, device="mpsx")
        if max(indices) < 5:
            assert torch.equal(f(table, index), table[index] + 1)
            continue
        with pytest.raises((RuntimeError, IndexError), match=r"out of (bounds|range)"):
            f(table, index)
            torch.mpsx.synchronize()
    assert counts.replayed == 3


@torch.library.custom_op("mpsx_test_replay::negative", mutates_args=())
def negative(x: torch.Tensor) -> torch.Tensor:
    return x.cpu().neg().to(x.device)


negative.register_fake(torch.empty_like)


def test_work_on_the_cpu_is_not_recorded(counts: Counts, skips: list[str]) -> None:
    f = compiled(lambda x: negative(x * 2) + 1)
    for x in itertools.islice(inputs(4, 4), 4):
        assert torch.equal(f(x), x * -2 + 1)
    assert (counts.recorded, counts.replayed) == (1, 0)
    assert skips == ["skipping cudagraphs due to an access from the CPU to the memory of a tensor"]


def test_vendor_libraries(counts: Counts, skips: list[str]) -> None:
    f = compiled(lambda x: F.gelu(x @ x))
    for x in itertools.islice(inputs(32, 32), 4):
        assert torch.equal(f(x), F.gelu(x @ x))
    if vendor.is_preferred():
        assert len(skips) == 1 and "due to the CPU library's aten::mm" in skips[0] and counts.replayed == 0
    else:
        assert not skips and counts.replayed == 2


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_attention(counts: Counts, skips: list[str], dropout: float) -> None:
    """Forward and backward are recorded, and dropout draws new random numbers in each replay."""

    def attention(*x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(*x, dropout_p=dropout)

    def gradients(function: Callable[..., torch.Tensor], seed: int) -> tuple[torch.Tensor, ...]:
        torch.mpsx.manual_seed(seed)
        first = function(*x)
        results = first.square().sum(), function(*x).sin().sum()  # draws other numbers before the backward pass
        return (first, *torch.autograd.grad(results, x))

    f = compiled(attention)
    x = [x.requires_grad_() for x in itertools.islice(inputs(1, 2, 16, 8), 3)]
    with torch._inductor.config.patch(fallback_random=True):
        for seed in range(5):
            torch.testing.assert_close(gradients(f, seed), gradients(attention, seed))
    if vendor.is_preferred() and not dropout:  # the CPU library has no dropout
        assert all("due to the CPU library" in skip for skip in skips) and counts.replayed == 0
    else:
        assert not skips and counts.replayed > 10  # of 10 forward and 5 backward passes


def test_graphs_with_cpu_tensors_are_not_recorded(counts: Counts, skips: list[str]) -> None:
    f = compiled(lambda x, scale: x * scale)
    x = next(inputs(4, 4))
    for _ in range(3):
        assert torch.equal(f(x, torch.tensor(2.0)), x * 2)
    assert counts.recorded == 0
    assert len(skips) == 1 and "skipping cudagraphs due to cpu device" in skips[0]


@pytest.mark.skipif(mpsx.driver()["name"] != "host", reason="starts a process with the simt driver")
@pytest.mark.sweep
def test_on_simt(simt_library: object) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not sweep", __file__]
    environment = os.environ | {"MPSX_DRIVER": "simt"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
