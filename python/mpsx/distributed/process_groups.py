"""torch.distributed: groups of processes whose tensors are on mpsx communicate over gloo, without a copy.

Every way to make a group gives it the CPU and mpsx: no arguments, "gloo", "cpu:gloo,mpsx:gloo" and so on; "mpsx" is
another name for gloo. The processes of a machine share its one device: `mpsx:1` means the device too from then on, and
before that where LOCAL_WORLD_SIZE, which torchrun sets, says how many processes there are.
"""

from __future__ import annotations

import functools
from types import ModuleType

import torch

from .. import _runtime


def register(c10d: ModuleType) -> None:
    """Makes gloo the backend of mpsx in torch.distributed.distributed_c10d, and gives every group with gloo ours."""
    backends = c10d.Backend
    if "mpsx" in backends.backend_list:
        return
    backends.default_device_backend_map["mpsx"] = backends.GLOO
    backends.backend_capability[backends.GLOO].append("mpsx")
    # Not register_backend(): a plugin changes how torch.distributed sets up groups that do not use it.
    backends.MPSX = backends.GLOO
    backends.backend_capability["mpsx"] = backends.backend_capability[backends.GLOO]
    backends.backend_list.append("mpsx")
    make_group = c10d._new_process_group_helper

    @functools.wraps(make_group)
    def _new_process_group_helper(*args: object, **options: object) -> object:
        device = options.get("device_id")
        if device is not None and device.type == _runtime.device_type():
            # Subgroups of a group with a device are split from it as NCCL's are; gloo's are made anew, as on the CPU.
            options["device_id"] = None
        result = make_group(*args, **options)
        if isinstance(result[0], c10d.ProcessGroup):
            torch.ops.mpsx._add_collectives(result[0].boxed())
        return result

    c10d._new_process_group_helper = _new_process_group_helper
