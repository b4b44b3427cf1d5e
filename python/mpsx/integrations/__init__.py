"""Other libraries keep lists of the devices they know; these modules add mpsx to them.

There is a module here per library, and default_device.py for those in which a line is enough. PATCHES lists, for each
of the library's modules, what changes in it once it has been imported. Nothing is imported for it, and no library but
torch is changed on a machine with CUDA, where they choose that. MPSX_INTEGRATIONS=0 switches all of it off.
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

# A library's top-level package, and the module here that knows it.
LIBRARIES = {
    "accelerate": "accelerate",
    "transformers": "transformers",
    "peft": "peft",
    "safetensors": "safetensors",
    "sentence_transformers": "sentence_transformers",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "lightning_fabric": "lightning",
    "torch": "torch_lists",
    "ignite": "ignite",
    "fastai": "fastai",
    "ultralytics": "ultralytics",
} | dict.fromkeys(
    "keras diffusers torch_geometric stable_baselines3 torchrl tianshou skrl d3rlpy lm_eval flair stanza setfit "
    "whisper speechbrain litgpt thinc easyocr kornia open_clip open_clip_train mmengine pytorch_tabnet gluonts pykeen "
    "sbi pytorch_metric_learning".split(),
    "default_device",
)

misfits: list[str] = []  # what was warned about


def _patches(name: str) -> tuple:
    """The changes of the module `name`."""
    library = LIBRARIES.get(name.partition(".")[0])
    if library is None:
        return ()
    return importlib.import_module(f".{library}", __name__).PATCHES.get(name, ())


def apply(module: ModuleType) -> None:
    """Changes a module of a library. A change that does not fit this version is a warning: the rest still helps."""
    if torch.cuda.is_available() and not module.__name__.startswith("torch."):
        return
    for patch in _patches(module.__name__):
        try:
            patch(module)
        except Exception as error:
            library = module.__name__.partition(".")[0]
            version = getattr(sys.modules.get(library), "__version__", "of an unknown version")
            misfits.append(f"{library} {version}: {error}")
            warnings.warn(
                f"mpsx does not fit {misfits[-1]}. Some of it may not use the device mpsx; "
                "MPSX_INTEGRATIONS=0 leaves libraries as they are.",
                stacklevel=2,
            )


class _WatchedSpec(ModuleSpec):
    """A module's spec that tells when the module has been imported: `_initializing` becomes False then."""

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
    """Finds modules as the other finders do, and has an eye on the ones that change."""

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
    """Arranges it for this process."""
    if os.environ.get("MPSX_INTEGRATIONS") == "0":
        return
    sys.meta_path.insert(0, _Finder())
    for name, module in list(sys.modules.items()):
        if _patches(name):
            # A library that imports torch, and thereby us, is in the middle of being imported itself.
            if getattr(module.__spec__, "_initializing", False):
                _watch(module.__spec__, True)
            else:
                apply(module)
