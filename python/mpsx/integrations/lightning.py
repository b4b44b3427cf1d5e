"""Lightning's Trainer and Fabric: an accelerator called "mpsx", the choice of "auto" and "gpu", mixed precision.

Lightning comes as one package or as two, and the Trainer and Fabric each have a list of accelerators.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from .rewrite import instead_of_cuda, line


def _register(module: ModuleType) -> None:
    """Adds the accelerator to the list of `module`, "….accelerators", by Lightning's own extension point."""
    base = module.Accelerator

    class MPSXAccelerator(base):
        """mpsx: one device, which several processes may share."""

        def setup_device(self, device: torch.device) -> None:
            """Refuses other devices, as Lightning's accelerators do."""
            if device.type not in ("mpsx", "mps"):
                raise ValueError(f"Device should be mpsx, got {device} instead.")

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            """The allocator's statistics, for DeviceStatsMonitor."""
            return dict(torch.mpsx.memory_stats())

        def teardown(self) -> None:
            """Gives memory that no tensor holds back."""
            torch.mpsx.empty_cache()

        @staticmethod
        def parse_devices(devices: Any) -> int:
            """How many processes; each of them uses the one device."""
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
            """The device of each process."""
            return [torch.device("mpsx", 0)] * devices

        @staticmethod
        def auto_device_count() -> int:
            """One process, unless asked for more."""
            return 1

        @staticmethod
        def is_available() -> bool:
            """It always is."""
            return True

        @staticmethod
        def name() -> str:
            """The name, as in `Trainer(accelerator="mpsx")`."""
            return "mpsx"

        @classmethod
        def register_accelerators(cls, accelerator_registry: Any) -> None:
            """Under the names."""
            accelerator_registry.register("mpsx", cls, description=cls.__name__, override=True)

    # As the library's own are found, by pickle too.
    MPSXAccelerator.__module__, MPSXAccelerator.__qualname__ = module.__name__, "MPSXAccelerator"
    module.MPSXAccelerator = MPSXAccelerator
    registries = [value for name, value in vars(module).items() if name.lower() in _REGISTRIES]
    MPSXAccelerator.register_accelerators(*registries)


_REGISTRIES = ("accelerator_registry", "acceleratorregistry")  # Fabric's and the Trainer's


def _choice(where: str) -> tuple:
    """mpsx where there would be mps or CUDA."""
    return (
        line(where, "if MPSAccelerator.is_available():", "if False:"),
        instead_of_cuda(where, condition="CUDAAccelerator.is_available()"),
    )


def _connector(where: str) -> tuple:
    """The choices that a Trainer and a Fabric make."""
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
    """`fabric run --accelerator=mpsx`; without click there is no such command."""
    if module._CLICK_AVAILABLE:
        option = next(option for option in module._run.params if option.name == "accelerator")
        option.type.choices = (*option.type.choices, "mpsx")


def _processes(trainer: str, fabric: str) -> dict[str, tuple]:
    """Strategies of several processes, and the command line."""
    no_stream = ("if device_ids is not None else", "if False else")  # DDP is set up on a stream of CUDA
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


def _surroundings(trainer: str, fabric: str) -> dict[str, tuple]:
    """Checkpoints, memory and times."""
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
    """For one of the two forms that Lightning comes in."""
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
        f"{trainer}.trainer.connectors.accelerator_connector": _connector("_AcceleratorConnector"),
        f"{fabric}.connector": (*_connector("_Connector"), *_choice("_Connector._choose_auto_accelerator")),
        f"{fabric}.utilities.seed": (instead_of_cuda("_collect_rng_states", "_set_rng_states", condition=None),),
        f"{trainer}.trainer.setup": (
            line("_log_device_info", 'gpu_available = False\n        gpu_type = ""',
                 'gpu_available = True\n        gpu_type = " (mpsx)"'),
            line("_log_device_info", "gpu_used = isi", 'gpu_used = trainer.accelerator.name() == "mpsx" or isi'),
        ),
        **_processes(trainer, fabric),
        **_surroundings(trainer, fabric),
        f"{trainer}.plugins.precision.fsdp": (instead_of_cuda("FSDPPrecision.forward_context", condition=None),),
        f"{fabric}.plugins.precision.fsdp": (instead_of_cuda("FSDPPrecision.forward_context", condition=None),),
    }


PATCHES = _patches("lightning.pytorch", "lightning.fabric") | _patches("pytorch_lightning", "lightning_fabric")
