"""DDP and FSDP communication hooks on mpsx. distributed_checks.py runs these checks in two processes."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable

import torch
import torch.distributed as dist
from distributed_checks import DEVICE, _compare, _expected, _model, _train, check
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    debugging_hooks,
    default_hooks,
    optimizer_overlap_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from torch.nn.parallel import DistributedDataParallel


def _trained(register: Callable[[DistributedDataParallel], None], **options: object) -> dict[str, torch.Tensor]:
    """Train a model with a hook, check that both ranks have the same state, and return the state."""
    rank = dist.get_rank()
    model = DistributedDataParallel(_model().to(DEVICE), **options)
    register(model)
    _train(model, torch.optim.AdamW(model.parameters(), 1e-2), rank, 2, DEVICE)
    state = {name: value.detach().clone() for name, value in model.module.state_dict().items()}
    for value in state.values():
        assert value.device.type == "mpsx"
        copies = [torch.empty_like(value) for _ in range(2)]
        dist.all_gather(copies, value)
        assert torch.equal(copies[0].cpu(), copies[1].cpu())
    return state


def _trained_with(state: object, hook: Callable, **options: object) -> dict[str, torch.Tensor]:
    return _trained(lambda model: model.register_comm_hook(state, hook), **options)


def _compare_rounded(state: dict[str, torch.Tensor]) -> None:
    """Compare with a tolerance of lr: AdamW moves a weight by at most lr per step, even with 8- or 16-bit gradients."""
    for name, value in _expected().items():
        torch.testing.assert_close(state[name].cpu(), value, rtol=0, atol=1e-2)


@check
def hooks_that_compress(rank: int) -> None:
    compress = (default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook,
                default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook),
                default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook))  # fmt: skip
    for hook in compress:
        for options in ({}, {"gradient_as_bucket_view": True}):
            _compare_rounded(_trained_with(None, hook, **options))
    _compare(_trained_with(dist.group.WORLD, default_hooks.allreduce_hook))
    for wrapper in (default_hooks.fp16_compress_wrapper, default_hooks.bf16_compress_wrapper):
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        _trained_with(state, wrapper(powerSGD_hook.powerSGD_hook))


@check
def hooks_by_type(rank: int) -> None:
    for kind in DDPCommHookType:
        if kind is not DDPCommHookType.NOOP:  # the NOOP hook does not reduce gradients
            _trained(functools.partial(register_ddp_comm_hook, kind, state=dist.group.WORLD), bucket_cap_mb=1e-4)
    model = DistributedDataParallel(_model().to(DEVICE))
    model.register_comm_hook(None, debugging_hooks.noop_hook)
    _train(model, torch.optim.SGD(model.parameters(), 1e-2), rank, 2, DEVICE)
    for kind in (dist.BuiltinCommHookType.ALLREDUCE, dist.BuiltinCommHookType.FP16_COMPRESS):
        _compare_rounded(_trained(operator.methodcaller("_register_builtin_comm_hook", kind)))


@check
def hooks_with_optimizers(rank: int) -> None:
    state = post_localSGD_hook.PostLocalSGDState(None, None, start_localSGD_iter=10)
    _compare(_trained_with(state, post_localSGD_hook.post_localSGD_hook))
    from torch.distributed.optim import as_functional_optim

    functional = as_functional_optim(torch.optim.SGD, lr=1e-2)
    overlapped = optimizer_overlap_hooks._OptimizerHookState(functional)
    hook = optimizer_overlap_hooks._hook_then_optimizer(default_hooks.bf16_compress_hook, overlapped)
    model = DistributedDataParallel(_model().to(DEVICE))
    model.register_comm_hook(None, hook)
    before = model.module[0].weight.detach().cpu().clone()
    _train(model, torch.optim.SGD(model.parameters(), 0.0), rank, 2, DEVICE)
    assert not torch.equal(model.module[0].weight.detach().cpu(), before)


@check
def hooks_of_fsdp1(rank: int) -> None:
    from torch.distributed.algorithms._comm_hooks import default_hooks as hooks
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, StateDictType

    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.NO_SHARD):
        for hook in (hooks.fp16_compress_hook, hooks.bf16_compress_hook):
            model = FullyShardedDataParallel(_model().to(DEVICE), device_id=torch.device(DEVICE, 0),
                                             use_orig_params=True, sharding_strategy=strategy)  # fmt: skip
            model.register_comm_hook(hooks.LowPrecisionState(model.process_group), hook)
            _train(model, torch.optim.AdamW(model.parameters(), 1e-2), rank, 2, DEVICE)
            with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
                _compare_rounded(model.state_dict())


@check
def ddp_mixed_precision(rank: int) -> None:
    from torch.nn.parallel.distributed import _MixedPrecision

    if torch.__version__ < "2.13":  # before 2.13, mse_loss gradients cannot mix half and float
        return
    for dtype in (torch.float16, torch.bfloat16):
        options = {"mixed_precision": _MixedPrecision(param_dtype=dtype, reduce_dtype=dtype)}
        _trained(lambda model: None, **options)


@check
def ddp_sparse_gradients(rank: int) -> None:
    model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Flatten(), nn.Linear(8, 1))
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    tokens = torch.tensor([[1, 2], [2, 7], [0, 9], [2, 2]])
    model(tokens).mean().backward()
    expected = [parameter.grad.to_dense() for parameter in model.parameters()]
    model.zero_grad()
    parallel = DistributedDataParallel(model.to(DEVICE))
    parallel(tokens[rank::2].to(DEVICE)).mean().backward()
    for parameter, wanted in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad.to_dense().cpu(), wanted)
    total = torch.sparse_coo_tensor([[rank, 2]], [1.0, 2.0], (4,), device=DEVICE)
    dist.all_reduce(total)
    assert total.to_dense().tolist() == [1, 1, 4, 0]


@check
def ddp_sync_batch_norm(rank: int) -> None:
    """Compare with a single CPU process that normalizes the whole batch."""
    whole = torch.randn(6, 3, 5, 4, generator=torch.Generator().manual_seed(2)) * 3 + 1
    for layout in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)).to(DEVICE, memory_format=layout)
        parallel = DistributedDataParallel(model)
        parts = [whole[:4], whole[4:]]  # batch sizes may differ between ranks
        for _ in range(2):
            expected = plain(whole)
            expected.square().sum().backward()
            found = parallel(parts[rank].to(DEVICE, memory_format=layout))
            torch.testing.assert_close(found.cpu(), expected.split([4, 2])[rank], rtol=1e-4, atol=1e-5)
            found.square().sum().mul(2).backward()  # undo DDP's division by the two processes
        for one, other in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-3, atol=1e-3)
        for one, other in zip(model.buffers(), plain.buffers(), strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)
        model.eval()
        torch.testing.assert_close(model(whole.to(DEVICE)).cpu(), plain.eval()(whole), rtol=1e-4, atol=1e-5)
