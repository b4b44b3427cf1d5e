"""Hugging Face accelerate: the device of `Accelerator()`, fp16 and its scaler, device maps, random state, and DDP."""

from __future__ import annotations

from .rewrite import instead_of_cuda, line

PATCHES = {
    "accelerate.state": (
        instead_of_cuda("PartialState.default_device", "PartialState._prepare_backend"),
        line("PartialState._prepare_backend", 'backend = "nccl"', 'backend = "mpsx"'),
        line("PartialState.set_device", 'device = "cuda"', 'device = "mpsx"'),
    ),
    "accelerate.accelerator": (line("Accelerator.__init__", '"sdaa", "mps")', '"sdaa", "mps", "mpsx")'),),
    # Report mps as unavailable, so that accelerate uses mpsx on Macs as well.
    "accelerate.utils.imports": (line("is_mps_available", "return is_torch", "return False and is_torch"),),
    "accelerate.utils.memory": (instead_of_cuda("clear_device_cache", condition="is_cuda_available()"),),
    "accelerate.utils.modeling": (
        instead_of_cuda("get_grad_scaler", "get_max_memory", condition=None),
        line("get_balanced_memory", 'expected_device_type = "cuda"', 'expected_device_type = "mpsx"'),
    ),
    "accelerate.checkpointing": (
        instead_of_cuda("save_accelerator_state", "load_accelerator_state", condition="is_cuda_available()"),
    ),
}
