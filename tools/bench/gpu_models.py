"""Benchmark models on an NVIDIA GPU: compare step times and losses on mpsx's cuda driver and PyTorch's CUDA backend.

    MPSX_DRIVER=cuda python tools/bench.py --section models --against cuda --csv models.csv --table models.md

float32 runs without TF32, bfloat16 runs under autocast, and a fallback raises an error. The losses come from three
float32 AdamW steps without dropout, because random numbers differ between devices.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from bench.models import call, losses
from bench.worker import Worker, compare, serve, write_csv

MODELS = ("resnet50", "bert", "vgg16", "gpt2", "llama")
CALLS = [(phase, dtype) for phase in ("train", "infer") for dtype in ("f32", "bf16")]
ROUNDS, ROUND_SECONDS = 7, 0.2


def make(**request: Any) -> Any:
    """Return either a model's losses or the call to time, depending on the request."""
    if "losses" in request:
        return losses(request["losses"], request["device"])
    return call(**request)


def main(options: argparse.Namespace) -> None:
    """Run the selected benchmarks, then print and write the results."""
    names = [n for n in MODELS if not options.only or any(part in n for part in options.only)]
    mpsx, cuda = workers = [Worker(__spec__.name, "mpsx"), Worker(__spec__.name, "cuda")]
    rows: list[dict[str, Any]] = []
    lines = ["| model | phase | type | torch CUDA ms | mpsx ms | ratio |", "|---|---|---|--:|--:|--:|"]
    print("\n".join(lines), flush=True)
    for name in names:
        for phase, dtype in CALLS:
            try:
                times = compare(workers, ROUNDS, ROUND_SECONDS, name=name, phase=phase, dtype=dtype)
            except RuntimeError as error:
                print(f"{name} {phase} {dtype} not measured: {error}", flush=True)
                continue
            ours, theirs = (1e3 * seconds for seconds in times)
            rows.append({"model": name, "phase": phase, "dtype": dtype, "cuda": round(theirs, 3),
                         "mpsx": round(ours, 3), "ratio": round(ours / theirs, 3)})  # fmt: skip
            lines.append(f"| {name} | {phase} | {dtype} | {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f} |")
            print(lines[-1], flush=True)
    lines += ["", "| model | losses on the CPU | on mpsx | on torch CUDA |", "|---|---|---|---|"]
    print("\n".join(lines[-3:]), flush=True)
    workers = [Worker(__spec__.name, "cpu"), mpsx, cuda]
    for name in names:
        try:
            found = [" ".join(f"{loss:.5f}" for loss in w.ask(losses=name)) for w in workers]
        except RuntimeError as error:
            found = [f"not measured: {error}"]
        lines.append(f"| {name} | {' | '.join(found)} |")
        print(lines[-1], flush=True)
    if options.table:
        with open(options.table, "w") as file:
            file.write("\n".join(lines) + "\n")
    write_csv(options.csv, rows)


if __name__ == "__main__":
    serve(sys.argv[1], partial(make, device=sys.argv[1]))
