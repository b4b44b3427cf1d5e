"""Explicit operators: typed functions over `torch.ops.mpsx` that always run mpsx's kernels.

    import mpsx
    y = mpsx.ops.swiglu(x, gate)

Inputs are mpsx tensors or CPU tensors. The Metal kernels use the memory of CPU tensors without a copy. All tensors in a
call must be on the same device. Tensors on any other device raise an error. Supported dtypes are float32, float16, and
bfloat16, and also integers and bool for the elementwise family. float64 and complex tensors raise instead of falling
back. Functions are differentiable unless noted, and work under `torch.compile`, FakeTensor, and `torch.vmap` (one call
per sample). They use the argument names and defaults of `torch.nn.functional`.

The elementwise family (`mpsx.ops.exp`, `mpsx.ops.add`, `mpsx.ops.where`, …; `dir(mpsx.ops)` lists it) follows PyTorch's
broadcasting, type promotion and argument names. Any operand except the first may be a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "conv2d",
    "cross_entropy",
    "embedding",
    "fused_adamw_",
    "gelu",
    "group_norm",
    "layer_norm",
    "linear",
    "log_softmax",
    "rms_norm",
    "rotary_embedding",
    "scaled_dot_product_attention",
    "silu",
    "softmax",
    "swiglu",
]


def softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along `dim`, computed in `dtype` if given. The result has the input's shape."""
    return torch.ops.mpsx.softmax(input, dim, dtype)


def log_softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """x - max - log(sum(exp(x - max))) along `dim`, computed in `dtype` if given. The result has the input's shape."""
    return torch.ops.mpsx.log_softmax(input, dim, dtype)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions (J. L. Ba et al., arXiv:1607.06450).

    `normalized_shape`: the sizes of these dimensions. `weight` and `bias` have this shape.
    """
    return torch.ops.mpsx.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last dimensions (B. Zhang, R. Sennrich, arXiv:1910.07467).

    If `eps` is None, it defaults to the machine epsilon of the compute dtype.
    """
    return torch.ops.mpsx.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """layer_norm over groups of channels (Y. Wu, K. He, arXiv:1803.08494).

    input [N, C, …], C divisible by `num_groups`; `weight` and `bias` [C].
    """
    return torch.ops.mpsx.group_norm(input, num_groups, weight, bias, eps)


def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """x Φ(x), or its tanh approximation with approximate="tanh" (D. Hendrycks, K. Gimpel, arXiv:1606.08415)."""
    return torch.ops.mpsx.gelu(input, approximate=approximate)


def silu(input: Tensor) -> Tensor:
    """x / (1 + exp(-x)) (S. Elfwing et al., arXiv:1702.03118)."""
    return torch.ops.mpsx.silu(input)


def swiglu(input: Tensor, gate: Tensor | None = None) -> Tensor:
    """input * silu(gate) (N. Shazeer, arXiv:2002.05202).

    `gate`: same shape and dtype as `input`. If it is None, `input` is [values, gate] along the last dimension, as in
    `torch.nn.functional.glu`, and the result is half as large in that dimension. Any strides.
    """
    return torch.ops.mpsx.swiglu(input, gate)


def rotary_embedding(input: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Rotate each pair (a, b) of the last dimension D by its angle: (a cos - b sin, b cos + a sin) (J. Su et al.,
    arXiv:2104.09864).

    Pairs are (i, i + D/2), as in Llama and Transformers, or (2i, 2i + 1) if `interleaved`, as in the paper. `cos` and
    `sin` have the same shape, and the same dtype (float32 or the input's). Their last dimension is D/2 (one angle per
    pair) or D (one per element, as in Transformers). The other dimensions broadcast: [T, D/2] for an input [B, H, T,
    D], [T, 1, D/2] for [B, T, H, D]. Any strides, without a copy.
    """
    return torch.ops.mpsx.rotary_embedding(input, cos, sin, interleaved)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """nll_loss(log_softmax(input)) for input [C], [N, C] or [N, C, d1, …].

    `target`: class indices (int64) of shape [], [N] or [N, d1, …], or class probabilities of the input's shape.
    `weight` [C]. An out-of-range index raises IndexError. `reduction`: "none", "mean" or "sum".
    """
    return torch.ops.mpsx.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, scale_grad_by_freq: bool = False
) -> Tensor:
    """Look up rows of `weight` [rows, features] by `input` (int64 or int32, any shape): [*input.shape, features].

    Row `padding_idx` receives no gradient. An out-of-range index raises IndexError.
    """
    return torch.ops.mpsx.embedding(input, weight, padding_idx, scale_grad_by_freq)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query keyᵀ scale + mask) value (A. Vaswani et al., arXiv:1706.03762).

    query [.., L, E], key [.., S, E], value [.., S, V], all of the same dtype. `attn_mask`: bool (True: attend) or a
    bias of the query's dtype, broadcastable to [.., L, S]. It cannot be combined with `is_causal`. `scale` None: 1 /
    sqrt(E).
    """
    return torch.ops.mpsx.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input weightᵀ + bias: input [.., I], weight [O, I], bias [O], result [.., O]."""
    return torch.ops.mpsx.linear(input, weight, bias)


def _pair(value: int | Sequence[int]) -> Sequence[int]:
    return (value, value) if isinstance(value, int) else value


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlate input [N, C, H, W] or [C, H, W] with weight [O, C / groups, h, w], and add bias [O].

    `padding` may be "valid" or, if the stride is 1, "same".
    """
    stride, dilation = _pair(stride), _pair(dilation)
    if padding == "valid":
        padding = 0
    elif padding == "same":
        if any(step != 1 for step in stride):
            raise ValueError(f"mpsx.ops.conv2d: padding='same' expects a stride of 1, got {tuple(stride)}")
        total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        if any(n % 2 for n in total):  # pad one more row or column at the end
            input = torch.nn.functional.pad(input, (0, total[1] % 2, 0, total[0] % 2))
        padding = [n // 2 for n in total]
    elif isinstance(padding, str):
        raise ValueError(f"mpsx.ops.conv2d: expected padding as numbers, 'valid' or 'same', got {padding!r}")
    return torch.ops.mpsx.conv2d(input, weight, bias, stride, _pair(padding), dilation, groups)


def fused_adamw_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    *,
    lr: float | Tensor,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool = False,
    maximize: bool = False,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """Run one AdamW step in place on every parameter (I. Loshchilov, F. Hutter, arXiv:1711.05101).

    All lists have equal length, except that `max_exp_avg_sqs` is empty without `amsgrad`. `state_steps` are 0-dim
    float32 tensors that the caller increments. `grad_scale` and `found_inf` come from torch.amp.GradScaler. Not
    differentiable.
    """
    op = torch.ops.mpsx.fused_adamw_
    (op.tensor_lr if isinstance(lr, torch.Tensor) else op.default)(
        params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr=lr, beta1=beta1, beta2=beta2,
        weight_decay=weight_decay, eps=eps, amsgrad=amsgrad, maximize=maximize, grad_scale=grad_scale,
        found_inf=found_inf,
    )  # fmt: skip


def __getattr__(name: str) -> object:
    """Return an elementwise operator."""
    if name.startswith("__"):
        raise AttributeError(f"module 'mpsx.ops' has no attribute {name!r}")
    return getattr(torch.ops.mpsx, name)


def __dir__() -> list[str]:
    names = {name.removeprefix("mpsx::").partition(".")[0] for name in torch._C._dispatch_get_all_op_names()
             if name.startswith("mpsx::")}  # fmt: skip
    return sorted(name for name in names | set(__all__) if not name.endswith("_backward"))
