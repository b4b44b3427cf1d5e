"""PyTorch Ignite: the default device, and mixed precision, which Ignite rejects if the device name contains "mps"."""

from __future__ import annotations

from .rewrite import instead_of_cuda, line

_NOT_MPS = ('"mps" in device_type', '"mps" in device_type and "mpsx" not in device_type')

PATCHES = {
    "ignite.distributed.comp_models.base": (instead_of_cuda("_SerialModel.device"),),
    "ignite.distributed.comp_models.native": (
        line("_NativeDistModel.device", 'return torch.device("cpu")', 'return torch.device("mpsx")'),
    ),
    "ignite.engine": (
        line("create_supervised_trainer", *_NOT_MPS),
        line("create_supervised_evaluator", *_NOT_MPS),
        line("supervised_training_step_amp", 'autocast("cuda", enabled', 'autocast("mpsx", enabled'),
        line("supervised_evaluation_step_amp", 'autocast("cuda", enabled', 'autocast("mpsx", enabled'),
        line("_check_arg", "GradScaler(enabled=True)", 'GradScaler("mpsx", enabled=True)'),
    ),
}
