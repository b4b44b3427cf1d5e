"""Patches for libraries that choose the default device in one or two lines of code."""

from __future__ import annotations

from types import ModuleType

from .rewrite import constant, instead_of_cuda, line


def _tianshou(module: ModuleType) -> None:
    """Change the default of a dataclass field and the constructor's copy of it."""
    config = module.ExperimentConfig
    if config.device != "cpu":
        raise ValueError(f"ExperimentConfig.device has changed, expected 'cpu', got {config.device!r}")
    config.device = "mpsx"
    config.__init__.__defaults__ = tuple("mpsx" if value == "cpu" else value for value in config.__init__.__defaults__)


def _skrl(module: ModuleType) -> None:
    """Set the default device in skrl's config object to mpsx."""
    module.config.torch.device = "mpsx"


PATCHES = {
    # Keras with the torch backend: the default device, and keras.device("gpu").
    "keras.src.backend.torch.core": (
        constant("DEFAULT_DEVICE", "mpsx", unless="KERAS_TORCH_DEVICE"),
        line("_parse_device_input", 'replace("gpu", "cuda")', 'replace("gpu", "mpsx")'),
    ),
    # Diffusers itself uses torch.accelerator, but its test utilities do not.
    "diffusers.utils.testing_utils": (constant("torch_device", "mpsx", unless="DIFFUSERS_TEST_DEVICE"),),
    # PyTorch Geometric: device("auto"), GraphGym, and functions that move data to CUDA.
    "torch_geometric.device": (instead_of_cuda("device"),),
    "torch_geometric.graphgym.utils.device": (instead_of_cuda("auto_select_device"),),
    "torch_geometric.nn.models.gpse": (instead_of_cuda("gpse_process", "gpse_process_batch"),),
    "torch_geometric.loader.ibmb_loader": (instead_of_cuda("create_batchwise_out_aux_pairs"),),
    # Reinforcement learning
    "stable_baselines3.common.utils": (line("get_device", 'device = "cuda"', 'device = "mpsx"'),),
    "torchrl._utils": (instead_of_cuda("get_available_device"),),
    "torchrl.data.replay_buffers.utils": (instead_of_cuda("_auto_device"),),
    "tianshou.highlevel.experiment": (_tianshou,),
    "skrl": (instead_of_cuda("config.torch.parse_device"), _skrl),
    "d3rlpy.base": (line("_process_device", '"cuda:0" if value', '"mpsx:0" if value'),),
    "d3rlpy.torch_utility": (line("map_location", 'if "cpu" in device:', 'if "cpu" in device or "mpsx" in device:'),),
    # lm-eval replaces device names that it does not know with "cpu".
    "lm_eval.models.huggingface": (
        line("HFLM.__init__", '["cuda", "cpu"]', '["cuda", "cpu", "mpsx", "mpsx:0"]'),
        line("HFLM.__init__", 'torch.device("cuda")\n', 'torch.device("mpsx")\n'),
        line("HFLM.__init__", "if torch.cuda.is_available()\n", "if True\n"),
        line("HFLM.__init__", 'str(self.device) == "mps"', 'self.device.type in ("mps", "mpsx")'),
    ),
    # Language and speech
    "flair": (constant("device", "mpsx", unless="FLAIR_DEVICE"),),
    "stanza.models.common.utils": (instead_of_cuda("default_device"),),
    "setfit.modeling": (instead_of_cuda("SetFitHead.__init__"),),
    "whisper": (instead_of_cuda("load_model"),),
    # SpeechBrain uses torch.accelerator, but enables gradient scaling only on CUDA.
    "speechbrain.core": (
        line("Brain.__init__", 'self.precision == "fp16" and self.device_type == "cuda"',
             'self.precision == "fp16" and self.device_type in ("cuda", "mpsx")'),
    ),
    "litgpt.api": (instead_of_cuda("LLM.load", "LLM.distribute"),),
    # spaCy: prefer_gpu() and require_gpu() select thinc's ops for mps, which use NumPy and torch.
    "thinc.compat": (constant("has_gpu", True),),
    "thinc.util": (
        line("require_gpu", 'platform.system() != "Darwin" and not has_cupy', "False"),
        line("get_torch_default_device", 'torch.device("mps")', 'torch.device("mpsx")'),
    ),
    # Vision
    "easyocr.easyocr": (instead_of_cuda("Reader.__init__"),),
    "kornia.core.utils": (
        instead_of_cuda("get_cuda_device_if_available"),
        line("get_mps_device_if_available", 'dev = "mps"', 'dev = "mpsx"'),
    ),
    "open_clip.openai": (instead_of_cuda("load_openai_model"),),
    "open_clip_train.distributed": (
        line("is_device_available", "device_type == 'cpu'", "device_type in ('cpu', 'mpsx')"),
    ),
    "mmengine.device.utils": (constant("DEVICE", "mpsx"),),
    # Tables, time series, graphs, simulation
    "pytorch_tabnet.utils": (
        line("define_device", 'if torch.cuda.is_available():\n            return "cuda"',
             'if True:\n            return "mpsx"'),
    ),
    "gluonts.torch.util": (instead_of_cuda("resolve_device"),),
    "pykeen.utils": (line("resolve_device", 'device = "cuda"', 'device = "mpsx"'),),
    "sbi.utils.torchutils": (
        instead_of_cuda("process_device", "gpu_available"),
        line("process_device", 'startswith("mps")', 'startswith("mps:")'),
    ),
    "pytorch_metric_learning.utils.common_functions": (instead_of_cuda("use_cuda_if_available"),),
}  # fmt: skip
