"""Create process groups in every way that torch.distributed offers: `python group_checks.py RANK PORT... [cpu]`.

Run two processes of this script. It prints JSON with the group names that torch.distributed reports, or the error. With
"cpu", it only makes calls that a program without mpsx could make. The test compares this output with and without mpsx.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

INITIALIZERS: dict[str, Callable[[int, int], None]] = {}
CPU_ONLY = ("nothing", "gloo", "capitals", "cpu:gloo", "cpu and cuda", "tcp", "file", "store", "mesh alone", "debug")
BACKENDS = {"mpsx:gloo": "mpsx:gloo", "cpu and mpsx": "cpu:gloo,mpsx:gloo", "both names": "cpu:gloo,mpsx:mpsx"}
LIMIT = datetime.timedelta(seconds=60)


def initializer(name: str, *arguments: object, **options: object) -> None:
    """Register the call init_process_group(*arguments, **options). `device_id` may be a function of the rank."""

    def init(rank: int, port: int) -> None:
        kwargs = dict(options)
        if "device_id" in kwargs:
            kwargs["device_id"] = kwargs["device_id"](rank)
        dist.init_process_group(*arguments, timeout=LIMIT, **kwargs)

    INITIALIZERS[name] = init


initializer("nothing")
initializer("gloo", "gloo")
initializer("capitals", backend="GLOO")
initializer("cpu:gloo", "cpu:gloo")
initializer("cpu and cuda", "cpu:gloo,cuda:gloo")
initializer("mpsx", "mpsx")
initializer("mpsx:gloo", "mpsx:gloo")
initializer("cpu and mpsx", "cpu:gloo,mpsx:gloo")
initializer("both names", "cpu:gloo,mpsx:mpsx")
initializer("None and device", backend=None, device_id=lambda rank: torch.device("mpsx", rank))
initializer("gloo and device", "gloo", device_id=lambda rank: torch.device("mpsx:0"))
initializer("device as a number", device_id=lambda rank: rank)


def register(function: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """Register an initializer that needs the rank or the port."""
    INITIALIZERS[function.__name__.replace("_", " ")] = function
    return function


@register
def default_of_device(rank: int, port: int) -> None:
    dist.init_process_group(dist.get_default_backend_for_device("mpsx"), timeout=LIMIT)


@register
def tcp(rank: int, port: int) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2, timeout=LIMIT)


@register
def file(rank: int, port: int) -> None:
    path = f"{tempfile.gettempdir()}/mpsx-group-{port}"
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2, timeout=LIMIT)


@register
def store(rank: int, port: int) -> None:
    tcp = dist.TCPStore("127.0.0.1", port, 2, rank == 0, LIMIT)
    dist.init_process_group("gloo", store=tcp, rank=rank, world_size=2, timeout=LIMIT)


@register
def mesh_alone(rank: int, port: int) -> None:
    init_device_mesh("cpu", (2,))


if torch.__version__ >= "2.13":  # before 2.13, the debug wrappers of process groups do not support FSDP2's gather

    @register
    def debug(rank: int, port: int) -> None:
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        dist.init_process_group("gloo", timeout=LIMIT)


def check_group(group: dist.ProcessGroup, devices: list[str]) -> None:
    """All-reduce in place and with functional collectives, passing the group both as an object and by name."""
    size = dist.get_world_size(group)
    for device in devices:
        x = torch.ones(3, device=device)
        dist.all_reduce(x, group=group)
        assert x.tolist() == [size] * 3, x
        for reference in (group, group.group_name):
            y = functional.all_reduce(torch.ones(3, device=device), "sum", reference)
            assert (y + 0).tolist() == [size] * 3, y
        gathered = functional.all_gather_tensor(torch.ones(2, device=device), 0, group)
        assert (gathered + 0).tolist() == [1] * 2 * size
    dist.barrier(group)


def check_backends(group: dist.ProcessGroup, devices: list[str]) -> None:
    """All-reduce on a group that is not in torch.distributed's registry."""
    for device in devices:
        x = torch.ones(3, device=device)
        group.allreduce(x).wait()
        assert x.tolist() == [group.size()] * 3, x


def check_mesh(device: str, rank: int) -> list[str]:
    """Use DTensor and FSDP on a 1-D and a 2-D mesh. Return the group names of both meshes."""
    mesh = init_device_mesh(device, (2,))
    whole = torch.arange(6.0, device=device).view(3, 2)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert sharded.redistribute(mesh, [Replicate()]).to_local().tolist() == whole.tolist()
    assert DTensor.from_local(whole, mesh, [Replicate()]).redistribute(mesh, [Shard(1)]).to_local().shape == (3, 1)
    grid = init_device_mesh(device, (2, 1), mesh_dim_names=("data", "model"))
    assert grid["data"].get_local_rank() == rank and grid["model"].size() == 1
    both = distribute_tensor(whole, grid, [Shard(0), Shard(1)])
    assert both.full_tensor().tolist() == whole.tolist()
    layer = torch.nn.Linear(2, 2).to(device)
    fully_shard(layer, mesh=mesh)
    layer(whole).sum().backward()
    return [mesh.get_group().group_name, grid.get_group("data").group_name, grid.get_group("model").group_name]


def check(rank: int, devices: list[str], first: bool) -> list[object]:
    """Return the names, description and backend of the default group and of groups created from it."""
    world = dist.group.WORLD
    groups = [world, dist.new_group([0, 1]), dist.new_group(), dist.new_group([0, 1], backend="gloo"),
              dist.new_group([0, 1], use_local_synchronization=True)]  # fmt: skip
    for group in groups:
        check_group(group, devices)
    alone, _ = dist.new_subgroups(1)
    check_group(alone, devices)
    names = [group.group_name for group in [*groups, alone]]
    if first:  # on the CPU, PyTorch crashes when splitting any gloo group except the first
        split = world.split_group([0, 1], group_name="split", group_desc="of the world")
        check_backends(split, devices)
        assert (split.group_name, split.group_desc) == ("split", "of the world")
    assert all(names) and world is dist.distributed_c10d._resolve_process_group(names[0])
    return [names, world.group_desc, dist.get_backend(), *(check_mesh(device, rank) for device in devices)]


@contextmanager
def environment(rank: int, port: int) -> Iterator[None]:
    """Set the environment variables that torchrun would set."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.set_debug_level(dist.DebugLevel.OFF)


def main(rank: int, ports: list[int], cpu: bool) -> None:
    torch.set_num_threads(1)
    os.environ["LOCAL_RANK"] = str(rank)
    if not cpu:
        os.environ["LOCAL_WORLD_SIZE"] = "2"
    found = {}
    for (name, init), port in zip(INITIALIZERS.items(), ports, strict=True):
        if cpu and name not in CPU_ONLY:
            continue
        with environment(rank, port):
            try:
                init(rank, port)
                found[name] = check(rank, ["cpu"] if cpu else ["cpu", "mpsx"], not found)
            except Exception:
                found[name] = traceback.format_exc()
                break  # the processes are out of sync after an error
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(port) for port in sys.argv[2].split(",")], "cpu" in sys.argv)
