"""Unmodified Hugging Face accelerate."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")


def test_device() -> None:
    assert accelerate.PartialState().device.type == "mpsx"
    assert accelerate.Accelerator().device.type == "mpsx"


def test_cpu_on_request() -> None:
    assert accelerate.Accelerator(cpu=True).device.type == "cpu"


@pytest.mark.parametrize("precision", ["no", "bf16", "fp16"])
def test_training(precision: str) -> None:
    accelerator = accelerate.Accelerator(mixed_precision=precision)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    data = torch.utils.data.DataLoader(list(zip(torch.randn(32, 8), torch.arange(32) % 2, strict=True)), batch_size=8)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    assert (accelerator.scaler is not None) == (precision == "fp16")
    losses, types = [], set()
    model[0].register_forward_hook(lambda m, i, out: types.add(out.dtype))
    for _ in range(10):
        for x, y in data:
            assert x.device.type == "mpsx"
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    assert types == {{"no": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]}
    assert losses[-1] < losses[0]
    if accelerator.scaler is not None:
        assert accelerator.scaler._device == "mpsx" and accelerator.scaler.get_scale() > 1


def test_saved_state_includes_the_device_rng(tmp_path: Path) -> None:
    accelerator = accelerate.Accelerator()
    accelerator.prepare(nn.Linear(2, 2))
    torch.randn(5, device="mpsx")
    accelerator.save_state(str(tmp_path))
    expected = torch.randn(5, device="mpsx")
    torch.manual_seed(99)
    accelerator.load_state(str(tmp_path))
    assert torch.equal(torch.randn(5, device="mpsx"), expected)


def test_executable_batch_size() -> None:
    from accelerate.utils import find_executable_batch_size

    tried = []

    @find_executable_batch_size(starting_batch_size=64)
    def run(batch_size: int) -> int:
        tried.append(batch_size)
        if batch_size > 50:
            torch.empty(1 << 60, dtype=torch.uint8, device="mpsx")
        return batch_size

    assert run() <= 50 and len(tried) > 1


def test_device_map() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    device_map = accelerate.infer_auto_device_map(model)
    assert {torch.device(device).type for device in device_map.values()} == {"mpsx"}
    model = accelerate.dispatch_model(model, device_map)
    assert next(model.parameters()).device.type == "mpsx"
    assert model(torch.randn(2, 8, device="mpsx")).device.type == "mpsx"
    budget = accelerate.utils.get_max_memory()
    assert set(budget) == {0} and budget[0] > 0


def test_device_map_beyond_the_budget(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
    x = torch.randn(2, 64)
    expected = model(x)
    device_map = accelerate.infer_auto_device_map(model, max_memory={0: 40000, "cpu": 10**9})
    assert set(device_map.values()) == {0, "cpu"}
    model = accelerate.dispatch_model(model, device_map, offload_dir=str(tmp_path))
    torch.testing.assert_close(model(x).cpu(), expected)
