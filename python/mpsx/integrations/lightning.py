"""Lightning's Trainer and Fabric: the accelerator "mpsx", which "auto" and "gpu" select, and mixed precision.

Lightning is distributed as one package or as two. The Trainer and Fabric each have their own accelerator registry.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from .rewrite import instead_of_cuda, line


def _register(module: ModuleType) -> None:
    """Register the accelerator in an "….accelerators" module, through Lightning's extension point."""
    base = module.Accelerator

    class MPSXAccelerator(base):
        """The accelerator for the mpsx device, which several processes may share."""

        def setup_device(self, device: torch.device) -> None:
            """Reject other devices, as Lightning's own accelerators do."""
            if device.type not in ("mpsx", "mps"):
                raise ValueError(f"Device should be mpsx, got {device} instead.")

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            """Return the allocator's statistics for DeviceStatsMonitor."""
            return dict(torch.mpsx.memory_stats())

        def teardown(self) -> None:
            """Release cached memory."""
            torch.mpsx.empty_cache()

        @staticmethod
        def parse_devices(devices: Any) -> int:
            """Parse the number of processes. They share one device."""
            if isinstance(devices, str) and devices.strip().lstrip("-").isdigit():
                devices = int(devices)
            if devices in ("auto", -1):
                return 1
            if isinstance(devices, (list, tuple)) and devices and set(devices) == {0}:
                return len(devices)
            if isinstance(devices, int) and devices > 0:
                return devices
            raise ValueError(f"mpsx: expected devices to be a number, 'auto' or [0], got {devices!r}")

        @staticmethod
        def get_parallel_devices(devices: int) -> list[torch.device]:
            """Return one device for each process."""
            return [torch.device("mpsx", 0)] * devices

        @staticmethod
        def auto_device_count() -> int:
            """Default to a single process."""
            return 1

        @staticmethod
        def is_available() -> bool:
            """Return True: the device is always available."""
            return True

        @staticmethod
        def name() -> str:
            """Return the name to use in `Trainer(accelerator="mpsx")`."""
            return "mpsx"

        @classmethod
        def register_accelerators(cls, accelerator_registry: Any) -> None:
            """Register under the name "mpsx"."""
            accelerator_registry.register("mpsx", cls, description=cls.__name__, override=True)

    # pickle requires that the class can be imported from the module, like Lightning's own accelerators.
    MPSXAccelerator.__module__, MPSXAccelerator.__qualname__ = module.__name__, "MPSXAccelerator"
    module.MPSXAccelerator = MPSXAccelerator
    registries = [value for name, value in vars(module).items() if name.lower() in _REGISTRIES]
    MPSXAccelerator.register_accelerators(*registries)


_REGISTRIES = ("accelerator_registry", "acceleratorregistry")  # names in Fabric and in the Trainer


def _choice(where: str) -> tuple:
    """Select mpsx instead of mps or CUDA."""
    return (
        line(where, "if MPSAccelerator.is_available():", "if False:"),
        instead_of_cuda(where, condition="CUDAAccelerator.is_available()"),
    )


def _connector(where: str) -> tuple:
    """Patch the accelerator connector of the Trainer or of Fabric."""
    return (
        *_choice(f"{where}._choose_gpu_accelerator_backend"),
        line(
            f"{where}._choose_strategy",
            "if isinstance(self._accelerator_flag, (CUDAAccelerator",
            'if self.accelerator.name() == "mpsx" or isinstance(self._accelerator_flag, (CUDAAccelerator',
        ),
        line(f"{where}._check_strategy_and_fallback", '("cuda", "gpu")', '("cuda", "gpu", "mpsx", "auto")'),
        line(
            f"{where}._check_and_init_precision",
            'self._accelerator_flag if self._accelerator_flag in ("cpu", "mps") else "cuda"',
            'self.accelerator.name() if self.accelerator.name() in ("cpu", "mps", "mpsx") else "cuda"',
        ),
    )


def _offer(module: ModuleType) -> None:
    """Support `fabric run --accelerator=mpsx`. Fabric's command line needs click."""
    if module._CLICK_AVAILABLE:
        option = next(option for option in module._run.params if option.name == "accelerator")
        option.type.choices = (*option.type.choices, "mpsx")


def _log_outside_of_graphs(module: ModuleType) -> None:
    """Let torch.compile(LightningModule) break its graph at `self.log` instead of failing: Dynamo cannot trace how
    Lightning inspects the signature of the training step."""
    module.LightningModule.log = torch.compiler.disable(module.LightningModule.log)


def _processes(trainer: str, fabric: str) -> dict[str, tuple]:
    """Patch multi-process strategies and the command line."""
    no_stream = ("if device_ids is not None else", "if False else")  # Lightning sets up DDP on a CUDA stream
    return {
        f"{trainer}.strategies.ddp": (line("DDPStrategy._setup_model", *no_stream),),
        f"{fabric}.strategies.ddp": (line("DDPStrategy.setup_module", *no_stream),),
        f"{trainer}.strategies.fsdp": (instead_of_cuda("FSDPStrategy.setup_environment", condition=None),),
        f"{fabric}.strategies.fsdp": (instead_of_cuda("FSDPStrategy.setup_environment", condition=None),),
        f"{fabric}.cli": (
            _offer,
            line("_get_num_processes", 'if accelerator == "gpu":', "if False:"),
            line("_get_num_processes", 'accelerator == "cuda" or accelerator == "mps"',
                 'accelerator in ("gpu", "mpsx", "mps")'),
        ),
    }  # fmt: skip


def _checkpoints_and_stats(trainer: str, fabric: str) -> dict[str, tuple]:
    """Patch checkpoints, memory statistics and timers."""
    return {
        f"{trainer}.core.saving": (
            line("_default_map_location", 'location.startswith("mps")',
                 'location.startswith("mps") and not location.startswith("mpsx")'),
        ),
        f"{trainer}.utilities.memory": (
            line("is_cuda_out_of_memory", '"CUDA" in', '"mpsx" in'),
            instead_of_cuda("garbage_collection_cuda", condition=None),
        ),
        f"{trainer}.profilers.pytorch": (
            line("PyTorchProfiler._default_activities",
                 "if is_cuda_available():\n            activities.append(ProfilerActivity.CUDA)",
                 "if ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities():\n"
                 "            activities.append(ProfilerActivity.PrivateUse1)"),
        ),
    }  # fmt: skip


def _patches(trainer: str, fabric: str) -> dict[str, tuple]:
    """Return all patches for one of Lightning's two distributions."""
    return {
        f"{trainer}.accelerators": (_register,),
        f"{fabric}.accelerators": (_register,),
        f"{fabric}.accelerators.mps": (
            line(
                "MPSAccelerator.is_available",
                'platform.processor() in ("arm", "arm64")',
                '(torch.mpsx.is_mps() or platform.processor() in ("arm", "arm64"))',
            ),
        ),
        f"{fabric}.utilities.device_parser": _choice("_select_auto_accelerator"),
        f"{trainer}.core.module": (_log_outside_of_graphs,),
        f"{trainer}.trainer.connectors.accelerator_connector": _connector("_AcceleratorConnector"),
        f"{fabric}.connector": (*_connector("_Connector"), *_choice("_Connector._choose_auto_accelerator")),
        f"{fabric}.utilities.seed": (instead_of_cuda("_collect_rng_states", "_set_rng_states", condition=None),),
        f"{trainer}.trainer.setup": (
            line("_log_device_info", 'gpu_available = False\n        gpu_type = ""',
                 'gpu_available = True\n        gpu_type = " (mpsx)"'),
            line("_log_device_info", "gpu_used = isi", 'gpu_used = trainer.accelerator.name() == "mpsx" or isi'),
        ),
        **_processes(trainer, fabric),
        **_checkpoints_and_stats(trainer, fabric),
        f"{trainer}.plugins.precision.fsdp": (instead_of_cuda("FSDPPrecision.forward_context", condition=None),),
        f"{fabric}.plugins.precision.fsdp": (instead_of_cuda("FSDPPrecision.forward_context", condition=None),),
    }


PATCHES = _patches("lightning.pytorch", "lightning.fabric") | _patches("pytorch_lightning", "lightning_fabric")
