"""A BERT trained by DistributedDataParallel, on mpsx and on the CPU's own tensors: loss curves.

    python tools/ddp_curves.py                                    # 1, 2 and 4 processes; writes tools/ddp_curves/
    torchrun --nproc-per-node 2 tools/ddp_curves.py --out x.json  # one of these
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

FOLDER = Path(__file__).parent / "ddp_curves"
BATCH, WORDS, LENGTH = 32, 200, 32


def model() -> torch.nn.Module:
    """A small BERT, without dropout, so that every run can be compared."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(3)
    config = BertConfig(vocab_size=WORDS, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=512, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
    return BertForSequenceClassification(config)


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sentences of made-up words, and whether word 7 is among the first four."""
    generator = torch.Generator().manual_seed(step)
    words = torch.randint(8, WORDS, (BATCH, LENGTH), generator=generator)
    labels = torch.randint(0, 2, (BATCH,), generator=generator)
    place = torch.randint(0, 4, (BATCH,), generator=generator)
    words[torch.arange(BATCH), place] = torch.where(labels == 1, 7, words[torch.arange(BATCH), place])
    return words, labels


def train(device: str, steps: int, rank: int, world: int) -> dict[str, Any]:
    """Each process takes its part of each batch; the loss is that of the whole."""
    network = torch.nn.parallel.DistributedDataParallel(model().to(device))
    optimizer = torch.optim.AdamW(network.parameters(), 5e-4)
    losses, times = [], []
    for step in range(steps):
        words, labels = (part[rank::world].to(device) for part in batch(step))
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = network(input_ids=words, labels=labels).loss
        loss.backward()
        optimizer.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole, dist.ReduceOp.AVG)
        losses.append(whole.item())
        times.append(time.perf_counter() - start)
    return {"losses": losses, "milliseconds": min(times[5:]) * 1e3}


def worker(out: str | None, steps: int) -> None:
    """Under torchrun."""
    torch.set_num_threads(1)
    dist.init_process_group()
    rank, world = dist.get_rank(), dist.get_world_size()
    results = {device: train(device, steps, rank, world) for device in (["cpu"] * (world == 1) + ["mpsx"])}
    if rank == 0:
        for device, result in results.items():
            print(f"{device}: fastest step {result['milliseconds']:.1f} ms", flush=True)
        if out:
            Path(out).write_text(json.dumps(results))
    dist.destroy_process_group()


def picture(runs: dict[int, dict[str, Any]]) -> None:
    """The curves."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    reference = runs[min(runs)]["cpu"]["losses"]
    left.plot(reference, color="black", linewidth=4, alpha=0.25, label="CPU, 1 process")
    for (world, run), style in zip(runs.items(), ("solid", "dashed", "dotted"), strict=True):  # they coincide
        label = f"mpsx, {world} process{'es' * (world > 1)}"
        (line,) = left.plot(run["mpsx"]["losses"], linestyle=style, label=label)
        difference = [abs(a - b) * 1e7 for a, b in zip(run["mpsx"]["losses"], reference, strict=True)]
        right.plot(difference, linewidth=1, color=line.get_color())
    left.set(xlabel="step", ylabel="loss of the whole batch")
    right.set(xlabel="step", ylabel="|mpsx − CPU in 1 process| / 10⁻⁷", ylim=0)  # many are zero
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(FOLDER / "losses.png", dpi=90)


def page(runs: dict[int, dict[str, Any]], steps: int) -> None:
    """The table."""
    lines = [
        "# A BERT under DistributedDataParallel", "",
        f"`python tools/ddp_curves.py --steps {steps}`: two layers of width 128, {BATCH} sentences of {LENGTH} words a",
        f"step, shared out among the processes of one machine with {os.cpu_count()} cores, each with one thread, on",
        "the driver host. Without dropout the loss must not depend on how many processes there are, nor on the device.",
        "",
        "![Loss curves](losses.png)", "",
        "| processes on mpsx | largest difference of losses from one process on the CPU |",
        "|---|---|",
    ]  # fmt: skip
    reference = runs[min(runs)]["cpu"]["losses"]
    for world, run in runs.items():
        difference = max(abs(a - b) for a, b in zip(run["mpsx"]["losses"], reference, strict=True))
        lines.append(f"| {world} | {difference:.1e} |")
    (FOLDER / "README.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    if "LOCAL_WORLD_SIZE" in os.environ:
        return worker(arguments.out, arguments.steps)
    runs = {}
    for world in (1, 2, 4):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)]
            subprocess.run([*words, __file__, "--steps", str(arguments.steps), "--out", file.name], check=True)
            runs[world] = json.loads(Path(file.name).read_text())
    FOLDER.mkdir(exist_ok=True)
    picture(runs)
    page(runs, arguments.steps)


if __name__ == "__main__":
    main()
