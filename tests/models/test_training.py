"""Training on mpsx yields the same losses and weights as on the CPU, without fallbacks."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import mpsx
from mpsx.cli.demo.models import GPT, ResNet

STEPS = 10
pytestmark = pytest.mark.usefixtures("no_fallback")

Optimizer = Callable[[nn.Module], torch.optim.Optimizer]
Case = tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, torch.Tensor]]]


class Recurrent(nn.Module):
    """A sequence classifier with an LSTM and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(48, 24, batch_first=True)
        self.head = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.lstm(self.embedding(x))[0])[0][:, -1])


class Encoder(nn.Module):
    """A classifier with PyTorch's transformer layers and a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = x == 0
        hidden = self.layers(self.embedding(x), src_key_padding_mask=mask)
        return self.head(hidden.masked_fill(mask.unsqueeze(-1), 0).mean(1))


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(24, 64), nn.LayerNorm(64), nn.SiLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5)
    )  # fmt: skip


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, groups=2), nn.GroupNorm(4, 16), nn.GELU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(64, 5),
    )  # fmt: skip


def vectors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, 24), torch.randint(5, (16,))


def images() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(12, 3, 8, 8), torch.randint(5, (12,))


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, 1, 8, 8), torch.randint(10, (16,))


def sequences() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(1, 20, (8, 12)), torch.randint(5, (8,))


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    text, labels = sequences()
    text[:, 9:] = 0
    return text, labels


def text() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(30, (4, 24)), torch.randint(30, (4, 24))


CASES: dict[str, Case] = {
    "mlp": (mlp, vectors),
    "cnn": (cnn, images),
    "resnet": (lambda: ResNet(8), digits),
    "gpt": (lambda: GPT(30, 24, width=32, heads=2, layers=2), text),
    "encoder": (Encoder, padded),
    "recurrent": (Recurrent, sequences),
}
OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "sgd_fused": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, fused=True),
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=2e-3, amsgrad=True),
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), lr=2e-3),
    "adamw_fused": lambda m: torch.optim.AdamW(m.parameters(), lr=2e-3, fused=True),
}


def loss_of(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    device = next(model.parameters()).device
    scores = model(batch[0].to(device))
    return F.cross_entropy(scores.flatten(0, -2), batch[1].to(device).flatten())


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[tuple[torch.Tensor, torch.Tensor]]
) -> list[float]:
    losses = []
    for batch in batches:
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def twins(name: str) -> tuple[nn.Module, nn.Module, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Return a model on the CPU, a copy of it on mpsx, and batches for both."""
    make_model, make_batch = CASES[name]
    model = make_model()
    return model, copy.deepcopy(model).to("mpsx"), [make_batch() for _ in range(STEPS)]


def assert_same_state(cpu: nn.Module, device: nn.Module, **tolerance: float) -> None:
    for (key, expected), found in zip(cpu.state_dict().items(), device.state_dict().values(), strict=True):
        torch.testing.assert_close(found.cpu(), expected, **tolerance, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", CASES)
def test_losses_and_weights(name: str, optimizer: str) -> None:
    cpu, device, batches = twins(name)
    expected = train(cpu, OPTIMIZERS[optimizer](cpu), batches)
    found = train(device, OPTIMIZERS[optimizer](device), batches)
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))
    # Adam divides by the RMS of the gradient. If the gradient is only rounding noise, the sign of the step is
    # arbitrary.
    assert_same_state(cpu, device, rtol=1e-4, atol=1e-4 if optimizer == "sgd" else 2e-3 * STEPS)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers(optimizer: str) -> None:
    cpu, device, batches = twins("mlp")
    expected = train(cpu, OPTIMIZERS[optimizer](cpu), batches)
    found = train(device, OPTIMIZERS[optimizer](device), batches)
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))
    assert_same_state(cpu, device, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    cpu, device, batches = twins(name)
    loss_of(cpu, batches[0]).backward()
    loss_of(device, batches[0]).backward()
    for (key, expected), found in zip(cpu.named_parameters(), device.parameters(), strict=True):
        assert found.grad is not None
        assert found.grad.device.type == "mpsx"
        torch.testing.assert_close(found.grad.cpu(), expected.grad, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("name", ["cnn", "gpt"])
def test_resume_from_checkpoint(name: str) -> None:
    """Save after half of the steps, and resume with a new model. The result must be bitwise equal to that of an
    uninterrupted run."""
    _, whole, batches = twins(name)
    half = copy.deepcopy(whole)
    make = OPTIMIZERS["adamw"]
    expected = train(whole, make(whole), batches)

    optimizer = make(half)
    found = train(half, optimizer, batches[: STEPS // 2])
    file = io.BytesIO()
    torch.save({"model": half.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    fresh = CASES[name][0]().to("mpsx")
    fresh.load_state_dict(saved["model"])
    optimizer = make(fresh)
    optimizer.load_state_dict(saved["optimizer"])
    found += train(fresh, optimizer, batches[STEPS // 2 :])
    assert found == expected
    assert_same_state(whole.cpu(), fresh, rtol=0, atol=0)


def test_checkpoint_moves_between_devices() -> None:
    cpu, device, batches = twins("cnn")
    optimizer = OPTIMIZERS["adamw"](device)
    train(device, optimizer, batches[:5])
    file = io.BytesIO()
    torch.save({"model": device.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, map_location="cpu", weights_only=True)
    assert all(value.device.type == "cpu" for value in saved["model"].values())
    cpu.load_state_dict(saved["model"])
    resumed = OPTIMIZERS["adamw"](cpu)
    resumed.load_state_dict(saved["optimizer"])
    expected = train(cpu, resumed, batches[5:])
    torch.testing.assert_close(torch.tensor(train(device, optimizer, batches[5:])), torch.tensor(expected))


def test_moving_a_model_keeps_its_parameters() -> None:
    """Moving a model keeps tied weights tied. An optimizer created before the move still trains the model."""
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    model[2].weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    weight, x = model[0].weight, torch.randn(4, 6)
    model(x).square().mean().backward()
    single, double = torch.float32, torch.float64
    for device, dtype in (("mpsx", single), ("cpu", single), ("mpsx", double), ("cpu", double)):
        model.to(device, dtype)
        assert model[0].weight is model[2].weight is weight is optimizer.param_groups[0]["params"][0]
        assert weight.device.type == weight.grad.device.type == device
        with mpsx.fallback.using_mode("silent"):  # float64 falls back to the CPU
            model.zero_grad()
            model(x.to(device, dtype)).square().mean().backward()
            before = weight.detach().clone()
            torch.optim.SGD(optimizer.param_groups[0]["params"], lr=0.1).step()
            assert not torch.equal(weight, before)


def test_concurrent_training() -> None:
    """Threads that train concurrently get the same losses as a single thread."""
    names = ["mlp", "cnn", "gpt", "resnet"]
    _, devices, batches = zip(*(twins(name) for name in names), strict=True)
    make = OPTIMIZERS["sgd"]
    expected = []
    for model, data in zip(copy.deepcopy(devices), batches, strict=True):
        expected.append(train(model, make(model), data))
    found: list[list[float] | BaseException] = [[] for _ in names]

    def work(index: int) -> None:
        try:
            found[index] = train(devices[index], make(devices[index]), batches[index])
        except BaseException as failure:
            found[index] = failure

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == expected


@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet", "gpt"])
def test_autocast_is_close(name: str) -> None:
    """In bfloat16, the loss and gradients are close to the CPU's, and the loss is close to the float32 loss."""
    cpu, device, batches = twins(name)
    full = train(copy.deepcopy(cpu), OPTIMIZERS["sgd"](cpu), batches[:1])[0]
    with torch.autocast("cpu", torch.bfloat16):
        expected = loss_of(cpu, batches[0])
    with torch.autocast("mpsx", torch.bfloat16):
        found = loss_of(device, batches[0])
    assert found.item() == pytest.approx(expected.item(), abs=2**-7)
    assert found.item() == pytest.approx(full, abs=2**-6)
    expected.backward()
    found.backward()
    for (key, wanted), got in zip(cpu.named_parameters(), device.parameters(), strict=True):
        assert got.grad is not None
        scale = wanted.grad.abs().max().item()
        difference = (got.grad.cpu() - wanted.grad).abs().max().item()
        assert difference <= 2**-4 * scale + 1e-4, f"{key}: {difference} of {scale}"


def test_gradient_accumulation_and_clipping() -> None:
    cpu, device, batches = twins("mlp")
    norms = []
    for model in (cpu, device):
        for batch in batches[:3]:
            loss_of(model, batch).backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)
    for expected, found in zip(cpu.parameters(), device.parameters(), strict=True):
        torch.testing.assert_close(found.grad.cpu(), expected.grad)


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
def test_long_run(name: str) -> None:
    """Train for 200 steps. Memory must not grow, and the final losses must agree."""
    cpu, device, _ = twins(name)
    batches = [CASES[name][1]() for _ in range(4)] * 50
    make = OPTIMIZERS["sgd"]
    expected = train(cpu, make(cpu), batches)
    optimizer = make(device)
    found = train(device, optimizer, batches[:20])
    torch.mpsx.reset_peak_memory_stats()
    peak = torch.mpsx.max_memory_allocated()
    found += train(device, optimizer, batches[20:120])
    warmed_up = torch.mpsx.max_memory_reserved()
    found += train(device, optimizer, batches[120:])
    assert torch.mpsx.max_memory_reserved() == warmed_up >= peak
    assert sum(found[-20:]) == pytest.approx(sum(expected[-20:]), rel=0.05, abs=0.05)
