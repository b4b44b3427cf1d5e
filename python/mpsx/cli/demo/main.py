"""The command line of `python -m mpsx demo` and the results it prints."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ... import __version__, _runtime

if TYPE_CHECKING:
    from .training import Race

NEEDED = {"numpy": "numpy", "sklearn": "scikit-learn", "matplotlib": "matplotlib", "tqdm": "tqdm"}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser."""
    parser.add_argument("--model", choices=("resnet", "gpt"), default="resnet", help="model to train (default: resnet)")
    parser.add_argument("--steps", type=int, help="number of training steps (default: 300; gpt: 600)")
    parser.add_argument("--device", default="mpsx", help="device to train on (default: mpsx)")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="bfloat16 uses autocast (default: float32)")
    parser.add_argument("--output", type=Path, help="PNG file to write (default: mpsx-demo-MODEL.png)")
    parser.add_argument("--no-compare", action="store_true", help="do not train on the CPU for comparison")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, batches and test split (default: 0)")


def missing_packages() -> list[str]:
    """Return the required packages that are not installed."""
    return [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]


def device_line(device: str) -> str:
    """Describe the device in one line."""
    if torch.device(device).type != "mpsx":
        return f"{device} (PyTorch)"
    info = _runtime.driver()
    return f"mpsx on the driver {info['name']}: {info['device']}; kernels compiled by {info['compiler']}"


def main(arguments: argparse.Namespace) -> int:
    """Run the demo and return its exit status."""
    if missing := missing_packages():
        print(f"The demo needs {', '.join(missing)}: pip install 'mpsx[demo]'", file=sys.stderr)
        return 2
    if arguments.steps is not None and arguments.steps < 1:
        print(f"--steps: expected at least 1, got {arguments.steps}", file=sys.stderr)
        return 2

    from tqdm import tqdm

    from .picture import draw
    from .tasks import TASKS
    from .training import Run, race

    task = TASKS[arguments.model](arguments.seed)
    steps = arguments.steps or task.steps
    devices = [arguments.device]
    if not arguments.no_compare and torch.device(arguments.device).type != "cpu":
        devices.append("cpu")
    runs = [Run(task, device, DTYPES[arguments.dtype], steps, arguments.seed) for device in devices]
    parameters = sum(parameter.numel() for parameter in runs[0].model.parameters())
    optimizer = type(runs[0].optimizer).__name__

    print(f"mpsx {__version__}, torch {torch.__version__}")
    print(f"  device  {device_line(arguments.device)}")
    print(f"  task    {task.title}: {parameters:,} parameters")
    print(f"  data    {task.data}")
    print(f"  run     {steps} steps of {task.batch}, {optimizer}, {arguments.dtype}, seed {arguments.seed}")
    print(flush=True)

    with tqdm(total=steps, unit="step", desc=" and ".join(devices), dynamic_ncols=True) as bar:

        def progress(loss: float) -> None:
            bar.set_postfix_str(f"loss {loss:.4f}", refresh=False)
            bar.update()

        result = race(task, runs, steps, progress)

    picture = arguments.output or Path(f"mpsx-demo-{arguments.model}.png")
    draw(result, device_line(arguments.device), arguments.dtype, picture)
    print("\n" + "\n".join(report(result)))
    print(f"\nWrote {picture} after {result.seconds:.1f} s")
    return 0


def report(result: Race) -> list[str]:
    """Format the results as lines of text."""
    run, other = result.run, result.other
    runs = [run] if other is None else [run, other]
    lines = [f"{'':<16}" + "".join(f"{item.device.type:>12}" for item in runs)]
    table = [
        ("first loss", [f"{item.losses[0]:.4f}" for item in runs]),
        ("last loss", [f"{item.losses[-1]:.4f}" for item in runs]),
        (run.task.score_name, [item.score for item in runs]),
        ("median step", [f"{item.step_time * 1e3:.2f} ms" for item in runs]),
    ]
    lines += [f"{name:<16}" + "".join(f"{cell:>12}" for cell in cells) for name, cells in table]
    if other is not None:
        lines[-1] += f"   {run.step_time / other.step_time:.2f} times the CPU's"
        lines.append(f"Largest difference between the losses of a step: {result.difference:.2g}")
    if run.device.type == "mpsx":
        lines += ["", *routes(result)]
    if run.sample is not None:
        lines += ["", f"Text written by {run.device.type}:"]
        if other is not None:
            verdict = "the same text" if other.sample == run.sample else "a different text"
            lines[-1] = f"Text written by {run.device.type}; the CPU writes {verdict}:"
        lines += [textwrap.indent(run.sample, "    ")]
    return lines


def routes(result: Race) -> list[str]:
    """Count kernel launches and operator calls by route."""
    lines = [
        f"{'native':<10}{result.calls('native'):>9,} launches of {result.operators('native')} Metal kernels",
        f"{'vendor':<10}{result.calls('vendor'):>9,} calls of {result.operators('vendor')} operators "
        "in CPU libraries",
        f"{'fallback':<10}{sum(row.calls for row in result.fallbacks):>9,} calls"
        + "".join(f", {row.name}" for row in result.fallbacks),
    ]
    return lines
