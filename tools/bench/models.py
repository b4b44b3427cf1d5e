"""Benchmark the models in tools/bench/zoo at their published sizes: AdamW training steps and inference.

`peak` measures resident memory in a separate process, and only during the steps. It writes to /proc/self/clear_refs to
reset Linux's high-water mark once the model is on its device.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from bench.zoo import ZOO

Run = Callable[[], object]
PHASES = {"train": ("f32", "bf16"), "infer": ("f32",)}
STEPS = 3  # the first step creates the optimizer state


def call(name: str, phase: str, dtype: str, device: str, compiled: bool = False) -> Run:
    """Create a call that runs one step of `phase` at the model's published size. bf16 uses autocast. If `compiled`, the
    network and its loss are compiled."""
    model = ZOO[name]
    network = model.build(False).to(device).train(phase == "train")
    batch = {key: x.to(device) for key, x in model.batch(False).items()}
    autocast = partial(torch.autocast, device, torch.bfloat16) if dtype == "bf16" else contextlib.nullcontext
    if phase == "infer":

        @torch.no_grad()
        def infer() -> torch.Tensor:
            with autocast():
                return model.predict(network, batch)

        return infer
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4)
    compute_loss = torch.compile(model.loss) if compiled else model.loss

    def step() -> None:
        optimizer.zero_grad()
        with autocast():
            loss = compute_loss(network, batch)
        loss.backward()
        optimizer.step()

    return step


def models(names: list[str]) -> dict[tuple[str, str, str], Callable[[str], Run]]:
    """Map (model, phase, dtype) to a function that creates the call to time on a device."""
    return {(name, phase, dtype): partial(call, name, phase, dtype)
            for name in names for phase, dtypes in PHASES.items() for dtype in dtypes}  # fmt: skip


def losses(name: str, device: str, steps: int = STEPS) -> list[float]:
    """Return the losses of the first training steps in float32, without dropout."""
    torch.manual_seed(0)
    model = ZOO[name]
    network = model.build(False).to(device).eval()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.train()
    batch = {key: x.to(device) for key, x in model.batch(False).items()}
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model.loss(network, batch)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def peak(name: str, phase: str, dtype: str, device: str) -> float:
    """Return the peak resident memory in MiB of a process that runs the call."""
    command = [sys.executable, "-m", __spec__.name, name, phase, dtype, device]
    tools = Path(__file__).resolve().parents[1]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, cwd=tools).stdout)


def most_resident() -> float:
    """Return this process's peak resident memory in MiB since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    """Measure the peak memory of one call. `peak` runs this function in a separate process."""
    name, phase, dtype, device = sys.argv[1:]
    torch.set_num_threads(2)
    run = call(name, phase, dtype, device)
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(STEPS):
        run()
    if device == "mpsx":
        torch.mpsx.synchronize()
    print(most_resident())


if __name__ == "__main__":
    main()
