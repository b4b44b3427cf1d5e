"""The simt driver reports misuse of tensor operations (faults.metal)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import torch

import mpsx
from mpsx.shader import kernel_library

SOURCE = (Path(__file__).parent / "faults.metal").read_text()
FAULTS = [  # (kernel, threads, absent thread, rows of the left operand, message)
    ("simdgroup", 32, 5, 32, r"matmul2d::run: .*lane"),
    ("simdgroups", 64, 40, 32, r"threadgroup.*barrier|matmul2d::run"),
    ("simdgroups", 128, -1, 32, r"matmul2d::run: expected a threadgroup of 64 threads for execution_simdgroups<2>, "
                                r"got one of 128"),
    ("simdgroups", 32, -1, 32, r"matmul2d::run: expected a threadgroup of 64 threads"),
    ("simdgroups", 64, -1, 33, None),  # 33 rows, although the tile has only 32
    ("simdgroups", 64, -1, 20, None),
    ("window", 64, 3, 4, r"threadgroup.*barrier|convolution2d::run"),
    ("window", 96, -1, 4, r"convolution2d::run: expected a threadgroup of 64 threads"),
    ("window", 64, -1, 4, None),
]  # fmt: skip
LAYOUTS = {"open": 1024, "fragments": 2048, "many_fragments": 1536}  # kernel: elements


def line_of(kernel):
    """Return the number of the line in faults.metal that is marked as this kernel's fault."""
    return next(i for i, line in enumerate(SOURCE.splitlines(), 1) if line.endswith(f"// fault: {kernel}"))


def run_kernels():
    """Check the message of every fault, then print the results of the kernels in LAYOUTS."""
    lib = mpsx.compile_shader(SOURCE)
    a, b, c = (torch.zeros(n).to(t).to("mpsx") for n, t in ((512, torch.half), (512, torch.half), (1024, torch.float)))
    for name, threads, absent, rows, wanted in FAULTS:
        try:
            getattr(lib, name)(a, b, c, [absent, rows], arg_casts={3: "int32"}, threads=threads, group_size=threads)
            message = None
        except RuntimeError as error:
            message = str(error)
        context = f"{name}, {threads} threads, {absent} absent, {rows} rows: {message}"
        assert (message is None) == (wanted is None), context
        assert wanted is None or re.search(wanted, message), context
        assert message is None or "program_source:" in message, context
    # The operands' extents exceed their buffers. The message must name a line of the kernel, not of the standard
    # library.
    short_half, short_float = torch.zeros(320).half().to("mpsx"), torch.zeros(500).to("mpsx")
    for name, threads, operands, wanted in (
        ("simdgroups", 64, (short_half, b, c), "read of 2 bytes at byte \\d+ of buffer 0"),
        ("simdgroup", 32, (a, short_half, c), "read of 2 bytes at byte \\d+ of buffer 1"),
        ("thread", 1, (a, b, short_float), "write of 4 bytes at byte \\d+ of buffer 2"),
        ("window", 64, (a, b, short_float), "write of 4 bytes at byte \\d+ of buffer 2"),
        ("window_sum", 64, (a, b, short_float), "read of 4 bytes at byte \\d+ of buffer 2"),
    ):
        try:
            rows = 4 if name.startswith("window") else 32
            getattr(lib, name)(*operands, [-1, rows], arg_casts={3: "int32"}, threads=threads, group_size=threads)
            message = "no fault"
        except RuntimeError as error:
            message = str(error)
        line = line_of("window" if name.startswith("window") else "product")
        assert re.search(rf"out-of-bounds {wanted}.*, at program_source:{line},", message), (name, line, message)
    x, out = torch.arange(1024.0).to("mpsx"), torch.zeros(1024).to("mpsx")
    lib.past_capacity(x, out, [-1, 0], arg_casts={2: "int32"}, threads=32, group_size=32)
    try:
        lib.past_capacity(x, out, [0, 0], arg_casts={2: "int32"}, threads=32, group_size=32)
        message = "no fault"
    except RuntimeError as error:
        message = str(error)
    expected = rf"out-of-bounds index 32 of .*cooperative_tensor.*, at program_source:{line_of('past_capacity')},"
    assert re.search(expected, message), message
    for name, size in LAYOUTS.items():
        x, out = torch.arange(float(size)).to("mpsx"), torch.zeros(size).to("mpsx")
        getattr(lib, name)(x, out, threads=32, group_size=32)
        print(out.cpu().tolist())


def test_faults_and_layouts():
    """The seed selects among layouts that Metal leaves unspecified. Up to four fragments side by side do not depend on
    it."""
    results = []
    for seed in ("1", "2"):
        environment = os.environ | {"MPSX_DRIVER": "simt", "MPSX_SIMT_SEED": seed}
        run = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False,
                             timeout=600)  # fmt: skip
        assert run.returncode == 0, run.stderr[-3000:]
        results.append(run.stdout.splitlines())
    for (name, size), *elements in zip(LAYOUTS.items(), *results, strict=True):
        assert (elements[0] == elements[1]) == (name == "fragments"), name
        assert sorted(json.loads(elements[0])) == list(range(size)), name


if __name__ == "__main__":
    kernel_library.shaders_only = True
    run_kernels()
