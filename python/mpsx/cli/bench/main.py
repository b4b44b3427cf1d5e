"""The command line of `python -m mpsx bench`. Starts the worker processes and prints the speedups."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from ... import __version__, _runtime
from ..demo.main import missing_packages
from ..progress import Progress
from .models import SIZES, TITLES

WORKER = Path(__file__).with_name("worker.py")
PHASES = ("training", "evaluation")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser."""
    parser.add_argument("--quick", action="store_true", help="small batches and images, for a CPU with 8 GiB of memory")
    parser.add_argument("--size", choices=SIZES, help=argparse.SUPPRESS)  # "tiny" is for tests
    parser.add_argument("--models", nargs="+", choices=TITLES, default=list(TITLES), help="models (default: all)")
    parser.add_argument("--steps", type=int, help="measured steps (default: 10; with --quick 3)")
    parser.add_argument("--seconds", type=float, default=0, metavar="S",
                        help="measure two steps, and more until S seconds are over (default: no limit)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(),
                        help="CPU threads of every process (default: PyTorch's, %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every step's time to FILE")
    parser.add_argument("--output", type=Path, default=Path("mpsx-bench.png"), metavar="FILE",
                        help="PNG file to write (default: mpsx-bench.png)")  # fmt: skip


def devices() -> dict[str, str]:
    """Return the devices to measure, mapped to their names in the chart."""
    found = {"mpsx": f"mpsx, driver {_runtime.driver()['name']}"}
    if torch.backends.mps.is_available() and not torch.mpsx.is_mps():
        found["mps"] = "PyTorch mps"
    if torch.cuda.is_available():
        found["cuda"] = "PyTorch cuda"
    return found


def machine(threads: int) -> str:
    """Name the device in use and the CPU."""
    info, table = _runtime.driver(), Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.+)$", table.read_text() if table.exists() else "", re.MULTILINE)
    cpu = found[1] if found else platform.processor() or platform.machine()
    return f"{info['name']}: {info['device']}; CPU: {threads} threads of {cpu}"


def measure(model: str, size: str, device: str, threads: int, counts: tuple[int, int], limit: float,
            progress: Progress) -> dict[str, list[float]]:  # fmt: skip
    """Run a worker. For each phase, return the time of every measured step in seconds."""
    command = [sys.executable, str(WORKER), model, size, device, *map(str, (threads, *counts, limit))]
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if device == "mpsx" else "0"}
    environment.pop("MPSX_AS_MPS", None)
    found: dict[str, list[float]] = {phase: [] for phase in PHASES}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        for line in process.stdout:
            step = json.loads(line)
            progress.show(f"{TITLES[model]} {step['phase']} on {device}")
            if not step["warmup"]:
                found[step["phase"]].append(step["seconds"])
        errors = process.stderr.read()
    if process.returncode:
        raise RuntimeError(f"{TITLES[model]} on {device}: {errors.strip().splitlines()[-1] if errors else 'stopped'}")
    return found


def speedup(base: list[float], times: list[float]) -> dict[str, float]:
    """Return the median speedup and the speedups of the slowest and fastest steps."""
    middle = statistics.median(base)
    return {"median": middle / statistics.median(times), "low": middle / max(times), "high": middle / min(times)}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure every model on every device."""
    size = arguments.size or ("quick" if arguments.quick else "full")
    steps = arguments.steps or (10 if size == "full" else 3)
    names = devices()
    warmups = dict.fromkeys(["cpu", *names], 1 if size != "full" else 2) | {"cpu": 1}
    progress = Progress(len(arguments.models) * len(PHASES) * (sum(warmups.values()) + steps * len(warmups)))
    seconds = {}
    for model in arguments.models:
        for device, warmup in warmups.items():
            counts = (warmup, steps)
            found = measure(model, size, device, arguments.threads, counts, arguments.seconds, progress)
            seconds |= {f"{model} {phase} {device}": times for phase, times in found.items()}
    progress.close()
    keys = [(f"{model} {phase}", device) for model in arguments.models for phase in PHASES for device in names]
    speedups = {f"{key} {device}": speedup(seconds[f"{key} cpu"], seconds[f"{key} {device}"]) for key, device in keys}
    shape = SIZES[size]
    small = "" if size == "full" else f"--{size}: smaller than the published sizes; "
    return {
        "date": datetime.date.today().isoformat(), "mpsx": __version__, "torch": torch.__version__,
        "machine": machine(arguments.threads), "platform": platform.platform(),
        "size": size, "image": shape.image, "words": shape.words,
        "caption": f"{small}images {shape.image} x {shape.image}, {shape.words} words, float32; mpsx {__version__}, "
                   f"torch {torch.__version__}, {datetime.date.today().isoformat()}",
        "models": arguments.models, "batches": {model: shape.batches[model] for model in arguments.models},
        "devices": list(names), "names": names, "steps": steps, "seconds": seconds, "speedups": speedups,
    }  # fmt: skip


def table(results: dict[str, Any]) -> str:
    """Format the results as text."""
    header = "".join(f"{device + ' ms':>12}{'speedup':>9}" for device in results["devices"])
    lines = [f"{'':<24}{'CPU ms':>10}{header}"]
    for model in results["models"]:
        for phase in PHASES:
            key = f"{model} {phase}"
            cells = f"{1e3 * statistics.median(results['seconds'][f'{key} cpu']):>10.1f}"
            for device in results["devices"]:
                cells += f"{1e3 * statistics.median(results['seconds'][f'{key} {device}']):>12.1f}"
                cells += f"{results['speedups'][f'{key} {device}']['median']:>9.2f}"
            lines.append(f"{TITLES[model] + ', ' + phase:<24}{cells}")
    return "\n".join(lines)


def main(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    try:
        results = run(arguments)
    except RuntimeError as error:
        print(f"python -m mpsx bench: {error}", file=sys.stderr)
        return 1
    print(f"{results['machine']}\n{results['caption']}\n\n{table(results)}\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
        print(f"Wrote {arguments.json}")
    if "matplotlib" in missing_packages():
        print("The chart needs matplotlib: pip install matplotlib", file=sys.stderr)
        return 2
    from .picture import draw

    draw(results, arguments.output)
    print(f"Wrote {arguments.output}")
    return 0
