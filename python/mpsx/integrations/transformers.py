"""Hugging Face transformers: devices of `Trainer` and pipelines, bfloat16, random state, memory metrics, and caches."""

from __future__ import annotations

from .rewrite import instead_of_cuda, line

PATCHES = {
    "transformers.utils.import_utils": (
        # Report mps as unavailable, so that transformers uses mpsx on Macs as well.
        line("is_torch_mps_available", "return backend_available", "return False"),
        instead_of_cuda("is_torch_bf16_gpu_available"),
    ),
    "transformers.training_args": (
        line(
            "TrainingArguments._setup_devices",
            '"ACCELERATE_TORCH_DEVICE", "cpu"',
            '"ACCELERATE_TORCH_DEVICE", "mpsx:0"',
        ),
    ),
    "transformers.trainer": (instead_of_cuda("Trainer._save_rng_state", "Trainer._load_rng_state"),),
    "transformers.trainer_utils": (
        line("TrainerMemoryTracker.__init__", "if is_torch_cuda_available()", "if True"),
        instead_of_cuda("TrainerMemoryTracker.start", "TrainerMemoryTracker.stop"),
    ),
    "transformers.pipelines.base": (
        instead_of_cuda("Pipeline.__init__", condition="is_torch_cuda_available()"),
    ),
    "transformers.modeling_utils": (
        # Loading files onto mpsx does not require a single allocation of the model's size.
        line("caching_allocator_warmup", 'elif device.type == "mps":', 'elif device.type in ("mps", "mpsx"):'),
        # Warn about the default loss only in eager mode. In torch.compile, the warning breaks the graph, and Dynamo
        # traces the whole model twice.
        line(
            "PreTrainedModel.loss_function",
            "logger.warning_once(",
            "torch.compiler.is_compiling() or logger.warning_once(",
        ),
    ),
    "transformers.integrations.accelerate": (
        instead_of_cuda("get_max_memory"),
    ),
    # This function validates the `device` argument of image processors.
    "transformers.utils.type_validators": (line("device_validator", '"mps", "meta"', '"mps", "mpsx", "meta"'),),
    "transformers.cache_utils": (
        instead_of_cuda("Cache.update", condition=None),  # moves offloaded layers
    ),
}
