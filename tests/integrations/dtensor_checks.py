"""DTensor on mpsx: random numbers, attention, and FSDP2. distributed_checks.py runs these checks in two processes."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from distributed_checks import DEVICE, check
from torch import nn

import mpsx


def _mesh() -> object:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(DEVICE, (2,))


def _on_both_ranks(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Gather the local tensors of both ranks."""
    copies = [torch.empty_like(tensor) for _ in range(2)]
    dist.all_gather(copies, tensor)
    return [copy.cpu() for copy in copies]


# In-place random operators. After each call, DTensor advances the generator's offset.
FILLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "normal_": lambda x: x.normal_(),
    "uniform_": lambda x: x.uniform_(),
    "bernoulli_": lambda x: x.bernoulli_(0.5),
    "rand_like": torch.rand_like,
    "dropout": lambda x: nn.functional.dropout(x.fill_(1), 0.5),
}


@check
def dtensor_random_numbers(rank: int) -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = _mesh()
    torch.manual_seed(3)
    torch.rand(3, device=DEVICE)  # make the generator's offset odd
    for dtype in (torch.float32, torch.float16, torch.float64):  # float64 falls back to the CPU
        for name, fill in FILLS.items():
            if name == "dropout" and dtype == torch.float64:
                continue  # the CPU operator accepts no generator
            sharded = distribute_tensor(torch.zeros(64, 8, device=DEVICE, dtype=dtype), mesh, [Shard(0)])
            state = torch.mpsx.get_rng_state()
            drawn = fill(sharded).full_tensor()
            mine, other = _on_both_ranks(drawn)
            assert torch.equal(mine, other), name
            assert not torch.equal(mine[:32], mine[32:]), f"{name} {dtype}: both shards drew the same numbers"
            again = fill(sharded).full_tensor()
            assert not torch.equal(again.cpu(), mine), f"{name} {dtype}: a second call drew the same numbers"
            torch.mpsx.set_rng_state(state)
            assert torch.equal(fill(sharded).full_tensor().cpu(), mine), name
            whole = distribute_tensor(torch.zeros(5, 3, device=DEVICE, dtype=dtype), mesh, [Replicate()])
            one, two = _on_both_ranks(fill(whole).to_local())
            assert torch.equal(one, two), name
    one, two = _on_both_ranks(torch.mpsx.get_rng_state().to(DEVICE))
    assert torch.equal(one, two)


@check
def dtensor_random_factories(rank: int) -> None:
    from torch.distributed import tensor
    from torch.distributed.tensor import Shard

    for factory in (tensor.rand, tensor.randn):
        mine = factory(8, 4, device_mesh=_mesh(), placements=[Shard(1)]).full_tensor()
        one, two = _on_both_ranks(mine)
        assert torch.equal(one, two) and one.unique().numel() == 32
    generator = torch.Generator(DEVICE).manual_seed(4)
    x = tensor.empty(8, 4, device_mesh=_mesh(), placements=[Shard(0)])
    first = x.normal_(generator=generator).full_tensor().cpu()
    assert not torch.equal(x.normal_(generator=generator).full_tensor().cpu(), first)
    generator.manual_seed(4)
    assert torch.equal(x.normal_(generator=generator).full_tensor().cpu(), first)


@check
def fsdp2_from_meta(rank: int) -> None:
    """Shard a model on the meta device, then initialize and train it."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    with torch.device("meta"):
        model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 11))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=DEVICE)
    for layer in model:
        layer.reset_parameters()
    weight = model[1].weight.full_tensor()
    one, two = _on_both_ranks(weight.detach())
    assert torch.equal(one, two) and not torch.equal(one[:8], one[8:])
    bound = 8**-0.5
    assert -bound <= one.min() and one.max() <= bound and one.std() > bound / 3
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    tokens = torch.randint(0, 11, (4, 6), device=DEVICE)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def _attention_case(shard: object, dtype: torch.dtype, heads: int, key_heads: int, mask: torch.Tensor | None,
                    causal: bool = False) -> list[str]:  # fmt: skip
    """Compare attention and its gradients with the CPU. Return the names of the operators that ran."""
    from torch.distributed.tensor import distribute_tensor
    from torch.utils._python_dispatch import TorchDispatchMode

    mesh, generator = _mesh(), torch.Generator().manual_seed(heads)
    shapes = [(2, heads, 8, 16), (2, key_heads, 8, 16), (2, key_heads, 8, 16)]
    values = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    weights = torch.randn(2, heads, 8, 16, generator=generator)
    options = {"is_causal": causal, "enable_gqa": heads != key_heads}
    plain = [value.double().requires_grad_() for value in values]
    exact = mask if mask is None or mask.dtype == torch.bool else mask.double()
    expected = nn.functional.scaled_dot_product_attention(*plain, attn_mask=exact, **options)
    (expected * weights).sum().backward()

    ran: list[str] = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            ran.append(function.overloadpacket.__name__)
            return function(*args, **(kwargs or {}))

    inputs = [distribute_tensor(value.to(DEVICE), mesh, [shard]).requires_grad_() for value in values]
    bias = None
    if mask is not None:
        from torch.distributed.tensor import Replicate

        bias = distribute_tensor((mask if mask.dtype == torch.bool else mask.to(dtype)).to(DEVICE), mesh, [Replicate()])
    factor = distribute_tensor(weights.to(DEVICE, dtype), mesh, [shard])
    with Record():
        out = nn.functional.scaled_dot_product_attention(*inputs, attn_mask=bias, **options)
        (out * factor).sum().full_tensor().backward()
    limits = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 5e-2, "atol": 5e-2}
    torch.testing.assert_close(out.full_tensor().detach().cpu().double(), expected.detach(), **limits)
    for found, wanted in zip(inputs, plain, strict=True):
        torch.testing.assert_close(found.grad.full_tensor().cpu().double(), wanted.grad, **limits)
    return ran


@check
def dtensor_attention(rank: int) -> None:
    from torch.distributed.tensor import Replicate, Shard

    generator = torch.Generator().manual_seed(9)
    masks = [None, torch.randn(8, 8, generator=generator), torch.randn(2, 1, 8, 8, generator=generator),
             torch.randn(1, 4, 8, 8, generator=generator),
             torch.rand(2, 4, 8, 8, generator=generator) > 0.3]  # fmt: skip
    fused = "_scaled_dot_product_fused_attention_overrideable"
    for shard in (Shard(1), Shard(0), Replicate(), Shard(2)):  # Shard(2) makes DTensor gather the operands
        for mask in masks:
            for dtype in (torch.float32, torch.bfloat16) if mask is None else (torch.float32,):
                _attention_case(shard, dtype, 4, 4, mask)
        ran = _attention_case(shard, torch.float32, 4, 4, None, causal=True)
        assert fused in ran and f"{fused}_backward" in ran, ran
    for heads, key_heads in ((4, 2), (6, 3), (4, 1)):  # GQA; a single key head cannot be sharded
        _attention_case(Shard(1) if key_heads > 1 else Shard(0), torch.float32, heads, key_heads, None)
    with mpsx.fallback.using_mode("error"):
        _attention_case(Shard(1), torch.float32, 4, 4, None)


@check
def dtensor_attention_with_dropout(rank: int) -> None:
    from torch.distributed.tensor import Shard, distribute_tensor

    if torch.__version__ < "2.13":  # before 2.13, DTensor cannot flatten batch and sharded heads for dropout
        return
    x = distribute_tensor(torch.randn(2, 4, 8, 16, device=DEVICE), _mesh(), [Shard(1)]).requires_grad_()
    out = nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
    out.sum().full_tensor().backward()
    assert x.grad.full_tensor().isfinite().all()
