"""Patches for DDP's communication hooks (torch.distributed.algorithms.ddp_comm_hooks) where they assume NCCL."""

from __future__ import annotations

from types import ModuleType

import torch

from ..integrations.rewrite import line


def _in_order(future: torch.futures.Future, bucket: torch.distributed.GradBucket) -> torch.futures.Future:
    """Wait for a collective, so that its callback, which starts further collectives, runs right away.

    Otherwise, gloo's threads could run the callbacks of different buckets in a different order in each process.
    """
    if bucket.buffer().is_mpsx:
        future.wait()
    return future


def _add_in_order(module: ModuleType) -> None:
    module._in_order = _in_order


def bfloat16(module: ModuleType) -> None:
    """Accept bfloat16 compression hooks, which DDP otherwise allows only with NCCL."""
    line("DistributedDataParallel._check_comm_hook", "or xpu_xccl_supported)",
         "or xpu_xccl_supported or self._module_parameters[0].is_mpsx)")(module)  # fmt: skip


def quantization(module: ModuleType) -> None:
    """Accept the list of tensors that gloo's all_gather returns. NCCL returns a single tensor."""
    _add_in_order(module)
    for name in ("quantization_pertensor_hook", "quantization_perchannel_hook"):
        for result in ("all_ranks_s_and_z", "all_ranks_quantized_tensor"):
            line(name, f"{result} = fut.wait()[0]", f"{result} = _gathered(fut.wait(), tensor)")(module)
        line(name, "fut.then(quantize_and_allgather)", "_in_order(fut, bucket).then(quantize_and_allgather)")(module)
    module._gathered = lambda value, tensor: torch.stack(value) if tensor.is_mpsx else value[0]


def power_sgd(module: ModuleType) -> None:
    """Make callbacks start their collectives in the same order in every process."""
    _add_in_order(module)
    for name, future in (("powerSGD_hook", "allreduce_contiguous_uncompressed_tensors_fut"),
                         ("batched_powerSGD_hook", "allreduce_p_fut")):  # fmt: skip
        line(name, f"{future}.then(", f"_in_order({future}, bucket).then(")(module)
