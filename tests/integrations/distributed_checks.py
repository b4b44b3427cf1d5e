"""Checks of torch.distributed on mpsx. Two processes each run `python distributed_checks.py RANK PORT`.

For each check, prints `NAME ok` or the error.
"""

from __future__ import annotations

import datetime
import os
import sys
import tempfile
import traceback
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

import mpsx

CHECKS: dict[str, Callable[[int], None]] = {}
DEVICE = "mpsx"


def check(function: Callable[[int], None]) -> Callable[[int], None]:
    CHECKS[function.__name__] = function
    return function


def full(value: float, *size: int) -> torch.Tensor:
    return torch.full(size or (3,), float(value), device=DEVICE)


def expect(tensor: torch.Tensor, value: object) -> None:
    """Check that a tensor is on the device and has the expected values."""
    assert tensor.device.type == "mpsx", tensor.device
    torch.testing.assert_close(tensor.cpu(), torch.as_tensor(value, dtype=tensor.dtype).expand_as(tensor))


@check
def all_reduce(rank: int) -> None:
    x = full(rank + 1)
    before = torch.mpsx.memory_stats()["allocation.all.allocated"]
    with mpsx.profiler.launch_log() as log:
        dist.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
    assert log == [] and torch.mpsx.memory_stats()["allocation.all.allocated"] == before  # no copies
    expect(x, 6)
    assert work.result()[0].device.type == "mpsx"
    expect(work.get_future().wait()[0], 6)
    for op, value in (("MAX", 2), ("MIN", 1), ("PRODUCT", 2), ("AVG", 1.5)):
        y = full(rank + 1)
        dist.all_reduce(y, getattr(dist.ReduceOp, op))
        expect(y, value)


@check
def half_precision(rank: int) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        x = full(rank + 1).to(dtype)
        dist.all_reduce(x)
        expect(x, 3)


@check
def broadcast(rank: int) -> None:
    x = full(rank)
    dist.broadcast(x, 1)
    expect(x, 1)


@check
def reduce(rank: int) -> None:
    x = full(rank + 1)
    dist.reduce(x, 0)
    if rank == 0:
        expect(x, 3)


@check
def all_gather(rank: int) -> None:
    out = [full(9), full(9)]
    dist.all_gather(out, full(rank))
    for i, x in enumerate(out):
        expect(x, i)


@check
def all_gather_into_tensor(rank: int) -> None:
    out = full(9, 6)
    dist.all_gather_into_tensor(out, full(rank))
    expect(out, [0, 0, 0, 1, 1, 1])


@check
def all_gather_object(rank: int) -> None:
    out = [None, None]
    dist.all_gather_object(out, {"rank": rank})
    assert out == [{"rank": 0}, {"rank": 1}]


@check
def broadcast_object_list(rank: int) -> None:
    out = [f"from {rank}"]
    dist.broadcast_object_list(out, 0)
    assert out == ["from 0"]


@check
def gather(rank: int) -> None:
    out = [full(9), full(9)] if rank == 0 else None
    dist.gather(full(rank), out, 0)
    for i, x in enumerate(out or []):
        expect(x, i)


@check
def scatter(rank: int) -> None:
    x = full(9)
    dist.scatter(x, [full(5), full(6)] if rank == 0 else None, 0)
    expect(x, 5 + rank)


@check
def reduce_scatter(rank: int) -> None:
    x = full(9)
    dist.reduce_scatter(x, [full(1), full(2)])
    expect(x, 2 * (rank + 1))


@check
def reduce_scatter_tensor(rank: int) -> None:
    x = full(9, 2)
    dist.reduce_scatter_tensor(x, torch.arange(4.0, device=DEVICE))
    expect(x, [0, 2] if rank == 0 else [4, 6])


@check
def all_to_all_single(rank: int) -> None:
    x = full(9, 2)
    dist.all_to_all_single(x, full(rank, 2))
    expect(x, [0, 1])


@check
def all_to_all(rank: int) -> None:
    if torch.__version__ < "2.13":  # before 2.13, gloo lacks all_to_all
        return
    out = [full(9), full(9)]
    dist.all_to_all(out, [full(10 * rank), full(10 * rank + 1)])
    for i, x in enumerate(out):
        expect(x, 10 * i + rank)


@check
def all_reduce_coalesced(rank: int) -> None:
    xs = [full(rank), full(rank + 1, 2)]
    dist.all_reduce_coalesced(xs)
    expect(xs[0], 1)
    expect(xs[1], 3)


@check
def point_to_point(rank: int) -> None:
    x = full(rank)
    if rank == 0:
        dist.send(full(7), 1)
        dist.isend(full(8), 1).wait()
        dist.recv(x, 1)
        expect(x, 3)
    else:
        dist.recv(x, 0)
        expect(x, 7)
        dist.irecv(x, 0).wait()
        expect(x, 8)
        dist.send(full(3), 0)
    operations = [dist.P2POp(dist.isend, full(rank), 1 - rank), dist.P2POp(dist.irecv, x, 1 - rank)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    expect(x, 1 - rank)


@check
def barrier(rank: int) -> None:
    dist.barrier()
    if dist.get_backend() == "gloo":
        dist.monitored_barrier()


@check
def cpu_tensors_too(rank: int) -> None:
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [2, 2]


@check
def subgroups(rank: int) -> None:
    x = full(rank)
    group = dist.new_group([0, 1])
    dist.all_reduce(x, group=group)
    expect(x, 1)
    alone = dist.new_group([0], backend="gloo")
    if rank == 0:
        dist.all_reduce(x, group=alone)
        expect(x, 1)


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def _batches(rank: int, world: int = 2) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    whole = [(torch.randn(8, 8, generator=generator), torch.randn(8, 4, generator=generator)) for _ in range(3)]
    return [(x[rank::world], y[rank::world]) for x, y in whole]


def _train(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, world: int, device: str) -> None:
    for x, y in _batches(rank, world):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
        optimizer.step()


def _expected() -> dict[str, torch.Tensor]:
    """Train on the full batches in one process on the CPU."""
    model = _model()
    _train(model, torch.optim.AdamW(model.parameters(), 1e-2), 0, 1, "cpu")
    return model.state_dict()


def _compare(state: dict[str, torch.Tensor]) -> None:
    for name, value in _expected().items():
        found = state[name]
        found = found.full_tensor() if hasattr(found, "full_tensor") else found
        torch.testing.assert_close(found.detach().cpu(), value, rtol=1e-4, atol=1e-5)


@check
def ddp(rank: int) -> None:
    for options in ({}, {"device_ids": [rank]}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
        model = nn.parallel.DistributedDataParallel(_model().to(DEVICE), **options)
        _train(model, torch.optim.AdamW(model.parameters(), 1e-2), rank, 2, DEVICE)
        assert all(p.grad.device.type == "mpsx" for p in model.parameters())
        _compare(model.module.state_dict())


@check
def ddp_no_sync(rank: int) -> None:
    model = nn.parallel.DistributedDataParallel(_model().to(DEVICE))
    (x, y), *_ = _batches(rank)
    with model.no_sync():
        nn.functional.mse_loss(model(x.to(DEVICE)), y.to(DEVICE)).backward()
    first = model.module[0].weight.grad.clone()
    gathered = [torch.empty_like(first), torch.empty_like(first)]
    dist.all_gather(gathered, first)
    assert not torch.equal(gathered[0].cpu(), gathered[1].cpu())


@check
def zero(rank: int) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = nn.parallel.DistributedDataParallel(_model().to(DEVICE))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2)
    _train(model, optimizer, rank, 2, DEVICE)
    _compare(model.module.state_dict())


@check
def fsdp1(rank: int) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType

    model = FullyShardedDataParallel(_model().to(DEVICE), device_id=torch.device(DEVICE, 0), use_orig_params=True)
    _train(model, torch.optim.AdamW(model.parameters(), 1e-2), rank, 2, DEVICE)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        _compare(model.state_dict())


@check
def fsdp2(rank: int) -> None:
    from torch.distributed.fsdp import fully_shard

    model = _model().to(DEVICE)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    _train(model, torch.optim.AdamW(model.parameters(), 1e-2), rank, 2, DEVICE)
    _compare(model.state_dict())


@check
def device_mesh_and_dtensor(rank: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(DEVICE, (2,))
    whole = torch.arange(12.0).view(4, 3)
    sharded = distribute_tensor(whole.to(DEVICE), mesh, [Shard(0)])
    assert sharded.to_local().shape == (2, 3)
    expect((sharded * 2).full_tensor(), whole * 2)
    expect(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
    expect(sharded.sum().full_tensor(), 66)


@check
def tensor_parallel(rank: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = _model()
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    expected = model(x)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallel = parallelize_module(model.to(DEVICE), init_device_mesh(DEVICE, (2,)), plan)
    out = parallel(x.to(DEVICE))
    torch.testing.assert_close(out.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)


@check
def checkpoint(rank: int) -> None:
    import torch.distributed.checkpoint as dcp

    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder, 0)
    saved = {"x": full(4), "model": _model().to(DEVICE).state_dict()}
    dcp.save(saved, checkpoint_id=folder[0])
    loaded = {"x": full(0), "model": {name: torch.zeros_like(value) for name, value in saved["model"].items()}}
    dcp.load(loaded, checkpoint_id=folder[0])
    expect(loaded["x"], 4)
    expect(loaded["model"]["0.weight"], saved["model"]["0.weight"].cpu())


@check
def index_one_is_the_device(rank: int) -> None:
    torch.mpsx.set_device(rank)
    expect(torch.ones(2, device=f"mpsx:{rank}"), 1)
    expect(torch.ones(2).to(rank), 1)


@check
def accelerate(rank: int) -> None:
    import accelerate as library

    accelerator = library.Accelerator()
    assert accelerator.num_processes == 2 and accelerator.device.type == "mpsx"
    model = _model()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 1e-2))
    for x, y in _batches(rank):
        optimizer.zero_grad()
        accelerator.backward(nn.functional.mse_loss(model(x.to(DEVICE)), y.to(DEVICE)))
        optimizer.step()
    _compare(model.module.state_dict())
    expect(accelerator.gather(full(rank, 1)), [0, 1])


def main(rank: int, port: str, backend: str | None) -> None:
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.update(MASTER_PORT=port, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank),
                      LOCAL_WORLD_SIZE="2")  # fmt: skip
    torch.set_num_threads(1)
    mpsx.fallback.set_mode("silent")
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=120))  # don't wait long for a failed rank
    for name, function in CHECKS.items():
        try:
            function(rank)
            print(name, "ok", flush=True)
        except Exception:
            print(name, traceback.format_exc().strip().replace("\n", "\\n"), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    import ddp_hook_checks  # noqa: F401
    import distributed_checks  # importing this module by name registers the other modules' checks here, not in __main__
    import dtensor_checks  # noqa: F401
    import example_checks  # noqa: F401

    distributed_checks.main(int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
