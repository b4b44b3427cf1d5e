"""Sharing tensors with other processes and libraries: torch.multiprocessing, forked workers, DLPack."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from processes import run_in_subprocess

import mpsx


def double(queue: mp.Queue, answers: mp.Queue) -> None:
    """Receive tensors from the queue in a child process, and double them in place."""
    for _ in range(2):
        tensor = queue.get(timeout=120)
        tensor.mul_(2)
        answers.put(str(tensor.device))
        del tensor


@pytest.mark.skipif(not mpsx.driver()["adopts_memory"], reason="the driver cannot wrap existing process memory")
def test_queue_shares_memory() -> None:
    context = mp.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    worker = context.Process(target=double, args=(queue, answers), daemon=True)
    worker.start()
    whole = torch.arange(12.0, device="mpsx").view(3, 4)
    expected = whole.cpu() * 2
    expected[:, 1] *= 2
    queue.put(whole)
    assert answers.get(timeout=120) == "mpsx:0"
    queue.put(whole[:, 1])
    assert answers.get(timeout=120) == "mpsx:0"
    worker.join(60)
    assert torch.equal(whole.cpu(), expected)
    assert mpsx.cpu_view(whole).is_shared()
    whole.add_(1)
    assert torch.equal(whole.cpu(), expected + 1)


FORKED = """
import warnings; warnings.simplefilter("ignore")
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return (torch.ones(3, device="mpsx") * i).sum().item()
kept = torch.ones(3, device="mpsx")
try:
    for batch in DataLoader(Data(), num_workers=1, multiprocessing_context="fork"): pass
except RuntimeError as error:
    print("Cannot re-initialize mpsx in a forked subprocess" in str(error) and "spawn" in str(error))
print(kept.sum().item(), torch.mpsx._is_in_bad_fork())
"""


def test_forked_workers_raise() -> None:
    run = run_in_subprocess(FORKED)
    assert run.stdout.split() == ["True", "3.0", "False"], run.stderr


def test_dlpack() -> None:
    tensor = torch.arange(6.0, device="mpsx").view(2, 3)
    array = np.from_dlpack(tensor)
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    tensor[0, 0] = 7
    torch.mpsx.synchronize()
    assert array[0, 0] == 7  # shares memory with the tensor
    same = torch.from_dlpack(tensor)
    assert same.device.type == "mpsx" and same.data_ptr() == tensor.data_ptr()
    copied = torch.from_dlpack(tensor, copy=True)
    assert copied.device.type == "mpsx" and copied.data_ptr() != tensor.data_ptr()
    on_cpu = torch.from_dlpack(tensor, device="cpu")
    assert on_cpu.device.type == "cpu" and torch.equal(on_cpu, tensor.cpu())
    with pytest.raises((RuntimeError, BufferError), match="gradient"):
        np.from_dlpack(tensor.clone().requires_grad_())
    assert torch.from_dlpack(np.arange(3)).device.type == "cpu"
