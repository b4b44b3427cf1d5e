"""torch.distributed: groups of processes whose tensors are on mpsx talk over gloo, without a copy.

`init_process_group()`, `init_process_group("gloo")` and "cpu:gloo,mpsx:mpsx" all work. The processes of a machine share
its one device: `mpsx:1` means the device too from then on.
"""

from __future__ import annotations

import functools
from types import ModuleType

import torch


def _create(store: object, rank: int, size: int, timeout: object) -> object:
    """A group for tensors of the CPU and of mpsx."""
    from torch.distributed import PrefixStore, ProcessGroup, ProcessGroupGloo

    gloo = ProcessGroupGloo(PrefixStore("gloo/", store), rank, size, timeout=timeout)
    gloo._set_sequence_number_for_group()
    group = ProcessGroup(store, rank, size)
    group._set_default_backend(ProcessGroup.BackendType.GLOO)
    group._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, gloo)
    torch.ops.mpsx._add_collectives(group.boxed())
    return group


def register(c10d: ModuleType) -> None:
    """Makes the backend known to torch.distributed.distributed_c10d, and gives every group with gloo ours as well."""
    if "mpsx" in c10d.Backend.backend_list:
        return
    c10d.Backend.register_backend("mpsx", _create, devices=["mpsx"])
    c10d.Backend.backend_capability[c10d.Backend.GLOO].append("mpsx")
    make_group = c10d._new_process_group_helper

    @functools.wraps(make_group)
    def _new_process_group_helper(*args: object, **options: object) -> object:
        result = make_group(*args, **options)
        if isinstance(result[0], c10d.ProcessGroup):
            torch.ops.mpsx._add_collectives(result[0].boxed())
        return result

    c10d._new_process_group_helper = _new_process_group_helper
