"""Measure one model on one device in a separate process. Prints one line of JSON per step.

Run it as a script, not as a module of mpsx. With TORCH_DEVICE_BACKEND_AUTOLOAD=0, the process never loads mpsx.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch
from models import BUILD, SIZES, batch


def steps(name: str, size_name: str, device: str) -> dict[str, Callable[[], None]]:
    """Return the training step and the evaluation step."""
    torch.manual_seed(0)
    size = SIZES[size_name]
    network = BUILD[name](size.shrink).to(device)
    x, y = (part.to(device) for part in batch(name, size))
    optimizer = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9)

    def train() -> None:
        network.train()
        loss = torch.nn.functional.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def evaluate() -> None:
        network.eval()
        network(x)

    return {"training": train, "evaluation": evaluate}


def main() -> None:
    """Parse the command line (MODEL SIZE DEVICE THREADS WARMUP STEPS LIMIT) and measure."""
    name, size, device, *numbers, limit = sys.argv[1:]
    threads, warmup, count = map(int, numbers)
    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = False  # PyTorch's default rounds the inputs of float32 convolutions on CUDA
    wait = torch.accelerator.synchronize if device != "cpu" else lambda: None
    for phase, step in steps(name, size, device).items():
        begin = time.perf_counter()
        for i in range(warmup + count):
            start = time.perf_counter()
            if float(limit) and i >= warmup + 2 and start - begin > float(limit):
                break
            step()
            wait()
            seconds = time.perf_counter() - start
            print(json.dumps({"phase": phase, "warmup": i < warmup, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
