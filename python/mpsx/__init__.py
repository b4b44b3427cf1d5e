"""mpsx: an out-of-tree Metal backend for PyTorch.

`import torch` loads this package through its entry point, so `torch.device("mpsx")` works without another import.
Import the package for

    mpsx.compile_shader(source)   kernels from Metal source text
    mpsx.load_metallib(file)      kernels compiled by Apple's compiler
    mpsx.ops                      mpsx's operators as functions: mpsx.ops.swiglu(x, gate)
    mpsx.fallback                 policy for operators without a kernel, and a report of the operators that fell back
    mpsx.profiler                 traces, and counts of a kernel's memory accesses
    mpsx.as_mps()                 run code written for `mps` on mpsx; strict=True rejects what a Mac would reject
    mpsx.cpu_view(tensor)         a CPU tensor with the same memory; see also device_view, numpy_view, from_mps, to_mps
    mpsx.driver()                 the driver in use

`torch.mpsx` mirrors `torch.mps` and `torch.cuda`: synchronize, memory_allocated, manual_seed, Stream, and so on.
"""

from __future__ import annotations


def _autoload() -> None:
    """PyTorch calls this entry point. Importing the package already registers the backend, so it does nothing."""


# The imports below may re-enter this module, because `import torch` calls _autoload.
import importlib  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import warnings  # noqa: E402

from ._build_info import TORCH_VERSION as _BUILT_FOR  # noqa: E402
from ._build_info import VERSION as __version__  # noqa: E402

_failure: str | None = None


def _check_torch_version(found: str) -> None:
    """Raise if the C++ library was built for a different minor version of torch, whose ABI differs."""
    built, running = (".".join(version.split(".")[:2]) for version in (_BUILT_FOR, found))
    if built != running:
        raise ImportError(
            f"mpsx {__version__} was built for torch {built}, and this is torch {found}. "
            f"Either install torch {built} (pip install 'torch=={built}.*'), or rebuild mpsx for your torch: install "
            "cmake, ninja, cython, scikit-build-core and ziglang, and run in its source tree "
            "pip install --no-build-isolation --force-reinstall --no-deps ."
        )


def _claim_privateuse1() -> None:
    """Rename PyTorch's PrivateUse1 backend to mpsx. A process can have only one such backend."""
    import torch

    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", "mpsx"):
        raise ImportError(
            f"the backend {taken} already uses PrivateUse1, and PyTorch allows one such backend per process. To use "
            f"mpsx, uninstall {taken}, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import only mpsx."
        )
    torch.utils.rename_privateuse1_backend("mpsx")


def _read_tuning() -> dict[str, float]:
    """Return the numbers of the tuning file, when the driver starts."""
    from . import tuning

    return tuning.numbers()


def _load() -> None:
    import torch

    _check_torch_version(torch.__version__)
    from . import _runtime, device, fallback, integrations
    from .shader import kernel_library

    mode = fallback.mode_of(os.environ)  # raise on a bad value before the device exists
    _claim_privateuse1()
    _runtime.initialize(kernel_library.folder)
    _runtime.set_tuning_reader(_read_tuning)
    device.register()
    fallback.set_mode(mode)
    if os.environ.get("MPSX_SIMT_PROFILE"):
        from . import kernel_profile

        kernel_profile.configure(os.environ)
    integrations.register()
    from .device import mps_alias

    if os.environ.get(mps_alias.ENVIRONMENT) == "1":  # set by `python -m mpsx run` in the parent process
        mps_alias.enter()
    if os.environ.get("MPSX_STRICT", "0") not in ("", "0"):
        from . import strict

        strict.from_environment(os.environ)


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
    # A failure here must not break `import torch`.
    _failure = str(error)
    warnings.warn(f"The device mpsx is not available: {error}", stacklevel=2)
else:
    from . import fallback, profiler
    from ._runtime import driver
    from .device.mps_alias import as_mps
    from .device.views import cpu_view, device_view, from_mps, numpy_view, to_mps

    __all__ = [
        "__version__", "as_mps", "compile_shader", "cpu_view", "device_view", "driver", "fallback", "from_mps",
        "load_metallib", "numpy_view", "ops", "profiler", "strict", "to_mps",
    ]  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*globals(), *globals().get("__all__", ())})


def __getattr__(name: str) -> object:
    if _failure is not None and not name.startswith("__"):
        raise ImportError(f"mpsx.{name}: {_failure}")
    # Import on first use, to keep `import torch` fast.
    if name in ("ops", "strict"):
        return importlib.import_module(f".{name}", __name__)
    if name == "compile_shader":
        return importlib.import_module(".shader.library", __name__).compile_shader
    if name == "load_metallib":
        return importlib.import_module(".air.library", __name__).load_metallib
    raise AttributeError(f"module 'mpsx' has no attribute {name!r}")
