"""The explicit operators: mpsx's kernels by name, as thin typed functions over `torch.ops.mpsx`.

    import mpsx
    y = mpsx.ops.swiglu(x, gate)

They take tensors on mpsx or, without a copy, on the CPU: the same Metal kernels then run on the CPU tensors' memory.
All tensors of a call must be in one place: a mixture, or another device, is an error that names the operator and what
came. Element types are float32, float16 and bfloat16 (the elementwise family also takes integers and bool); float64
and complex tensors are refused rather than computed elsewhere. Every function here is differentiable unless it says
otherwise, runs under `torch.compile`, FakeTensor and `torch.vmap` (a call for each sample), and has the names and
defaults of `torch.nn.functional`.

The elementwise family (`mpsx.ops.exp`, `mpsx.ops.add`, `mpsx.ops.where`, …; `dir(mpsx.ops)` lists it) has PyTorch's
broadcasting, type promotion and argument names; a number may stand for any operand but the first.
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
    """exp(x - max) / sum(exp(x - max)) along `dim`: same shape; computed in `dtype` if one is given."""
    return torch.ops.mpsx.softmax(input, dim, dtype)


def log_softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """x - max - log(sum(exp(x - max))) along `dim`: same shape; computed in `dtype` if one is given."""
    return torch.ops.mpsx.log_softmax(input, dim, dtype)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions (J. L. Ba et al., arXiv:1607.06450).

    `normalized_shape`: those dimensions, which are also the shape of `weight` and `bias`; others raise.
    """
    return torch.ops.mpsx.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last dimensions (B. Zhang, R. Sennrich, arXiv:1910.07467).

    `eps` None stands for the machine epsilon of the type computed in.
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
    """x Φ(x), or with approximate="tanh" its approximation (D. Hendrycks, K. Gimpel, arXiv:1606.08415)."""
    return torch.ops.mpsx.gelu(input, approximate=approximate)


def silu(input: Tensor) -> Tensor:
    """x / (1 + exp(-x)) (S. Elfwing et al., arXiv:1702.03118)."""
    return torch.ops.mpsx.silu(input)


def swiglu(input: Tensor, gate: Tensor | None = None) -> Tensor:
    """input * silu(gate) (N. Shazeer, arXiv:2002.05202).

    `gate`: like `input` in shape and type. Without it `input` holds both along its last dimension, [values, gate] as
    in `torch.nn.functional.glu`; the result has half its size there. Any strides.
    """
    return torch.ops.mpsx.swiglu(input, gate)


def rotary_embedding(input: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Turns each pair (a, b) of the last dimension D by its angle: (a cos - b sin, b cos + a sin) (J. Su et al.,
    arXiv:2104.09864).

    Pairs are (i, i + D/2), as in Llama and Transformers, or neighbours (2i, 2i + 1) if `interleaved`, as in the paper.
    `cos` and `sin`: one shape and type, float32 or the input's; their last dimension is D/2 (one angle a pair) or D
    (an angle for each element, as Transformers lays them out), the others broadcast to the input's. So [T, D/2] fits
    an input [B, H, T, D], and [T, 1, D/2] one of [B, T, H, D]. Rows of any strides are read in place.
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
    `weight` [C]. An index out of range raises IndexError. `reduction`: "none", "mean" or "sum".
    """
    return torch.ops.mpsx.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, scale_grad_by_freq: bool = False
) -> Tensor:
    """The rows of `weight` [rows, features] that `input` (int64 or int32, any shape) names: [*input.shape, features].

    The row `padding_idx` gets no gradient. An index out of range raises IndexError.
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

    query [.., L, E], key [.., S, E], value [.., S, V] of one type. `attn_mask`: bool (True: attend) or an addend, in
    the query's type, broadcasting to [.., L, S]; not together with `is_causal`. `scale` None: 1 / sqrt(E).
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
    """Cross-correlation of input [N, C, H, W] or [C, H, W] with weight [O, C / groups, h, w]; bias [O].

    `padding` may be "valid" or (where the stride is 1) "same".
    """
    stride, dilation = _pair(stride), _pair(dilation)
    if padding == "valid":
        padding = 0
    elif padding == "same":
        if any(step != 1 for step in stride):
            raise ValueError(f"mpsx.ops.conv2d: padding='same' expects a stride of 1, got {tuple(stride)}")
        total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        if any(n % 2 for n in total):  # one more row or column at the end than at the beginning
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
    """One AdamW step on every parameter, in place (I. Loshchilov, F. Hutter, arXiv:1711.05101).

    Lists of equal length, `max_exp_avg_sqs` empty without `amsgrad`; `state_steps` are float32 tensors of no dimension,
    counted by the caller. `grad_scale`, `found_inf`: as torch.amp.GradScaler hands them over. Not differentiable.
    """
    op = torch.ops.mpsx.fused_adamw_
    (op.tensor_lr if isinstance(lr, torch.Tensor) else op.default)(
        params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr=lr, beta1=beta1, beta2=beta2,
        weight_decay=weight_decay, eps=eps, amsgrad=amsgrad, maximize=maximize, grad_scale=grad_scale,
        found_inf=found_inf,
    )  # fmt: skip


def __getattr__(name: str) -> object:
    """The elementwise family."""
    if name.startswith("__"):
        raise AttributeError(f"module 'mpsx.ops' has no attribute {name!r}")
    return getattr(torch.ops.mpsx, name)


def __dir__() -> list[str]:
    names = {name.removeprefix("mpsx::").partition(".")[0] for name in torch._C._dispatch_get_all_op_names()
             if name.startswith("mpsx::")}  # fmt: skip
    return sorted(name for name in names | set(__all__) if not name.endswith("_backward"))
