"""`python -m mpsx info`: print versions, the driver in use, and environment variables."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import torch

from .. import __version__, _build_info, _runtime, fallback, tuning
from ..msl.compiler import find_compiler
from ..msl.source import MslError

# Every environment variable that mpsx reads at run time.
VARIABLES = {
    "MPSX_DRIVER": "host, simt (checks kernels), metal or cuda (default: metal if there is a Metal device, else host)",
    "MPSX_VENDOR": "on or off: use CPU libraries for matmul, convolution and attention (default: on for host only)",
    "MPSX_GEMM": "onednn or mkl: the library for float32 matmul on the CPU (default: onednn for large matrices on CPUs "
                 "with AVX-512 that are not Intel's, otherwise mkl)",
    "MPSX_TIER": "simdgroup or tensor: the kernels of matmul, attention and conv (default: tensor on an M5 "
                 "and an H100)",
    "MPSX_TUNING": "0: ignore the file of `python -m mpsx tune`",
    "MPSX_SIMT_SEED": "simt: seed of the order in which threads run (default: random)",
    "MPSX_SIMT_THREADS": "simt: threads per threadgroup where the launch does not fix them, 1 to 1024",
    "MPSX_SIMT_LARGE_TILES": "simt: 0 chooses tensor-tier kernels as on an M5, 1 as on an H100 (default: 1)",
    "MPSX_SIMT_CORES": "simt: number of GPU cores to lay out work for (default: 16)",
    "MPSX_SIMT_PROFILE": "simt: 1 prints a profile of every kernel at exit; a file name writes it there as JSON",
    "MPSX_METAL_EXACT_BUFFERS": "1: one Metal buffer per tensor, for shader validation",
    "MPSX_METAL_DEBUG": "1: one command buffer per kernel, to name the kernel in GPU errors",
    "MPSX_METAL_ARCHIVE": "0: do not cache compiled pipelines on disk",
    "MPSX_METAL_SERIAL": "1: run kernels one after another, to see whether overlapping them causes an error",
    "MPSX_CUDA_DEVICE": "cuda: index of the GPU (default: 0)",
    "MPSX_CUDA_DEBUG": "1: wait for each kernel, to name the kernel in GPU errors",
    "MPSX_CUDA_THREADS": "cuda: threads per threadgroup where the launch does not fix them, 1 to 1024",
    "MPSX_CUDA_EXACT_BUFFERS": "1: one allocation per tensor, not accessible from the CPU, for compute-sanitizer",
    "MPSX_CUDA_LINE_INFO": "1: let Nsight Compute and compute-sanitizer show lines of Metal source",
    "MPSX_CUDA_CACHE": "0: do not cache compiled CUDA kernels on disk",
    "MPSX_ISA": "kernel library of the host driver (default: the best for this CPU); `all` builds all of them",
    "MPSX_FALLBACK": "warn, silent or error: policy for operators without a kernel (default: warn)",
    "PYTORCH_ENABLE_MPS_FALLBACK": "PyTorch's variable, used if MPSX_FALLBACK is not set: 0 means error, 1 warn",
    "MPSX_INTEGRATIONS": "0: do not patch other libraries",
    "MPSX_AS_MPS": "1: name the device mps, as `python -m mpsx run` does",
    "MPSX_STRICT": "1: reject what PyTorch's MPS rejects, as `python -m mpsx run --strict`; report: list it at exit",
    "MPSX_STRICT_REPORT": "file for the report of MPSX_STRICT=report, as JSON",
    "MPSX_CACHE_DIR": "cache folder of compiled kernels (default: $XDG_CACHE_HOME/mpsx, else ~/.cache/mpsx)",
    "MPSX_CACHE_SIZE": "its maximum size in bytes (default: 1 GiB)",
    "MPSX_SHADER_TIMEOUT": "time limit of the shader compiler in seconds (default: 120; 0: none)",
    "MPSX_KERNEL_CXX": "shader compiler (default: clang of ziglang, clang++, g++)",
    "MPSX_KERNEL_MACHINE": "processor family to compile kernels for (default: this machine's)",
    "MPSX_MEMORY_LIMIT": "limit of reserved memory: 2000000000, 2e9, 2G (default: from the high watermark)",
    "PYTORCH_MPS_HIGH_WATERMARK_RATIO": "PyTorch's: fraction of the device's memory that may be reserved; 0: no limit",
    "PYTORCH_MPS_LOW_WATERMARK_RATIO": "PyTorch's: fraction above which cached memory is released",
    "PYTORCH_MPS_FAST_MATH": "PyTorch's: set, and not 0: compile user shaders with fast-math on the metal driver",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "PyTorch's: 0 stops `import torch` from loading mpsx",
}

CHECKS = "bounds, barriers, and races in threadgroup memory and device memory"

Section = list[tuple[str, str]]


def _bytes(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.2f} MiB"


def version() -> str:
    """Return the versions of mpsx and torch in one line."""
    return f"mpsx {__version__}, torch {torch.__version__} (built for {_build_info.TORCH_VERSION})"


def package() -> Section:
    """List versions and compilers."""
    return [
        ("mpsx", f"{__version__}, in {Path(__file__).parent.parent}"),
        ("torch", f"{torch.__version__}; built for {_build_info.TORCH_VERSION}"),
        ("python", f"{platform.python_version()} on {platform.platform()}"),
        ("C++ compiler", f"{_build_info.CXX_COMPILER}, when mpsx was built"),
        ("kernel compiler", _kernel_compiler()),
    ]


def _kernel_compiler() -> str:
    """Describe the compiler used at run time by compile_shader, torch.compile, and the simt driver."""
    try:
        return find_compiler().description
    except MslError as error:
        return f"none: {error}"


def start_error() -> str:
    """Return the error that prevents the driver from starting, or "" if it starts."""
    try:
        _runtime.driver()
    except RuntimeError as error:
        return str(error)
    return ""


def driver() -> Section:
    """Describe the driver in use."""
    if start_error():
        return [("driver", f"does not start: {start_error()}")]
    info = _runtime.driver()
    installed = sorted(path.stem.removeprefix("libmpsx_kernels_") for path in _libraries().glob("libmpsx_kernels_*"))
    order = "asynchronous" if info["asynchronous"] else "synchronous: a launch returns when the kernel has finished"
    return [
        ("driver", info["name"]),
        ("device", info["device"]),
        ("kernels", f"{len(_runtime.kernel_names())}, compiled for {info['isa']} by {info['compiler']}"),
        ("libraries", ", ".join(installed) or "Metal only"),
        ("launches", order),
        ("tuning", tuning.description()),
        *([("checks", CHECKS)] if info["name"] == "simt" else []),
        ("memory", "shared with the CPU" if info["adopts_memory"] else "shared with the CPU, by handle"),
    ]


def memory() -> Section:
    """Describe the device's memory and the caching allocator's statistics."""
    if start_error():
        return [("total", "unknown")]
    info, found = _runtime.driver(), _runtime.memory()
    return [
        ("total", _bytes(info["total_memory"])),
        ("free", _bytes(info["free_memory"])),
        ("limit", _bytes(_runtime.memory_limit())),
        ("allocated", f"{_bytes(found['allocated'])} by tensors, {_bytes(found['reserved'])} reserved"),
    ]


def why_metal() -> str:
    """Explain why a Metal device is or is not in use."""
    if start_error():
        return f"not usable: {start_error()}"
    name = _runtime.driver()["name"]
    if name == "metal":
        return "in use"
    if platform.system() != "Darwin":
        system = platform.system()
        return f"not available: Metal needs macOS, and this is {system}; the {name} driver runs the kernels"
    if not _build_info.METAL_DRIVER:
        return f"not built: this installation has no Metal driver; the {name} driver runs the kernels"
    if os.environ.get("MPSX_DRIVER"):
        return f"not selected: MPSX_DRIVER={os.environ['MPSX_DRIVER']}"
    return f"not found: this process has no access to a Metal device; the {name} driver runs the kernels"


def metal() -> Section:
    """Report whether mpsx and `torch.backends.mps` can use Metal."""
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
    """Explain why an NVIDIA GPU is or is not in use."""
    if not start_error() and _runtime.driver()["name"] == "cuda":
        return "in use"
    if not (_libraries() / "mpsx.ptx").exists():
        return "not built: this installation has no kernels for NVIDIA GPUs"
    if why := _runtime.cuda_unavailable_reason():
        return f"not available: {why}"
    return "available: select it with MPSX_DRIVER=cuda"


def policy() -> Section:
    """Describe the policy for operators without a kernel."""
    return [("policy", fallback.mode()), ("so far", fallback.report().splitlines()[-1])]


def environment() -> Section:
    """List the environment variables with their values and meanings."""
    width = max(map(len, VARIABLES))
    return [(f"{name:<{width}}", os.environ.get(name, "-") + "   " + meaning) for name, meaning in VARIABLES.items()]


def _libraries() -> Path:
    return Path(__file__).parent.parent / "lib"


def report() -> str:
    """Return all sections as text."""
    sections = {
        "Installation": package(), "Driver": driver(), "Memory": memory(), "Metal": metal(),
        "CUDA": [("NVIDIA GPU", why_cuda())], "Fallback": policy(),
        "Environment": environment(),
    }  # fmt: skip
    lines = []
    for title, rows in sections.items():
        lines += [title, *(f"  {name:<16} {value}" for name, value in rows), ""]
    return "\n".join(lines).rstrip()
