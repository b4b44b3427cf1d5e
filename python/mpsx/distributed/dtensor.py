"""DTensor sharding strategies for scaled_dot_product_attention on mpsx. PyTorch has them only for CUDA."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import ModuleType

import torch

_META = torch.library.Library("aten", "IMPL", "Meta")


def _attention(query: int, bias: int, sharded: int, count: int) -> Callable[[object], object]:
    """Return a strategy that shards fused attention along the batch or the heads.

    `query` and `bias` are argument positions. The key and the value follow the query. Of the operator's `count`
    results, the first `sharded` are sharded. The others are scalars or None.
    """
    # torch.distributed.tensor is not complete yet when the strategies are registered.
    from torch.distributed.tensor._op_schema import OpStrategy
    from torch.distributed.tensor._ops.utils import expand_to_full_mesh_op_strategy
    from torch.distributed.tensor.placement_types import Replicate, Shard

    replicate = Replicate()
    # The name of the argument for a function that accepts or rejects a strategy. PyTorch 2.14 changed it.
    names = inspect.signature(expand_to_full_mesh_op_strategy).parameters
    accepts = next(name for name in ("full_mesh_strategy_filter", "is_valid_strategy_cb") if name in names)

    def strategy(schema: object) -> object:
        tensors = [(i, arg) for i, arg in enumerate(schema.args_schema) if isinstance(arg, OpStrategy)]
        heads, key_heads = (schema.args_schema[i].shape[1] for i in (query, query + 1))

        def argument(index: int, arg: object, dim: int) -> object:
            if index == bias:  # broadcasts to (batch, heads, queries, keys)
                dim += arg.ndim - 4
                return Shard(dim) if dim >= 0 and arg.shape[dim] > 1 else replicate
            return Shard(dim) if arg.ndim > 1 else replicate  # the random seed and offset are scalars

        def along(dim: int) -> list[object]:
            results = [Shard(dim)] * sharded + [None] * (count - sharded)
            return results + [argument(i, arg, dim) for i, arg in tensors]

        def keeps_groups(inputs: list[object], results: object) -> bool:
            """Return whether each shard has the KV heads that its query heads use (grouped-query attention)."""
            first = next(spec for (i, _), spec in zip(tensors, inputs, strict=True) if i == query)
            ways = math.prod(first.mesh.size(i) for i, p in enumerate(first.placements) if p == Shard(1))
            return heads == key_heads or key_heads % ways == 0

        everywhere = [replicate] * sharded + [None] * (count - sharded) + [replicate] * len(tensors)
        return expand_to_full_mesh_op_strategy(
            schema.get_mesh_from_args(validate=query == 0), schema, [everywhere, along(1), along(0)],
            input_index=count, **{accepts: keeps_groups},
        )  # fmt: skip

    return strategy


def _gradients_meta(grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                    *rest: object, **options: object) -> tuple:  # fmt: skip
    """Meta implementation of the backward pass of fused attention."""
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), None


def attention(_matrix_ops: ModuleType) -> None:
    """Register the strategies. Called when torch.distributed.tensor._ops._matrix_ops has been imported."""
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
    from torch.distributed.tensor._ops.utils import register_op_strategy

    aten = torch.ops.aten
    forward = aten._scaled_dot_product_fused_attention_overrideable.default
    backward = aten._scaled_dot_product_fused_attention_overrideable_backward.default
    if not torch._C._dispatch_has_kernel_for_dispatch_key(backward.name(), "Meta"):  # before torch 2.13
        _META.impl(backward, _gradients_meta)
    # The results are the output, logsumexp, the sequence lengths of jagged batches, and dropout's random state.
    register_op_strategy(forward, RuntimeSchemaInfo(4))(_attention(query=0, bias=3, sharded=2, count=9))
    # The results are the gradients of query, key, value and bias. If the bias needs a gradient, mpsx uses unfused
    # attention.
    register_op_strategy(backward, RuntimeSchemaInfo(5))(_attention(query=1, bias=4, sharded=3, count=4))
