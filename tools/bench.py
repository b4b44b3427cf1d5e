#!/usr/bin/env python3
"""Benchmark mpsx's operators and training steps against PyTorch's. The runs are interleaved, in separate processes.

    python tools/bench.py                          operators, call overhead, small training steps (20 minutes)
    python tools/bench.py --only softmax --only layer_norm
    python tools/bench.py --section overhead       microseconds per call on ten elements
    python tools/bench.py --section demo training --json steps.json
    python tools/bench.py --section breadth --sizes 1e5 --threads 1        250 more operators, each in one layout
    python tools/bench.py --section models --only resnet50 --threads 2     published sizes (2 minutes per model)
    python tools/bench.py --section memory --only bert                     peak memory of one process per device, in KiB
    python tools/bench.py --sizes 1e5 --dtypes f32 bf16 --threads 1 --csv ops.csv --plot ops.png
    python tools/bench.py --section compile --only bert                    compiled models (bench/compiled.py)
    MPSX_DRIVER=cuda python tools/bench.py --against cuda                  on an NVIDIA GPU (bench/gpu.py; 4 minutes)
    MPSX_DRIVER=cuda python tools/bench.py --against cuda --section models     models on the GPU (bench/gpu_models.py)

A ratio is mpsx's time divided by PyTorch's. Below 1, mpsx is faster. bench/host.py describes how the CPU is measured.
"""

from __future__ import annotations

import argparse

from bench import compiled, gpu, gpu_models, host
from bench.cases import DTYPES, LAYOUTS


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--section", nargs="+", choices=[*host.SECTIONS, "compile"], default=["ops", "overhead", "training"]
    )
    parser.add_argument("--against", choices=["cpu", "cuda"], default="cpu", help="cuda: PyTorch's CUDA backend")
    parser.add_argument("--seconds", type=float, default=240, help="time limit of --against cuda")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="select names that contain this")
    parser.add_argument("--sizes", nargs="+", type=lambda text: int(float(text)), default=[10**3, 10**5, 10**7])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=["f32", "f16", "bf16"])
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--csv", metavar="FILE")
    parser.add_argument("--plot", metavar="FILE.png")
    parser.add_argument("--table", metavar="FILE.md", help="one line per operator")
    parser.add_argument("--read", nargs="+", default=[], metavar="FILE.csv", help="read the output of --csv")
    return parser.parse_args()


def main() -> None:
    """Run the selected benchmarks, then print and write the results."""
    options = parse()
    if options.section == ["compile"]:
        compiled.main(options)
    elif options.against == "cpu":
        host.main(options)
    else:
        (gpu_models if options.section == ["models"] else gpu).main(options)


if __name__ == "__main__":
    main()
