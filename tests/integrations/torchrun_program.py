"""Tutorial-style training with DDP, FSDP2, and FSDP2 plus tensor parallelism. torchrun starts it in two processes."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint.state_dict as checkpoint
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.query, self.key, self.value = (nn.Linear(32, 32, bias=False) for _ in range(3))
        self.out = nn.Linear(32, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [layer(self.norm(x)).unflatten(-1, (4, -1)).transpose(1, 2)
                 for layer in (self.query, self.key, self.value)]  # fmt: skip
        attended = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return x + self.out(attended.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 32)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(32, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(model: nn.Module, device: torch.device, steps: int = 6) -> None:
    """Train for a few steps and check that the loss decreases."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    tokens = (torch.arange(24).view(2, 12) % 16).to(device)
    losses = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses


def ddp(device: torch.device) -> None:
    model = DistributedDataParallel(Model().to(device), device_ids=[device.index])
    train(model, device)


def fsdp2(device: torch.device) -> None:
    with torch.device("meta"):
        model = Model()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.blocks[0].set_modules_to_forward_prefetch([model.blocks[1]])
    model.blocks[1].set_modules_to_backward_prefetch([model.blocks[0]])
    model.to_empty(device=device)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    train(model, device)
    options = checkpoint.StateDictOptions(full_state_dict=True, cpu_offload=True)
    full = checkpoint.get_model_state_dict(model, options=options)
    options = checkpoint.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    checkpoint.set_model_state_dict(model, full, options=options)


def tensor_parallel(device: torch.device) -> None:
    mesh = init_device_mesh(device.type, (1, 2), mesh_dim_names=("data", "model"))
    torch.manual_seed(0)
    model = Model().to(device)
    parallelize_module(model, mesh["model"], {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    })  # fmt: skip
    for block in model.blocks:
        plan = {name: ColwiseParallel(use_local_output=False) for name in ("query", "key", "value")}
        parallelize_module(block, mesh["model"], plan | {
            "norm": SequenceParallel(),
            "out": RowwiseParallel(output_layouts=Shard(1)),
        })  # fmt: skip
    fully_shard(model, mesh=mesh["data"])
    train(model, device)


def main() -> None:
    if torch.accelerator.device_count() < 2:
        sys.exit("needs two devices")
    rank = int(os.environ["LOCAL_RANK"])
    torch.accelerator.set_device_index(rank)
    device = torch.device(torch.accelerator.current_accelerator().type, rank)
    dist.init_process_group(dist.get_default_backend_for_device(device), device_id=device)
    for part in (ddp, fsdp2, tensor_parallel):
        part(device)
        if rank == 0:
            print(part.__name__, "ok", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
