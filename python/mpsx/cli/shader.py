"""`python -m mpsx shader file.metal`: check a Metal source file, list its kernels, or run one of them.

The command can also list and run the kernels of a metallib (metallib.py)."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from .. import _runtime, profiler
from . import metallib

if TYPE_CHECKING:
    from ..kernel_profile import KernelProfile

EXAMPLE = """\
python -m mpsx shader axpy.metal                    check the file, list kernels and buffers
python -m mpsx shader axpy.metal --run axpy --arg y.npy --arg ones:float32:100 --arg 2.5 --out y.npy
python -m mpsx shader axpy.metal --run axpy --arg y.npy --arg ones:float32:100 --arg 2.5 --profile
python -m mpsx shader mlx.metallib --match 'v_*'   list kernels that Apple's compiler compiled

An argument is a .npy file; KIND:TYPE:SHAPE, where KIND is zeros, ones, arange, rand or randn, and SHAPE is like 100 or
4x25; a number, passed as float or long; or TYPE:NUMBER. Arguments are in buffer order.
"""
UNCHECKED = ("The host driver does not check memory accesses. --driver simt does, and also finds missing barriers and "
             "races.")  # fmt: skip
KINDS = {
    "zeros": torch.zeros,
    "ones": torch.ones,
    "arange": lambda shape, dtype: torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype),
    "rand": lambda shape, dtype: torch.rand(shape).to(dtype),
    "randn": lambda shape, dtype: torch.randn(shape).to(dtype),
}
ALIASES = {"half": "float16", "float": "float32", "int": "int32", "long": "int64", "short": "int16", "char": "int8",
           "uchar": "uint8", "ushort": "uint16", "uint": "uint32", "ulong": "uint64", "fp16": "float16",
           "bf16": "bfloat16", "bfloat": "bfloat16", "fp32": "float32"}  # fmt: skip
CASTS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLE
    parser.add_argument("file", type=Path, help="Metal source, or a metallib")
    parser.add_argument("--match", default="*", metavar="PATTERN",
                        help="list only kernels of a metallib whose names match")
    parser.add_argument("-I", dest="include", action="append", default=[], metavar="DIR", help="include path")
    parser.add_argument("--profile", nargs="?", const="text", choices=("text", "json", "source"),
                        help="with --run: count the kernel's memory accesses on the simt driver; print them as text "
                             "(default), as JSON, or next to the source")
    parser.add_argument("--driver", choices=("host", "simt", "metal", "cuda"),
                        help="driver (default: $MPSX_DRIVER, else metal if available, else host); simt checks bounds, "
                             "barriers, and races")
    parser.add_argument("--run", metavar="KERNEL", help="run this kernel")
    parser.add_argument("--arg", action="append", default=[], metavar="ARG", help="a kernel argument; see below")
    parser.add_argument("--threads", type=_size, metavar="X[,Y[,Z]]", help="grid (default: size of the first array)")
    parser.add_argument("--group", type=_size, metavar="X[,Y[,Z]]", help="threads per threadgroup (default: automatic)")
    parser.add_argument("--constant", action="append", default=[], metavar="NAME=VALUE",
                        help="value of a function constant, by name or index; separate a vector's elements by commas")
    parser.add_argument("--threadgroup-memory", action="append", default=[], metavar="[INDEX:]BYTES",
                        help="size of a [[threadgroup(n)]] argument (default index: 0)")
    parser.add_argument("--error-buf-idx", type=int, metavar="N", help="index of the buffer for TORCH_REPORT_ERROR")
    parser.add_argument("--seed", type=int, default=0, help="seed of rand and randn (default: 0)")
    parser.add_argument("--out", action="append", default=[], metavar="[INDEX:]FILE",
                        help="write an argument to a .npy file after the run (default index: 0)")  # fmt: skip


def _size(text: str) -> tuple[int, ...]:
    numbers = tuple(int(word) for word in text.split(","))
    if not 1 <= len(numbers) <= 3:
        raise argparse.ArgumentTypeError(f"expected one to three numbers, got {text!r}")
    return numbers


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, ALIASES.get(name, name), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"expected an element type such as float32, float16, bfloat16 or int32, got {name!r}")
    return found


def _number(text: str) -> float | int:
    if text in ("true", "false"):
        return int(text == "true")
    try:
        return int(text, 0)
    except ValueError:
        return float(text)


def parse_argument(text: str) -> tuple[torch.Tensor | float | int, str | None]:
    """Parse an --arg option. Return its value and, for a number, the Metal type to pass it as."""
    if text.endswith(".npy"):
        import numpy as np

        return torch.from_numpy(np.load(text)), None
    fields = text.split(":")
    try:
        if fields[0] in KINDS and len(fields) == 3:
            shape = tuple(int(n) for n in fields[2].split("x"))
            return KINDS[fields[0]](shape, dtype=_dtype(fields[1])), None
        if len(fields) == 2:
            name = str(_dtype(fields[0])).removeprefix("torch.")
            return _number(fields[1]), CASTS.get(name, name)
        if len(fields) == 1:
            return _number(text), None
    except ValueError as error:
        raise ValueError(f"--arg {text}: {error}") from None
    raise ValueError(f"--arg {text}: expected file.npy, KIND:TYPE:SHAPE with KIND one of {', '.join(KINDS)}, a number, "
                     "or TYPE:NUMBER")  # fmt: skip


def listing(kernels: list[dict]) -> str:
    """List the kernels and their buffers as text."""
    lines = []
    for kernel in kernels:
        lines.append(f"{kernel['name']}    {kernel['location']}")
        for buffer in kernel["buffers"]:
            kind = "threadgroup" if buffer["space"] == "threadgroup" else "buffer"
            lines.append(f"    {kind} {buffer['index']}: {buffer['text']}")
        for constant in kernel["constants"]:
            needed = "" if constant["required"] else ", optional"
            lines.append(f"    function constant {constant['index']}: {constant['type']} {constant['name']}{needed}")
    return "\n".join(lines) or "no kernels"


def _summary(index: int, tensor: torch.Tensor) -> str:
    values = tensor.flatten()[:8].tolist()
    shown = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values)
    more = ", …" if tensor.numel() > 8 else ""
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    return f"argument {index}: {str(tensor.dtype).removeprefix('torch.')} {shape}: {shown}{more}"


def parse_constants(texts: list[str]) -> dict[str | int, object]:
    """Parse the --constants options."""
    constants = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--constant {text}: expected NAME=VALUE")
        numbers = [_number(word) for word in value.split(",")]
        constants[int(name) if name.isdigit() else name] = numbers if len(numbers) > 1 else numbers[0]
    return constants


def run(arguments: argparse.Namespace, library: object) -> None:
    """Run the kernel, print the arguments that it changed, and write the --out files."""
    import numpy as np

    kernel = getattr(library, arguments.run)
    if arguments.constant:
        kernel = kernel.with_constants(parse_constants(arguments.constant))
    sizes = (text.rpartition(":") for text in arguments.threadgroup_memory)
    memory = {int(index or 0): int(size) for index, _, size in sizes}
    torch.manual_seed(arguments.seed)
    parsed = [parse_argument(text) for text in arguments.arg]
    values = [value.to("mpsx") if isinstance(value, torch.Tensor) else value for value, _ in parsed]
    casts = {i: cast for i, (_, cast) in enumerate(parsed) if cast}
    call = functools.partial(kernel, *values, threads=arguments.threads, group_size=arguments.group,
                             arg_casts=casts or None, error_buf_idx=arguments.error_buf_idx,
                             threadgroup_memory=memory or None)  # fmt: skip
    if arguments.profile:
        print_profile(arguments, profiler.profile_kernel(call))
    else:
        call()
    torch.accelerator.synchronize()
    after = {i: value.cpu() for i, value in enumerate(values) if isinstance(value, torch.Tensor)}
    for i, tensor in after.items():
        before = parsed[i][0]
        if not torch.equal(tensor.contiguous().view(torch.uint8), before.contiguous().view(torch.uint8)):
            print(_summary(i, tensor))
    for out in arguments.out:
        index, _, path = out.rpartition(":")
        argument = int(index or 0)
        if argument not in after:
            raise ValueError(f"--out {out}: expected the index of an array, but argument {argument} is not one")
        tensor = after[argument]
        np.save(path, (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy())


def print_profile(arguments: argparse.Namespace, profile: KernelProfile) -> None:
    """Print the profile in the format that --profile selects."""
    if arguments.profile == "source":
        print(profile.annotated(str(arguments.file), arguments.file.read_text()))
    else:
        print(profile.json() if arguments.profile == "json" else profile.text())


def read_source(path: Path) -> str:
    """Return the text of a Metal source file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected Metal source in UTF-8, or a metallib: {error}") from None


def main(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    if arguments.driver or arguments.profile:
        os.environ["MPSX_DRIVER"] = arguments.driver or "simt"
    from ..shader import kernel_library
    from ..shader import library as shader_library

    kernel_library.shaders_only = True
    try:
        if arguments.run is None and (arguments.arg or arguments.out or arguments.profile):
            raise ValueError("--arg, --out and --profile need --run KERNEL")
        if metallib.is_metallib(arguments.file):
            library = metallib.load(arguments)
            if arguments.run is None:
                metallib.print_listing(arguments, library, listing)
            else:
                run(arguments, library)
            return 0
        source = read_source(arguments.file)
        includes = [str(arguments.file.parent), *arguments.include]
        library, kernels = shader_library.load_with_kernels(source, str(arguments.file), includes)
        if arguments.run is None:
            shader_library.compile_all(library)
            print(listing(kernels))
            count = f"{len(kernels)} kernel{'' if len(kernels) == 1 else 's'}"
            print(f"{arguments.file}: {count}, compiled for {_runtime.driver()['name']}, no errors")
        else:
            run(arguments, library)
            if _runtime.driver()["name"] == "host":
                print(UNCHECKED, file=sys.stderr)
    except SyntaxError as error:
        print(error.msg, file=sys.stderr)
        return 1
    except (OSError, RuntimeError, ValueError, AttributeError) as error:
        print(f"python -m mpsx shader: {error}", file=sys.stderr)
        return 1
    return 0
