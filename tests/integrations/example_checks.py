"""Features used by minGPT-ddp and by the T5 example in pytorch/examples. distributed_checks.py runs these checks."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from distributed_checks import DEVICE, check
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

VOCABULARY, LENGTH, WIDTH, LR, STEPS = 11, 6, 16, 1e-2, 4


class Block(nn.Module):
    """A transformer block with a float attention mask."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        # Omit biases. The exact gradient of a key bias is 0, so AdamW would amplify its rounding errors.
        self.attention = nn.MultiheadAttention(WIDTH, 2, bias=False, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=self.mask[: x.size(1), : x.size(1)], need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """A language model whose output layer is tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Parameter(torch.randn(1, LENGTH, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.position[:, : tokens.size(1)]
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten(), ignore_index=-1)


def _dataset() -> TensorDataset:
    tokens = torch.randint(0, VOCABULARY, (16, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    return TensorDataset(tokens[:, :-1], tokens[:, 1:])


def _optimizer(model: nn.Module) -> torch.optim.AdamW:
    norms = [p for name, p in model.named_parameters() if "norm" in name]
    others = [p for name, p in model.named_parameters() if "norm" not in name]
    groups = [{"params": norms, "weight_decay": 0.0}, {"params": others, "weight_decay": 0.1}]
    return torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95))


@functools.cache
def _expected() -> dict[str, torch.Tensor]:
    """Train on the full batches for two epochs in one CPU process."""
    model = Transformer()
    optimizer = _optimizer(model)
    for _ in range(2):
        for tokens, targets in DataLoader(_dataset(), batch_size=8):
            optimizer.zero_grad()
            model(tokens, targets).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return model.state_dict()


def _compare(state: dict[str, torch.Tensor], half: bool) -> None:
    """Compare with the CPU. With 16-bit gradients, allow AdamW's largest possible error: the learning rate per step."""
    rtol, atol = (0, STEPS * LR) if half else (1e-4, 1e-5)
    for name, value in _expected().items():
        torch.testing.assert_close(state[name].cpu(), value, rtol=rtol, atol=atol)


def _shared_folder() -> str:
    """Create a temporary folder and share its name with all ranks."""
    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder, 0)
    return folder[0]


class Trainer:
    """Trains for several epochs, and saves a snapshot after the first one."""

    def __init__(self, rank: int, amp: bool, snapshot: str) -> None:
        self.model, self.rank, self.amp, self.snapshot, self.epoch = Transformer().to(rank), rank, amp, snapshot, 0
        self.optimizer = _optimizer(self.model)
        self.scaler = torch.amp.GradScaler(DEVICE, enabled=amp)
        if Path(snapshot).exists():
            saved = torch.load(snapshot, map_location="cpu")
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.epoch = saved["epoch"]
        self.parallel = DistributedDataParallel(self.model, device_ids=[rank])
        sampler = DistributedSampler(_dataset(), shuffle=False)
        self.loader = DataLoader(_dataset(), 4, pin_memory=True, sampler=sampler, num_workers=1)

    def train(self, epochs: int) -> None:
        for epoch in range(self.epoch, epochs):
            self.loader.sampler.set_epoch(epoch)
            for tokens, targets in self.loader:
                with torch.amp.autocast(DEVICE, torch.float16, enabled=self.amp):
                    loss = self.parallel(tokens.to(self.rank), targets.to(self.rank))
                self.optimizer.zero_grad(set_to_none=True)
                self.scaler.scale(loss).backward()
                self.scaler.unscale_(self.optimizer)
                nn.utils.clip_grad_norm_(self.parallel.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
            if self.rank == 0 and epoch == 0:
                state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": 1}
                torch.save(state, self.snapshot)
        dist.barrier()


@check
def ddp_that_resumes(rank: int) -> None:
    """Train with and without autocast and loss scaling, then resume from the snapshot."""
    torch.accelerator.set_device_index(rank)
    for amp in (False, True):
        snapshot = f"{_shared_folder()}/snapshot.pt"
        whole = Trainer(rank, amp, snapshot)
        whole.train(2)
        resumed = Trainer(rank, amp, snapshot)
        assert resumed.epoch == 1
        resumed.train(2)
        state = {name: value.cpu() for name, value in resumed.model.state_dict().items()}
        _compare(state, amp)
        if not amp:  # a resumed run restarts with the initial loss scale
            assert all(torch.equal(state[name], value.cpu()) for name, value in whole.model.state_dict().items())


@check
def fsdp1_of_blocks(rank: int) -> None:
    """Wrap each block in FSDP1 with mixed precision and activation checkpointing. Save and load both kinds of state."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        CheckpointImpl,
        apply_activation_checkpointing,
        checkpoint_wrapper,
    )
    from torch.distributed.fsdp import FullStateDictConfig, MixedPrecision, ShardingStrategy, StateDictType
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    torch.accelerator.set_device_index(rank)
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    half = MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16)

    def wrapped(precision: MixedPrecision | None, strategy: ShardingStrategy) -> FSDP:
        model = FSDP(Transformer(), auto_wrap_policy=policy, mixed_precision=precision, sharding_strategy=strategy,
                     device_id=torch.accelerator.current_device_index(), limit_all_gathers=True,
                     use_orig_params=True)  # fmt: skip
        wrapper = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
        apply_activation_checkpointing(model, wrapper, check_fn=lambda module: isinstance(module, Block))
        return model

    def full_state(model: FSDP) -> dict[str, torch.Tensor]:
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(True, True)):
            state = model.state_dict()
        assert rank > 0 or all(value.device.type == "cpu" for name, value in state.items() if "mask" not in name)
        return {name.replace("_checkpoint_wrapped_module.", ""): value for name, value in state.items()}

    sampler = DistributedSampler(_dataset(), shuffle=False)
    for precision in (None, half):
        for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
            model = wrapped(precision, strategy)
            optimizer = _optimizer(model)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=100)
            total = torch.zeros(2).to(rank)
            for epoch in range(2):
                sampler.set_epoch(epoch)
                for tokens, targets in DataLoader(_dataset(), 4, pin_memory=True, sampler=sampler):
                    optimizer.zero_grad()
                    loss = model(tokens.to(rank), targets.to(rank))
                    loss.backward()
                    model.clip_grad_norm_(1.0)
                    optimizer.step()
                    total[0] += loss.item()
                    total[1] += len(tokens)
                scheduler.step()
            dist.all_reduce(total)
            assert total[1].item() == 32 and total[0].isfinite()
            state = full_state(model)
            if rank == 0:
                _compare(state, precision is not None)

    folder = _shared_folder()
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        saved = {"model": model.state_dict(), "optim": FSDP.optim_state_dict(model, optimizer)}
        dcp.save(saved, checkpoint_id=folder)
    other = wrapped(half, ShardingStrategy.SHARD_GRAD_OP)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other_optimizer = _optimizer(other)
    with FSDP.state_dict_type(other, StateDictType.SHARDED_STATE_DICT):
        loaded = {"model": other.state_dict()}
        dcp.load(loaded, checkpoint_id=folder)
        other.load_state_dict(loaded["model"])
    whole = FSDP.full_optim_state_dict(model, optimizer)
    scattered = FSDP.scatter_full_optim_state_dict(whole if rank == 0 else None, other)
    other_optimizer.load_state_dict(scattered)
    state, copied = full_state(model), full_state(other)
    assert all(torch.equal(copied[name], value) for name, value in state.items())
    again = FSDP.full_optim_state_dict(other, other_optimizer)
    if rank == 0:
        for name, values in whole["state"].items():
            for key, value in values.items():
                torch.testing.assert_close(again["state"][name][key], value, rtol=0, atol=0)
