"""Train in two processes with DistributedDataParallel over gloo. All processes on a machine share the device.

To use two machines, run the second line below on each of them, with RANK 0 and RANK 1:

    python -m mpsx.examples.ddp
    MASTER_ADDR=192.168.0.1 MASTER_PORT=29500 WORLD_SIZE=2 RANK=0 python -m mpsx.examples.ddp
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from .options import parse


def train(rank: int, size: int, rendezvous: str, device: str, steps: int, width: int, results: str) -> None:
    """Train in one process, and write the losses."""
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=size)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, width), torch.nn.GELU(), torch.nn.Linear(width, 1)).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    generator = torch.Generator().manual_seed(rank)  # each process draws different batches
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 16, generator=generator).to(device)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()  # averages the gradients across processes
        optimizer.step()
        losses.append(loss.item())
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    others = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(others, weights)
    assert all(torch.equal(weights, other) for other in others), "the processes' weights differ"
    if rank == 0:
        torch.save(losses, results)
        print(f"{size} processes: loss {losses[0]:.4f} to {losses[-1]:.4f}, equal weights")
    dist.destroy_process_group()


def main(argv: Sequence[str] | None = None) -> tuple[float, float]:
    """Return the first and the last loss of rank 0."""
    options = parse(__doc__, argv)
    steps, width = options.steps or (1000 if options.real else 20), 1024 if options.real else 32
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "losses.pt")
        if "RANK" in os.environ:  # one process per machine
            rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            train(rank, size, "env://", options.device, steps, width, results)
            if rank:
                return 0.0, 0.0
        else:
            mp.spawn(train, (2, f"file://{folder}/rendezvous", options.device, steps, width, results), nprocs=2)
        losses = torch.load(results)
    return losses[0], losses[-1]


if __name__ == "__main__":
    main()
