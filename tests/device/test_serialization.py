"""Saving, loading, copying, pickling and DLPack."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("silent_fallback")


def saved(value: object) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


def test_save_and_load() -> None:
    tensor = torch.arange(6.0, device="mpsx").view(2, 3).t()
    loaded = torch.load(saved(tensor))
    assert loaded.device == tensor.device
    assert loaded.stride() == tensor.stride()
    assert torch.equal(loaded.cpu(), tensor.cpu())


@pytest.mark.parametrize("location", ["cpu", torch.device("cpu"), {"mpsx": "cpu"}, lambda storage, _: storage])
def test_map_to_the_cpu(location: object) -> None:
    loaded = torch.load(saved(torch.ones(3, device="mpsx")), map_location=location)
    assert loaded.device.type == "cpu"
    assert loaded.tolist() == [1, 1, 1]


@pytest.mark.parametrize("location", ["mpsx", "mpsx:0", torch.device("mpsx")])
def test_map_from_the_cpu(location: object) -> None:
    loaded = torch.load(saved(torch.ones(3)), map_location=location)
    assert loaded.device.type == "mpsx"
    assert loaded.tolist() == [1, 1, 1]


def test_shared_storages_stay_shared() -> None:
    base = torch.zeros(6, device="mpsx")
    one, two = torch.load(saved((base[:3], base[2:])))
    one[2] = 5
    assert two[0].item() == 5


def test_state_dict_and_optimizer() -> None:
    model = nn.Linear(3, 2).to("mpsx")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3, device="mpsx")).sum().backward()
    optimizer.step()
    loaded = torch.load(saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}))
    other = nn.Linear(3, 2).to("mpsx")
    other.load_state_dict(loaded["model"])
    fresh = torch.optim.AdamW(other.parameters())
    fresh.load_state_dict(loaded["optimizer"])
    assert torch.equal(other.weight.cpu(), model.weight.cpu())
    assert fresh.state[other.weight]["exp_avg"].device.type == "mpsx"


def test_parameters_keep_their_class() -> None:
    parameter = nn.Parameter(torch.ones(2, device="mpsx"))
    loaded = torch.load(saved(parameter), weights_only=False)
    assert isinstance(loaded, nn.Parameter)
    assert loaded.requires_grad
    assert loaded.device.type == "mpsx"


def test_deepcopy() -> None:
    tensor = torch.ones(3, device="mpsx")
    twin = copy.deepcopy(tensor)
    twin += 1
    assert tensor.tolist() == [1, 1, 1]
    pair = [tensor, tensor[1:]]
    copied = copy.deepcopy(pair)
    copied[0][1] = 7
    assert copied[1][0].item() == 7


def test_pickle() -> None:
    tensor = torch.arange(4, device="mpsx")
    loaded = pickle.loads(pickle.dumps(tensor))
    assert loaded.device.type == "mpsx"
    assert loaded.tolist() == [0, 1, 2, 3]


def test_storage_methods() -> None:
    storage = torch.arange(4, dtype=torch.uint8, device="mpsx").untyped_storage()
    assert storage.device.type == "mpsx"
    assert storage.is_mpsx
    assert list(storage.cpu()) == [0, 1, 2, 3]
    assert list(storage.clone().cpu()) == [0, 1, 2, 3]
    assert storage.mpsx() is storage
    assert torch.UntypedStorage(8, device="mpsx").nbytes() == 8


def test_location_is_not_mistaken_for_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's handler for mps accepts every location that starts with "mps", so mpsx's handler must come first."""
    # A failed torch.load leaves its map_location in a thread-local that later calls read.
    monkeypatch.setattr(torch.serialization._serialization_tls, "map_location", None)
    loaded = torch.load(saved(torch.ones(1, device="mpsx")), map_location="mpsx:0")
    assert loaded.device.type == "mpsx"
    with pytest.raises(RuntimeError, match="mpsx:1"):
        torch.load(saved(torch.ones(1)), map_location="mpsx:1")


def test_dlpack() -> None:
    tensor = torch.arange(3.0, device="mpsx")
    capsule = torch.utils.dlpack.to_dlpack(tensor)
    back = torch.utils.dlpack.from_dlpack(capsule)
    assert back.data_ptr() == tensor.data_ptr()
