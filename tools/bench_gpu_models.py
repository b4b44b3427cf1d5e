"""Models on an NVIDIA GPU: a step on mpsx's cuda driver beside torch's own CUDA eager, and the losses of training.

    MPSX_DRIVER=cuda python tools/bench.py --section models --against cuda --csv models.csv --table models.md

Each device has a process of its own, and they take turns: autograd of one process knows one accelerator. float32 is
without TF32, bfloat16 is autocast, and an operator that falls back is an error. Losses are those of three steps of
AdamW in float32 without dropout, for which every device draws numbers of its own.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import torch
from bench_models import call, losses

MODELS = ("resnet50", "bert", "vgg16", "gpt2", "llama")
CALLS = [(phase, dtype) for phase in ("train", "infer") for dtype in ("f32", "bf16")]
ROUNDS, ROUND_SECONDS = 3, 0.15


class Worker:
    """A process that makes calls on one device."""

    def __init__(self, device: str) -> None:
        environment = os.environ | {"MPSX_FALLBACK": "error"}
        if device != "mpsx":
            environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        command = [sys.executable, __file__, device]
        self.process = subprocess.Popen(command, env=environment, text=True, bufsize=1, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)  # fmt: skip

    def ask(self, **request: Any) -> Any:
        """The answer to a request; RuntimeError with its words where it failed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline() or '{"error": "the process ended"}')
        if isinstance(answer, dict):
            raise RuntimeError(answer["error"])
        return answer


def serve(device: str) -> None:
    """The process of a Worker."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    run = None

    def wait() -> None:
        if device != "cpu":
            torch.get_device_module(device).synchronize()

    def answer(request: dict[str, Any]) -> Any:
        nonlocal run
        if "count" not in request:
            run = None
            if device != "cpu":
                torch.get_device_module(device).empty_cache()
            if "losses" in request:
                return losses(request["losses"], device)
            run = call(request["name"], request["phase"], request["dtype"], device)
            for _ in range(3):  # the first compile, choose algorithms, make the optimiser's state
                run()
        wait()
        start = time.perf_counter()
        for _ in range(request.get("count", 1)):
            run()
        wait()
        return (time.perf_counter() - start) / request.get("count", 1)

    for line in sys.stdin:
        try:
            print(json.dumps(answer(json.loads(line))), flush=True)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}), flush=True)


def compare(workers: list[Worker], name: str, phase: str, dtype: str) -> list[float]:
    """Median milliseconds a call of each worker, in turns."""
    counts = [max(1, int(ROUND_SECONDS / w.ask(name=name, phase=phase, dtype=dtype))) for w in workers]
    times = [[w.ask(count=n) for w, n in zip(workers, counts, strict=True)] for _ in range(ROUNDS)]
    return [1e3 * statistics.median(column) for column in zip(*times, strict=True)]


def main(options: argparse.Namespace) -> None:
    """Measures, prints, writes."""
    names = [n for n in MODELS if not options.only or any(part in n for part in options.only)]
    mpsx, cuda = workers = [Worker("mpsx"), Worker("cuda")]
    rows: list[dict[str, Any]] = []
    lines = ["| model | phase | type | torch CUDA ms | mpsx ms | ratio |", "|---|---|---|--:|--:|--:|"]
    print("\n".join(lines), flush=True)
    for name in names:
        for phase, dtype in CALLS:
            try:
                ours, theirs = compare(workers, name, phase, dtype)
            except RuntimeError as error:
                print(f"{name} {phase} {dtype} not measured: {error}", flush=True)
                continue
            rows.append({"model": name, "phase": phase, "dtype": dtype, "cuda": round(theirs, 3),
                         "mpsx": round(ours, 3), "ratio": round(ours / theirs, 3)})  # fmt: skip
            lines.append(f"| {name} | {phase} | {dtype} | {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f} |")
            print(lines[-1], flush=True)
    lines += ["", "| model | losses on the CPU | on mpsx | on torch CUDA |", "|---|---|---|---|"]
    print("\n".join(lines[-3:]), flush=True)
    workers = [Worker("cpu"), mpsx, cuda]
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
    if options.csv and rows:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    serve(sys.argv[1])
