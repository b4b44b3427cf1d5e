"""mpsx: a Metal backend for PyTorch that lives outside PyTorch.

`import torch` loads this package through its entry point, so that `torch.device("mpsx")` simply works; importing it by
name gives the extras: `mpsx.compile_shader`, `mpsx.fallback`, `mpsx.cpu_view`, `mpsx.driver`.
"""

from __future__ import annotations


def _autoload() -> None:
    """Torch's entry point. Importing the package, which torch did to get here, has done everything."""


# Everything from here on may re-enter this module: `import torch` calls _autoload.
import importlib  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import warnings  # noqa: E402

from ._build_info import TORCH_VERSION as _BUILT_FOR  # noqa: E402
from ._build_info import VERSION as __version__  # noqa: E402

_failure: str | None = None


def _check_torch_version(found: str) -> None:
    """Raises when the C++ part was built against another minor version: torch keeps no ABI across those."""
    built, running = (".".join(version.split(".")[:2]) for version in (_BUILT_FOR, found))
    if built != running:
        raise ImportError(
            f"mpsx {__version__} was built for torch {built}, and this is torch {found}. "
            f"Either install torch {built} (pip install 'torch=={built}.*'), or build mpsx for the torch you have: in "
            "its source tree, with cmake, ninja, cython, scikit-build-core and ziglang installed, "
            "pip install --no-build-isolation --force-reinstall --no-deps ."
        )


def _take_the_place() -> None:
    """Torch has a place for one backend from elsewhere."""
    import torch

    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", "mpsx"):
        raise ImportError(
            f"the backend {taken} has taken the place that torch has for one from elsewhere (PrivateUse1). To use "
            f"mpsx, start without {taken}: uninstall it, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import mpsx alone."
        )
    torch.utils.rename_privateuse1_backend("mpsx")


def _load() -> None:
    import torch

    _check_torch_version(torch.__version__)
    from . import _runtime, device, fallback, integrations
    from .shader import kernel_library

    mode = fallback.mode_of(os.environ)  # refuses what it does not know before there is a device
    _take_the_place()
    _runtime.initialize(kernel_library.folder)
    device.register()
    fallback.set_mode(mode)
    if os.environ.get("MPSX_SIMT_PROFILE"):
        from . import kernel_profile

        kernel_profile.configure(os.environ)
    integrations.register()
    from .device import mps_alias

    if os.environ.get(mps_alias.ENVIRONMENT) == "1":  # the parent process is a program for mps
        mps_alias.enter()


def _torch_is_autoloading() -> bool:
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_import_device_backends":
            return True
        frame = frame.f_back
    return False


try:
    _load()
except Exception as error:
    if not _torch_is_autoloading():
        raise
    # `import torch` must not fail because of us.
    _failure = str(error)
    warnings.warn(f"The device mpsx is not available: {error}", stacklevel=2)
else:
    from . import fallback, profiler
    from ._runtime import driver
    from .device.mps_alias import as_mps
    from .device.views import cpu_view, device_view, from_mps, numpy_view, to_mps

    __all__ = [
        "__version__", "as_mps", "compile_shader", "cpu_view", "device_view", "driver", "fallback", "from_mps",
        "numpy_view", "ops", "profiler", "to_mps",
    ]  # fmt: skip


def __getattr__(name: str) -> object:
    if _failure is not None and not name.startswith("__"):
        raise ImportError(f"mpsx.{name}: {_failure}")
    # Imported on first use, to keep `import torch` quick.
    if name == "ops":
        return importlib.import_module(".ops", __name__)
    if name == "compile_shader":
        return importlib.import_module(".shader.library", __name__).compile_shader
    raise AttributeError(f"module 'mpsx' has no attribute {name!r}")
