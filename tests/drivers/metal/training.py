"""Train a model of the zoo on emulated Metal: `training.py MODEL OPTIMIZER [--count]`.

The optimizer is AdamW ("foreach" or "fused"), or "none". Prints a JSON object with the loss of a step, a hash of the
gradients and parameters after it, and counts. "chain" is the length of the longest chain of dispatches that depend on
each other. With --count, the model has its published size, the counts are those of the second step, and the emulation
does not run kernels, so the numbers mean nothing.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
from pathlib import Path

import torch

import mpsx

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

from bench.zoo import ZOO

COUNTS = ("dispatches", "barriers", "command_buffers")


def main(name: str, optimizer_kind: str, small: bool) -> None:
    """Train the model and print the results."""
    emulation = ctypes.CDLL(None)
    for count in (*COUNTS, "longest_chain"):
        getattr(emulation, f"mpsx_emulation_{count}").restype = ctypes.c_ulong
    mpsx.fallback.set_mode("error")
    if not small:
        emulation.mpsx_emulation_fail(b"execution", 0, 1 << 30)
    torch.manual_seed(1)
    model = ZOO[name]
    network = model.build(small).to("mpsx")
    batch = {key: x.to("mpsx") for key, x in model.batch(small).items()}
    optimizer = None
    if optimizer_kind != "none":
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, **{optimizer_kind: True})
    for _ in range(1 if small else 2):
        network.zero_grad()
        torch.mpsx.synchronize()
        before = [getattr(emulation, f"mpsx_emulation_{count}")() for count in COUNTS]
        emulation.mpsx_emulation_longest_chain()
        loss = model.loss(network, batch)
        loss.backward()
        if optimizer:
            optimizer.step()
        torch.mpsx.synchronize()
        after = [getattr(emulation, f"mpsx_emulation_{count}")() for count in COUNTS]
        chain = emulation.mpsx_emulation_longest_chain()
    digest = hashlib.sha256()
    for p in network.parameters():
        for x in (p, p.grad):
            if x is not None:
                digest.update(x.detach().cpu().numpy().tobytes())
    counts = {count: b - a for count, a, b in zip(COUNTS, before, after, strict=True)}
    print(json.dumps({"loss": loss.item(), "digest": digest.hexdigest(), "chain": chain, **counts}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "--count" not in sys.argv)
