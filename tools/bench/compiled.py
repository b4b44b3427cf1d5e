"""Benchmark training steps under torch.compile against eager ones, at the published sizes of the models.

    python tools/bench.py --section compile --only bert
    MPSX_DRIVER=cuda python tools/bench.py --section compile --against cuda --csv compile.csv

The network and its loss are compiled; AdamW is eager on both sides. With `--against cuda`, PyTorch's CUDA backend is
measured in the same way, eager and compiled by Inductor. The processes take turns (bench/worker.py). float32 runs
without TF32, and bfloat16 runs under autocast. A fallback raises an error on a GPU.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from bench.gpu_models import MODELS
from bench.models import call
from bench.worker import Worker, compare, serve, write_csv

ROUNDS, ROUND_SECONDS = 11, 0.3  # steps that wait for the CPU vary by 20% from round to round


def main(options: argparse.Namespace) -> None:
    """Run the selected models, then print and write the results."""
    devices = ["mpsx"] if options.against == "cpu" else ["mpsx", "cuda"]
    kinds = [(device, mode) for device in devices for mode in ("eager", "compiled")]
    fallback = "error" if options.against == "cuda" else "silent"
    workers = [Worker(__spec__.name, device, mode, fallback=fallback) for device, mode in kinds]
    rows: list[dict[str, Any]] = []
    print("model     type  " + "  ".join(f"{device} {mode}".rjust(13) for device, mode in kinds) + "  ratio (ms)")
    for name in MODELS:
        if options.only and not any(part in name for part in options.only):
            continue
        for dtype in [d for d in options.dtypes if d != "f16"]:
            try:
                times = compare(workers, ROUNDS, ROUND_SECONDS, name=name, phase="train", dtype=dtype)
            except RuntimeError as error:
                print(f"{name} {dtype} not measured: {error}", flush=True)
                continue
            ms = [round(1e3 * seconds, 2) for seconds in times]
            row = {f"{device} {mode}": t for (device, mode), t in zip(kinds, ms, strict=True)}
            rows.append({"model": name, "dtype": dtype, **row, "ratio": round(ms[1] / ms[0], 3)})
            print(f"{name:<9} {dtype:<5} " + "  ".join(f"{t:13.2f}" for t in ms) + f"  {ms[1] / ms[0]:.2f}", flush=True)
    write_csv(options.csv, rows)


if __name__ == "__main__":
    serve(sys.argv[1], partial(call, device=sys.argv[1], compiled=sys.argv[2] == "compiled"))
