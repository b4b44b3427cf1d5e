#!/usr/bin/env python3
"""Print the registers, spills, and instruction counts of kernels, using NVIDIA's assembler. Needs no GPU.

    pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm
    python tools/bench/gpu_code.py metal/elementwise/activation.metal 'gelu.*_dense_bf16'
    python tools/bench/gpu_code.py metal/norm/softmax.metal softmax_rows_f16 --code

An H100 issues 528 warp instructions per cycle and moves 1.7 KB per cycle. A kernel that executes more than 40
instructions for every 4 bytes that a thread reads or writes is therefore limited by instruction issue rather than
memory bandwidth.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from msl.compiler import TENSOR_FLAGS, find_compiler  # noqa: E402
from msl.passes.tensors import uses_tensors  # noqa: E402
from msl.ptx import nvidia_program, pack_files, unpack  # noqa: E402
from msl.translate import translate  # noqa: E402

INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", re.M)


def tool(name: str) -> str:
    """Return the path of one of NVIDIA's programs, or exit if it is not installed."""
    needed = "pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm"
    return nvidia_program(name) or sys.exit(f"gpu_code.py: no {name}: {needed}")


def kernels(source: Path, folder: Path) -> dict[str, str]:
    """Compile a Metal file, and return the PTX of each of its kernels."""
    compiler = find_compiler()
    paths, _ = translate(str(source), str(folder / "kernels.cpp"), [str(ROOT / "metal")], [], compiler.preprocessor(),
                         None, "kernels", str(ROOT), "cuda")  # fmt: skip
    for path in paths:
        tensors = TENSOR_FLAGS if uses_tensors(Path(path).read_text()) else []
        command = [*compiler.command, *compiler.flags("cuda"), *tensors, "-S", path, "-o", f"{path}.ptx"]
        subprocess.run(command, check=True)
    pack_files(folder / "library", paths, [f"{path}.ptx" for path in paths], compiler.description)
    return dict(unpack(folder / "library"))


def main() -> None:
    """Run the command-line interface."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("names", nargs="?", default="", help="regular expression of kernel names")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--code", action="store_true", help="print the instructions")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kernel, text in kernels(options.source, folder).items():
            if not re.search(options.names, kernel):
                continue
            ptx, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
            ptx.write_text(text)
            command = [tool("ptxas"), "-v", f"-arch={options.arch}", str(ptx), "-o", str(cubin)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{kernel}: {done.stderr}")
            command = [tool("nvdisasm"), "-c", str(cubin)]
            code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            counts = Counter(INSTRUCTION.findall(code))
            registers = re.search(r"Used (\d+) registers", done.stderr)[1]
            spilled = sum(map(int, re.findall(r"(\d+) bytes spill", done.stderr)))
            most = " ".join(f"{name} {n}" for name, n in counts.most_common(8))
            print(f"{kernel}: {registers} registers, {spilled} bytes spilled, {counts.total()} instructions ({most})")
            if options.code:
                print(code)


if __name__ == "__main__":
    main()
