"""Well-known models (tools/bench/zoo) give the same results on mpsx as on the CPU, without fallbacks."""

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
    # Avoid seed 0. With it, one ResNet-50 activation is within rounding error of ReLU's kink on CPUs with AVX2, so its
    # gradient depends on rounding. All other gradients agree with float64 to 5e-6 on both devices.
    torch.manual_seed(1)
    model = ZOO[name]
    on_cpu, batch = model.build(small), model.batch(small)
    on_device = copy.deepcopy(on_cpu).to("mpsx")
    device_batch = on(batch, "mpsx")
    on_cpu.eval(), on_device.eval()
    with torch.no_grad():
        want, got = model.predict(on_cpu, batch), model.predict(on_device, device_batch)
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)
    if not small:  # dropout masks differ between devices
        return
    on_cpu.train(), on_device.train()
    optimizers = [torch.optim.AdamW(network.parameters(), 1e-3) for network in (on_cpu, on_device)]
    for _ in range(STEPS):
        losses = []
        for network, inputs, optimizer in ((on_cpu, batch, optimizers[0]), (on_device, device_batch, optimizers[1])):
            optimizer.zero_grad()
            loss = model.loss(network, inputs)
            loss.backward()
            losses.append(loss.item())
        assert losses[1] == pytest.approx(losses[0], rel=1e-4)
        # Adam divides by the RMS of the gradient, so a gradient of pure rounding noise would move a weight by a full
        # step.
        for ours, theirs in zip(on_device.parameters(), on_cpu.parameters(), strict=True):
            if theirs.grad is not None:
                torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-5)
                ours.grad.copy_(theirs.grad)
        for optimizer in optimizers:
            optimizer.step()
    for ours, theirs in zip(on_device.parameters(), on_cpu.parameters(), strict=True):
        torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ZOO)
def test_trains_as_on_the_cpu(name: str) -> None:
    check(name, small=True)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ZOO)
@torch._dynamo.config.patch(allow_rnn=True)  # by default, Dynamo does not trace LSTMs
def test_compiled_training_agrees_with_eager(name: str) -> None:
    """Compile the loss and its gradients into one graph, and the optimizer into a second graph."""
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
            if theirs.grad is not None:  # the same tolerance as in check()
                torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)
                ours.grad.copy_(theirs.grad)
        for step in steps:
            step()
        for ours, theirs in zip(twin.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)
        twin.load_state_dict(eager.state_dict())  # resynchronize, in case a step crossed ReLU's kink


@pytest.mark.sweep
@pytest.mark.parametrize("name", ZOO)
def test_inference_at_published_size(name: str) -> None:
    check(name, small=False)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ZOO)
def test_training_step_at_published_size(name: str) -> None:
    """Run one step with dropout. No operator may fall back, and the loss must be finite."""
    model = ZOO[name]
    network, batch = model.build(False).to("mpsx"), on(model.batch(False), "mpsx")
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4)
    loss = model.loss(network, batch)
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss.cpu())


def test_llama_generates_with_a_cache() -> None:
    """Greedy decoding with a KV cache generates the same tokens as on the CPU."""
    on_cpu = llama(True).eval()
    prompt = torch.randint(1, 60, (2, 5))
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    want = on_cpu.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    on_device = on_cpu.to("mpsx")
    device_batch = prompt.to("mpsx")
    got = on_device.generate(device_batch, attention_mask=torch.ones_like(device_batch), **options)
    assert torch.equal(got.cpu(), want)
