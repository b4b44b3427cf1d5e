"""Process groups that exchange mpsx tensors over gloo without copying them.

Every gloo group supports both the CPU and mpsx, whether it was created without arguments, with "gloo", or with
"cpu:gloo,mpsx:gloo". "mpsx" is an alias of gloo. All processes on a machine share its device, so `mpsx:1` refers to the
same device as `mpsx:0`. The index 1 is valid once a group exists, or if torchrun has set LOCAL_WORLD_SIZE.
"""

from __future__ import annotations

import functools
from types import ModuleType

import torch

from .. import _runtime


def register(c10d: ModuleType) -> None:
    """Make gloo the backend for mpsx in torch.distributed.distributed_c10d, and add collectives to every gloo group."""
    backends = c10d.Backend
    if "mpsx" in backends.backend_list:
        return
    backends.default_device_backend_map["mpsx"] = backends.GLOO
    backends.backend_capability[backends.GLOO].append("mpsx")
    # Don't use register_backend(), which changes how torch.distributed sets up the groups of other backends.
    backends.MPSX = backends.GLOO
    backends.backend_capability["mpsx"] = backends.backend_capability[backends.GLOO]
    backends.backend_list.append("mpsx")
    make_group = c10d._new_process_group_helper

    @functools.wraps(make_group)
    def _new_process_group_helper(*args: object, **options: object) -> object:
        device = options.get("device_id")
        if device is not None and device.type == _runtime.device_type():
            # With a device id, torch.distributed would split subgroups as it does for NCCL. gloo creates new groups
            # instead.
            options["device_id"] = None
        result = make_group(*args, **options)
        if isinstance(result[0], c10d.ProcessGroup):
            torch.ops.mpsx._add_collectives(result[0].boxed())
        return result

    c10d._new_process_group_helper = _new_process_group_helper
