"""Patches that add mpsx to the lists of devices in other libraries.

default_device.py patches the libraries that need only a line or two. Each of the others has its own file. PATCHES maps
names of library modules to patches, which run right after the module is imported. mpsx itself never imports a library.
On a machine with CUDA, only torch is patched, and the other libraries use CUDA. MPSX_INTEGRATIONS=0 disables all
patches.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType

import torch

# Top-level package of a library: module of this package that patches it
LIBRARIES = {
    "accelerate": "accelerate",
    "transformers": "transformers",
    "peft": "peft",
    "safetensors": "safetensors",
    "sentence_transformers": "sentence_transformers",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "lightning_fabric": "lightning",
    "torch": "pytorch",
    "ignite": "ignite",
    "fastai": "fastai",
    "ultralytics": "ultralytics",
} | dict.fromkeys(
    "keras diffusers torch_geometric stable_baselines3 torchrl tianshou skrl d3rlpy lm_eval flair stanza setfit "
    "whisper speechbrain litgpt thinc easyocr kornia open_clip open_clip_train mmengine pytorch_tabnet gluonts pykeen "
    "sbi pytorch_metric_learning".split(),
    "default_device",
)

failed_patches: list[str] = []  # patches that a warning has already reported


def _patches(name: str) -> tuple:
    """Return the patches for a module."""
    library = LIBRARIES.get(name.partition(".")[0])
    if library is None:
        return ()
    return importlib.import_module(f".{library}", __name__).PATCHES.get(name, ())


def apply(module: ModuleType) -> None:
    """Patch a module. Warn if a patch fails, for example because it does not fit the installed version."""
    if torch.cuda.is_available() and not module.__name__.startswith("torch."):
        return
    for patch in _patches(module.__name__):
        try:
            patch(module)
        except Exception as error:
            library = module.__name__.partition(".")[0]
            version = getattr(sys.modules.get(library), "__version__", "of an unknown version")
            failed_patches.append(f"{library} {version}: {error}")
            warnings.warn(
                f"mpsx cannot patch {failed_patches[-1]}. Parts of the library may not use mpsx; "
                "MPSX_INTEGRATIONS=0 disables all patches.",
                stacklevel=2,
            )


class _WatchedSpec(ModuleSpec):
    """A module spec that patches the module after its import, at which point importlib sets `_initializing` to
    False."""

    @property
    def _initializing(self) -> bool:
        return self.__dict__.get("_mpsx_initializing", False)

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        was, self.__dict__["_mpsx_initializing"] = self._initializing, value
        module = sys.modules.get(self.name)
        if was and not value and module is not None:
            apply(module)


def _watch(spec: ModuleSpec, initializing: bool) -> None:
    spec.__dict__.pop("_initializing", None)
    spec.__class__ = _WatchedSpec
    spec.__dict__["_mpsx_initializing"] = initializing


class _Finder:
    """A meta path finder that delegates to the other finders, and patches modules after their import."""

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not _patches(name):
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                _watch(spec, False)
                return spec
        return None


def register() -> None:
    """Install the finder, and patch the modules that are already imported."""
    if os.environ.get("MPSX_INTEGRATIONS") == "0":
        return
    sys.meta_path.insert(0, _Finder())
    for name, module in list(sys.modules.items()):
        if _patches(name):
            # If the library imported torch and thereby loaded mpsx, this module is still being imported.
            if getattr(module.__spec__, "_initializing", False):
                _watch(module.__spec__, True)
            else:
                apply(module)
