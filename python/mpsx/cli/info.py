"""`python -m mpsx info`: what is installed, what it runs on, and what it listens to."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import torch

from .. import __version__, _build_info, _runtime, fallback

# Every environment variable that mpsx reads at run time.
VARIABLES = {
    "MPSX_DRIVER": "host, simt (checks kernels, though not for races in device memory), metal or cuda (default: metal "
                   "where there is a Metal device, else host)",
    "MPSX_VENDOR": "on or off: matrix products, convolution, attention by CPU libraries (default: on for host alone)",
    "MPSX_GEMM": "onednn or mkl: products of float32 matrices on the CPU (default: onednn unless MKL has AVX-512)",
    "MPSX_SIMT_SEED": "simt: the order in which threads run, a number of its own each process by default",
    "MPSX_SIMT_THREADS": "simt: threads of every threadgroup whose size is free, 1 to 1024",
    "MPSX_SIMT_PROFILE": "simt: 1 prints a profile of every kernel at the end, a file's name writes it there as JSON",
    "MPSX_METAL_EXACT_BUFFERS": "1: a Metal buffer a tensor, for shader validation",
    "MPSX_METAL_DEBUG": "1: a command buffer a kernel, so that an error of the GPU names the kernel",
    "MPSX_METAL_ARCHIVE": "0: compiled pipelines are not kept in the cache folder",
    "MPSX_CUDA_DEVICE": "cuda: the number of the GPU (default: 0)",
    "MPSX_CUDA_DEBUG": "1: waits for each kernel, so that an error of the GPU names the kernel",
    "MPSX_CUDA_THREADS": "cuda: threads of every threadgroup whose size is free, 1 to 1024",
    "MPSX_CUDA_EXACT_BUFFERS": "1: an allocation a tensor, which the CPU cannot touch, for compute-sanitizer",
    "MPSX_CUDA_CACHE": "0: compiled kernels of the cuda driver are not kept in the cache folder",
    "MPSX_ISA": "the kernel library of the host driver (default: the best this CPU runs); `all` builds every one",
    "MPSX_FALLBACK": "warn, silent or error: operators without a kernel (default: warn)",
    "PYTORCH_ENABLE_MPS_FALLBACK": "PyTorch's own switch, where MPSX_FALLBACK is not set: 0 means error, 1 warn",
    "MPSX_INTEGRATIONS": "0: other libraries are left as they are",
    "MPSX_AS_MPS": "1: the device goes by the name of mps, as in `python -m mpsx run`",
    "MPSX_CACHE_DIR": "where compiled shaders and kernels are kept (default: $XDG_CACHE_HOME/mpsx, else ~/.cache/mpsx)",
    "MPSX_CACHE_SIZE": "how many bytes of them (default: 1 GiB)",
    "MPSX_SHADER_TIMEOUT": "seconds after which a shader's compiler is stopped (default: 120; 0: no limit)",
    "MPSX_KERNEL_CXX": "the compiler of shaders (default: clang of ziglang, clang++, g++)",
    "MPSX_KERNEL_MACHINE": "the processor family to compile kernels for (default: this machine's)",
    "MPSX_MEMORY_LIMIT": "bytes that may be reserved: 2000000000, 2e9, 2G (default: what the high watermark allows)",
    "PYTORCH_MPS_HIGH_WATERMARK_RATIO": "the share of the device's memory that may be reserved; 0: all there is",
    "PYTORCH_MPS_LOW_WATERMARK_RATIO": "the share beyond which cached memory is given back",
    "PYTORCH_MPS_FAST_MATH": "PyTorch's: fast-math in shaders of users on the metal driver, unless it is 0",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "PyTorch's: 0 keeps `import torch` from loading mpsx",
}

CHECKS = "bounds, barriers, and races in threadgroup memory; races in device memory are not found"

Section = list[tuple[str, str]]


def _bytes(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.2f} MiB"


def package() -> Section:
    """Versions, and what built them."""
    return [
        ("mpsx", f"{__version__}, in {Path(__file__).parent.parent}"),
        ("torch", f"{torch.__version__}; built for {_build_info.TORCH_VERSION}"),
        ("python", f"{platform.python_version()} on {platform.platform()}"),
        ("C++ compiler", _build_info.CXX_COMPILER),
    ]


def trouble() -> str:
    """Why the driver does not start; empty: it does."""
    try:
        _runtime.driver()
    except RuntimeError as error:
        return str(error)
    return ""


def driver() -> Section:
    """The driver in use."""
    if trouble():
        return [("driver", f"does not start: {trouble()}")]
    info = _runtime.driver()
    installed = sorted(path.stem.removeprefix("libmpsx_kernels_") for path in _libraries().glob("libmpsx_kernels_*"))
    order = "asynchronous" if info["asynchronous"] else "synchronous: a kernel is done when its launch returns"
    return [
        ("driver", info["name"]),
        ("device", info["device"]),
        ("kernels", f"{len(_runtime.kernel_names())}, compiled for {info['isa']} by {info['compiler']}"),
        ("libraries", ", ".join(installed) or "Metal alone"),
        ("launches", order),
        *([("checks", CHECKS)] if info["name"] == "simt" else []),
        ("memory", "shared with the CPU" if info["adopts_memory"] else "shared with the CPU, by handle"),
    ]


def memory() -> Section:
    """The device's memory, and the caching allocator's part of it."""
    if trouble():
        return [("total", "unknown")]
    info, found = _runtime.driver(), _runtime.memory()
    return [
        ("total", _bytes(info["total_memory"])),
        ("free", _bytes(info["free_memory"])),
        ("limit", _bytes(_runtime.memory_limit())),
        ("allocated", f"{_bytes(found['allocated'])} by tensors, {_bytes(found['reserved'])} reserved"),
    ]


def why_metal() -> str:
    """Why a Metal device is, or is not, in use."""
    if trouble():
        return f"not usable: {trouble()}"
    name = _runtime.driver()["name"]
    if name == "metal":
        return "in use"
    if platform.system() != "Darwin":
        system = platform.system()
        return f"not here: Metal is a part of macOS, and this is {system}; the {name} driver runs the kernels"
    if not _build_info.METAL_DRIVER:
        return f"not built: this installation has no Metal driver; the {name} driver runs the kernels"
    if os.environ.get("MPSX_DRIVER"):
        return f"not chosen: MPSX_DRIVER={os.environ['MPSX_DRIVER']}"
    return f"not found: this Mac offers no Metal device to this process; the {name} driver runs the kernels"


def metal() -> Section:
    """Whether Metal can be used, as `torch.backends.mps` lets one tell."""
    mps = torch.backends.mps
    libraries = [name for name in ("mpsx.metallib", "mpsx.metal") if (_libraries() / name).exists()]
    built = "built" if _build_info.METAL_DRIVER else "not built"
    rows = [
        ("Metal device", why_metal()),
        ("mpsx", f"Metal driver {built}; {' and '.join(libraries) or 'no Metal library'}"),
        ("torch", f"torch.backends.mps.is_built(): {mps.is_built()}, is_available(): {mps.is_available()}"),
    ]
    if platform.system() == "Darwin":
        rows.append(("macOS", f"{platform.mac_ver()[0]}; xcrun {'found' if shutil.which('xcrun') else 'not found'}"))
    return rows


def why_cuda() -> str:
    """Why an NVIDIA GPU is, or is not, in use."""
    if not trouble() and _runtime.driver()["name"] == "cuda":
        return "in use"
    if not (_libraries() / "mpsx.ptx").exists():
        return "not built: this installation has no kernels for NVIDIA's GPUs"
    if why := _runtime.cuda_trouble():
        return f"not available: {why}"
    return "available: MPSX_DRIVER=cuda chooses it"


def policy() -> Section:
    """The policy for operators without a kernel."""
    return [("policy", fallback.mode()), ("so far", fallback.report().splitlines()[-1])]


def environment() -> Section:
    """The variables that are honoured, and their values."""
    width = max(map(len, VARIABLES))
    return [(f"{name:<{width}}", os.environ.get(name, "-") + "   " + meaning) for name, meaning in VARIABLES.items()]


def _libraries() -> Path:
    return Path(__file__).parent.parent / "lib"


def report() -> str:
    """All sections as text."""
    sections = {
        "Installation": package(), "Driver": driver(), "Memory": memory(), "Metal": metal(),
        "CUDA": [("NVIDIA GPU", why_cuda())], "Fallback": policy(),
        "Environment": environment(),
    }  # fmt: skip
    lines = []
    for title, rows in sections.items():
        lines += [title, *(f"  {name:<16} {value}" for name, value in rows), ""]
    return "\n".join(lines).rstrip()
