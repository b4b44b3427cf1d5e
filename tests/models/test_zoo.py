"""Well-known models train and infer on mpsx as on the CPU, with nothing on the fallback (tools/bench/zoo)."""

from __future__ import annotations

import copy

import pytest
import torch
from bench.zoo import ZOO
from bench.zoo.pretrained import llama

pytestmark = pytest.mark.usefixtures("no_fallback")
STEPS = 3


def on(batch: dict[str, torch.Tensor], device: str) -> dict[str, torch.Tensor]:
    return {name: x.to(device) for name, x in batch.items()}


def check(name: str, small: bool) -> None:
    # With seed 0 an activation of ResNet-50 lies within rounding of ReLU's kink on CPUs with AVX2, and its gradient
    # depends on who rounds: float64 agrees with either side's other gradients to 5e-6.
    torch.manual_seed(1)
    model = ZOO[name]
    here, batch = model.build(small), model.batch(small)
    there = copy.deepcopy(here).to("mpsx")
    away = on(batch, "mpsx")
    here.eval(), there.eval()
    with torch.no_grad():
        want, got = model.predict(here, batch), model.predict(there, away)
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)
    if not small:  # dropout draws other numbers on each device
        return
    here.train(), there.train()
    optimizers = [torch.optim.AdamW(network.parameters(), 1e-3) for network in (here, there)]
    for _ in range(STEPS):
        losses = []
        for network, inputs, optimizer in ((here, batch, optimizers[0]), (there, away, optimizers[1])):
            optimizer.zero_grad()
            loss = model.loss(network, inputs)
            loss.backward()
            losses.append(loss.item())
        assert losses[1] == pytest.approx(losses[0], rel=1e-4)
        # Adam divides by the gradient's own size: one that is rounding alone would move a weight by a whole step.
        for ours, theirs in zip(there.parameters(), here.parameters(), strict=True):
            if theirs.grad is not None:
                torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-5)
                ours.grad.copy_(theirs.grad)
        for optimizer in optimizers:
            optimizer.step()
    for ours, theirs in zip(there.parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ZOO)
def test_trains_as_on_the_cpu(name: str) -> None:
    check(name, small=True)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ZOO)
@torch._dynamo.config.patch(allow_rnn=True)  # without it Dynamo leaves an LSTM alone
def test_compiled_training_agrees_with_eager(name: str) -> None:
    """Whole steps: the loss is one graph with its gradients, and the optimizer another."""
    torch._dynamo.reset()
    torch.manual_seed(1)
    model = ZOO[name]
    eager = model.build(True).to("mpsx")
    batch = on(model.batch(True), "mpsx")
    twin = copy.deepcopy(eager)
    loss = torch.compile(lambda: model.loss(twin, batch), fullgraph=True)
    optimizers = [torch.optim.AdamW(network.parameters(), 1e-3) for network in (eager, twin)]
    steps = [optimizers[0].step, torch.compile(optimizers[1].step)]
    for _ in range(STEPS):
        losses = [model.loss(eager, batch), loss()]
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
        for value, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            value.backward()
        for ours, theirs in zip(twin.parameters(), eager.parameters(), strict=True):
            if theirs.grad is not None:  # check() says why
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)
                ours.grad.copy_(theirs.grad)
        for step in steps:
            step()
        for ours, theirs in zip(twin.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)
        twin.load_state_dict(eager.state_dict())  # so that no step is compared beside ReLU's kink


@pytest.mark.sweep
@pytest.mark.parametrize("name", ZOO)
def test_infers_in_its_published_size(name: str) -> None:
    check(name, small=False)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ZOO)
def test_trains_in_its_published_size(name: str) -> None:
    """One step, dropout on: nothing falls back, and the loss is a number."""
    model = ZOO[name]
    network, batch = model.build(False).to("mpsx"), on(model.batch(False), "mpsx")
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4)
    loss = model.loss(network, batch)
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss.cpu())


def test_llama_generates_with_a_cache() -> None:
    """Greedy decoding one word at a time over cached keys and values gives the CPU's words."""
    here = llama(True).eval()
    prompt = torch.randint(1, 60, (2, 5))
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    want = here.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    there = here.to("mpsx")
    away = prompt.to("mpsx")
    got = there.generate(away, attention_mask=torch.ones_like(away), **options)
    assert torch.equal(got.cpu(), want)
