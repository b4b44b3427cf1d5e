"""Calls for those overloads that no OpInfo sample reaches, and a list of overloads that cannot be called on mpsx."""

from __future__ import annotations

from collections.abc import Callable

import torch

aten = torch.ops.aten
Device = str


def x(device: Device, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return distinct positive numbers."""
    count = torch.Size(shape).numel()
    values = torch.arange(1, count + 1).view(shape)
    return (values / count if dtype.is_floating_point else values).to(dtype).to(device)


def i(device: Device, *values: int) -> torch.Tensor:
    return torch.tensor(values, device=device)


def fused(device: Device, lists: int) -> list[list[torch.Tensor]]:
    """Return lists of parameters, gradients and optimizer states."""
    return [[x(device, 5), x(device, 2, 3)] for _ in range(lists)]


def adam(name: str, lr: Callable[[Device], object]) -> Callable[[Device], object]:
    """Return a function that runs one step of fused Adam or AdamW."""

    def step(d: Device) -> object:
        steps = [torch.ones((), device=d) for _ in range(2)]
        options = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8, "amsgrad": True, "maximize": False}
        base, _, form = name.partition(".")
        return getattr(getattr(aten, base), form or "default")(*fused(d, 5), steps, lr=lr(d), **options)

    return step


def sgd(form: str, lr: Callable[[Device], object]) -> Callable[[Device], object]:
    """Return a function that runs one step of fused SGD with momentum."""
    options = {"weight_decay": 0.1, "momentum": 0.9, "dampening": 0.0, "nesterov": False, "maximize": False,
               "is_first_step": False}  # fmt: skip
    return lambda d: getattr(aten._fused_sgd_, form)(*fused(d, 3), lr=lr(d), **options)


def empty(d: Device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(0, device=d, dtype=dtype)


def int4_weight(d: Device) -> torch.Tensor:
    """Pack an 8 x 64 weight of 4-bit numbers."""
    return aten._convert_weight_to_int4pack(torch.ones(8, 32, dtype=torch.uint8, device=d), 2)


def embedding_bag_backward(d: Device) -> object:
    """Reuse the results of the forward pass, because the CPU's backward pass does not compute offset2bag."""
    indices, offsets = i(d, 0, 1, 1), i(d, 0, 2)
    _, offset2bag, bag_size, max_indices = aten._embedding_bag(x(d, 4, 3), indices, offsets)
    return aten._embedding_bag_backward(
        x(d, 2, 3), indices, offsets, offset2bag, bag_size, max_indices, 4, False, 0, False, None)


CALLS: dict[str, Callable[[Device], object]] = {
    "_amp_foreach_non_finite_check_and_unscale_": lambda d: aten._amp_foreach_non_finite_check_and_unscale_(
        [x(d, 5)], x(d, 1), x(d, 1)),
    "_amp_update_scale_": lambda d: aten._amp_update_scale_(x(d, 1), x(d, 1, dtype=torch.int32), x(d, 1), 2.0, 0.5, 3),
    "_assert_async": lambda d: aten._assert_async(x(d, 1)),
    "_assert_async.msg": lambda d: aten._assert_async.msg(x(d, 1), "message"),
    "_cholesky_solve_helper": lambda d: aten._cholesky_solve_helper(x(d, 3, 2), torch.eye(3, device=d), False),
    "_copy_from": lambda d: aten._copy_from(x("cpu", 3), x(d, 3)),
    "_copy_from_and_resize": lambda d: aten._copy_from_and_resize(x(d, 3), torch.empty(3)),
    "_cummax_helper": lambda d: aten._cummax_helper(x(d, 3), x(d, 3), i(d, 0, 0, 0), 0),
    "_cummin_helper": lambda d: aten._cummin_helper(x(d, 3), x(d, 3), i(d, 0, 0, 0), 0),
    "_dirichlet_grad": lambda d: aten._dirichlet_grad(x(d, 2, 3) / 2, x(d, 2, 3), x(d, 2, 3)),
    "_embedding_bag_backward": embedding_bag_backward,
    "_embedding_bag_per_sample_weights_backward": lambda d: aten._embedding_bag_per_sample_weights_backward(
        x(d, 2, 3), x(d, 4, 3), i(d, 0, 1, 1), i(d, 0, 2), i(d, 0, 0, 1), 0, -1),
    "_embedding_bag_dense_backward": lambda d: aten._embedding_bag_dense_backward(
        x(d, 2, 3), i(d, 0, 1, 1), i(d, 0, 0, 1), i(d, 2, 1), i(d, 0, 0), 4, False, 0, None, -1),
    "_embedding_bag_forward_only": lambda d: aten._embedding_bag_forward_only(x(d, 4, 3), i(d, 0, 1, 1), i(d, 0, 2)),
    "_fused_adam_": adam("_fused_adam_", lambda d: 0.1),
    "_fused_adam_.tensor_lr": adam("_fused_adam_.tensor_lr", lambda d: torch.tensor(0.1, device=d)),
    "_fused_adamw_": adam("_fused_adamw_", lambda d: 0.1),
    "_fused_adamw_.tensor_lr": adam("_fused_adamw_.tensor_lr", lambda d: torch.tensor(0.1, device=d)),
    "_fused_rms_norm": lambda d: aten._fused_rms_norm(x(d, 2, 3), [3], x(d, 3), 1e-5),
    "_fused_sgd_": sgd("default", lambda d: 0.1),
    "_fused_sgd_.tensor_lr": sgd("tensor_lr", lambda d: torch.tensor(0.1, device=d)),
    "_index_put_impl_": lambda d: aten._index_put_impl_(x(d, 4), [i(d, 0, 2)], x(d, 2), True),
    "_logcumsumexp": lambda d: aten._logcumsumexp(x(d, 4), 0),
    "_logcumsumexp.out": lambda d: aten._logcumsumexp.out(x(d, 4), 0, out=empty(d)),
    "_native_batch_norm_legit.no_stats": lambda d: aten._native_batch_norm_legit.no_stats(
        x(d, 2, 3, 4), x(d, 3), x(d, 3), True, 0.1, 1e-5),
    "_native_batch_norm_legit.no_stats_out": lambda d: aten._native_batch_norm_legit.no_stats_out(
        x(d, 2, 3, 4), x(d, 3), x(d, 3), True, 0.1, 1e-5, out=empty(d), save_mean=empty(d), save_invstd=empty(d)),
    "_reshape_alias": lambda d: aten._reshape_alias(x(d, 2, 3), [3, 2], [2, 1]),
    "_sample_dirichlet": lambda d: aten._sample_dirichlet(x(d, 2, 3)),
    "_standard_gamma": lambda d: aten._standard_gamma(x(d, 2, 3)),
    "_standard_gamma_grad": lambda d: aten._standard_gamma_grad(x(d, 2, 3), x(d, 2, 3)),
    "_upsample_bicubic2d_aa": lambda d: aten._upsample_bicubic2d_aa(x(d, 1, 2, 4, 4), [3, 3], False),
    "_upsample_bicubic2d_aa.out": lambda d: aten._upsample_bicubic2d_aa.out(
        x(d, 1, 2, 4, 4), [3, 3], False, out=empty(d)),
    "_convert_weight_to_int4pack": int4_weight,
    "_weight_int4pack_mm": lambda d: aten._weight_int4pack_mm(
        x(d, 2, 64, dtype=torch.bfloat16), int4_weight(d), 32, torch.ones(2, 8, 2, dtype=torch.bfloat16, device=d)),
    "_weight_int8pack_mm": lambda d: aten._weight_int8pack_mm(
        x(d, 2, 32, dtype=torch.bfloat16), x(d, 4, 32, dtype=torch.int32).char(), x(d, 4, dtype=torch.bfloat16)),
    "_weight_norm_interface": lambda d: aten._weight_norm_interface(x(d, 3, 4), x(d, 3, 1), 0),
    "_weight_norm_interface_backward": lambda d: aten._weight_norm_interface_backward(
        x(d, 3, 4), x(d, 3, 4), x(d, 3, 1), x(d, 3, 1), 0),
    "adaptive_avg_pool2d.out": lambda d: aten.adaptive_avg_pool2d.out(x(d, 1, 2, 4, 4), [2, 2], out=empty(d)),
    "arange.start_out": lambda d: aten.arange.start_out(0, 5, 1, out=empty(d)),
    "bernoulli_.Tensor": lambda d: aten.bernoulli_.Tensor(x(d, 3), x(d, 3)),
    "bucketize.Scalar": lambda d: aten.bucketize.Scalar(0.5, x(d, 3)),
    "clamp_max": lambda d: aten.clamp_max(x(d, 3), 0.5),
    "clamp_max.out": lambda d: aten.clamp_max.out(x(d, 3), 0.5, out=empty(d)),
    "clamp_max_": lambda d: aten.clamp_max_(x(d, 3), 0.5),
    "conj_physical.out": lambda d: aten.conj_physical.out(x(d, 3) * 1j, out=empty(d, torch.complex64)),
    "count_nonzero.dim_IntList": lambda d: aten.count_nonzero.dim_IntList(x(d, 2, 3), [0]),
    "eye.m_out": lambda d: aten.eye.m_out(2, 3, out=empty(d)),
    "eye.out": lambda d: aten.eye.out(2, out=empty(d)),
    "fill_.Tensor": lambda d: aten.fill_.Tensor(x(d, 3), torch.tensor(2.0, device=d)),
    "is_set_to": lambda d: aten.is_set_to(x(d, 3), x(d, 3)),
    "isin.Scalar_Tensor": lambda d: aten.isin.Scalar_Tensor(1, x(d, 3)),
    "isin.Scalar_Tensor_out": lambda d: aten.isin.Scalar_Tensor_out(1, x(d, 3), out=empty(d, torch.bool)),
    "isin.Tensor_Scalar": lambda d: aten.isin.Tensor_Scalar(x(d, 3), 1),
    "isin.Tensor_Scalar_out": lambda d: aten.isin.Tensor_Scalar_out(x(d, 3), 1, out=empty(d, torch.bool)),
    "linear": lambda d: aten.linear(x(d, 2, 3), x(d, 4, 3), x(d, 4)),
    "linspace.out": lambda d: aten.linspace.out(0, 1, 5, out=empty(d)),
    "max_pool2d": lambda d: aten.max_pool2d(x(d, 1, 2, 4, 4), [2, 2]),
    "native_dropout": lambda d: aten.native_dropout(x(d, 5), 0.5, True),
    "norm.ScalarOpt_dim_dtype": lambda d: aten.norm.ScalarOpt_dim_dtype(x(d, 2, 3), 2, [0], False, dtype=torch.float32),
    "norm.dtype_out": lambda d: aten.norm.dtype_out(x(d, 2, 3), 2, [0], False, dtype=torch.float32, out=empty(d)),
    "random_": lambda d: aten.random_(x(d, 5)),
    "random_.from": lambda d: getattr(aten.random_, "from")(x(d, 5), 2, 9),
    "random_.to": lambda d: aten.random_.to(x(d, 5), 9),
    "randperm.generator_out": lambda d: aten.randperm.generator_out(5, generator=None, out=empty(d, torch.int64)),
    "range.out": lambda d: aten.range.out(0, 4, 1, out=empty(d)),
    "remainder.Scalar_Tensor": lambda d: aten.remainder.Scalar_Tensor(2.0, x(d, 3)),
    "repeat_interleave.Tensor": lambda d: aten.repeat_interleave.Tensor(i(d, 1, 2)),
    "scatter.reduce": lambda d: aten.scatter.reduce(x(d, 3), 0, i(d, 0, 1), x(d, 2), reduce="add"),
    "scatter.reduce_out": lambda d: aten.scatter.reduce_out(
        x(d, 3), 0, i(d, 0, 1), x(d, 2), reduce="add", out=empty(d)),
    "scatter.value_reduce": lambda d: aten.scatter.value_reduce(x(d, 3), 0, i(d, 0, 1), 2.0, reduce="multiply"),
    "scatter.value_reduce_out": lambda d: aten.scatter.value_reduce_out(
        x(d, 3), 0, i(d, 0, 1), 2.0, reduce="multiply", out=empty(d)),
    "scatter_.reduce": lambda d: aten.scatter_.reduce(x(d, 3), 0, i(d, 0, 1), x(d, 2), reduce="add"),
    "scatter_.value_reduce": lambda d: aten.scatter_.value_reduce(x(d, 3), 0, i(d, 0, 1), 2.0, reduce="multiply"),
    "searchsorted.Scalar": lambda d: aten.searchsorted.Scalar(x(d, 3), 0.5),
    "searchsorted.Scalar_out": lambda d: aten.searchsorted.Scalar_out(x(d, 3), 0.5, out=empty(d, torch.int64)),
    "set_": lambda d: aten.set_(x(d, 3)),
    "set_.source_Storage": lambda d: aten.set_.source_Storage(x(d, 3), x(d, 3).untyped_storage()),
    "set_.source_Storage_storage_offset": lambda d: aten.set_.source_Storage_storage_offset(
        x(d, 3), x(d, 3).untyped_storage(), 1, [2], [1]),
    "set_.source_Tensor": lambda d: aten.set_.source_Tensor(x(d, 3), x(d, 2)),
    "unique_dim": lambda d: aten.unique_dim(x(d, 3, 2), 0, True, True, True),
    "unique_dim_consecutive": lambda d: aten.unique_dim_consecutive(x(d, 3, 2), 0, True, True),
}  # fmt: skip

for direction in ("lshift", "rshift"):
    for prefix in ("__", "__i"):
        shift = getattr(aten, f"{prefix}{direction}__")
        CALLS[f"{prefix}{direction}__.Scalar"] = lambda d, f=shift: f.Scalar(x(d, 3, dtype=torch.int32), 1)
        CALLS[f"{prefix}{direction}__.Tensor"] = lambda d, f=shift: f.Tensor(
            x(d, 3, dtype=torch.int32), x(d, 3, dtype=torch.int32))


def resampled(name: str, spatial: int) -> None:
    """Register a nearest-neighbor interpolation and its gradient."""
    forward, backward = getattr(aten, name), getattr(aten, name + "_backward")
    size, more = [1, 2] + [3] * spatial, [4] * spatial
    CALLS[name] = lambda d: forward(x(d, *size), more)
    CALLS[f"{name}.out"] = lambda d: forward.out(x(d, *size), more, out=empty(d))
    CALLS[f"{name}_backward"] = lambda d: backward(x(d, 1, 2, *more), more, size)
    CALLS[f"{name}_backward.grad_input"] = lambda d: backward.grad_input(
        x(d, 1, 2, *more), more, size, grad_input=empty(d))


def padded(name: str, spatial: int) -> None:
    """Register a padding operator and its gradient."""
    forward, backward = getattr(aten, name), getattr(aten, name + "_backward")
    size, padding = [1, 2] + [3] * spatial, [1] * (2 * spatial)
    CALLS[name] = lambda d: forward(x(d, *size), padding)
    CALLS[f"{name}.out"] = lambda d: forward.out(x(d, *size), padding, out=empty(d))
    gradient = [1, 2] + [5] * spatial
    CALLS[f"{name}_backward"] = lambda d: backward(x(d, *gradient), x(d, *size), padding)
    CALLS[f"{name}_backward.grad_input"] = lambda d: backward.grad_input(
        x(d, *gradient), x(d, *size), padding, grad_input=empty(d))


for family in ("_upsample_nearest_exact", "upsample_nearest"):
    for dimensions in (2, 3):
        resampled(f"{family}{dimensions}d", dimensions)
for family, dimensions in (("reflection_pad", 2), ("reflection_pad", 3), ("replication_pad", 3)):
    padded(f"{family}{dimensions}d", dimensions)

OWN = "PyTorch dispatches to it only for tensors on MPS; other devices use the operator that it implements"
NOT_CALLED: dict[str, str] = dict.fromkeys(
    ("_lstm_mps", "lstm_mps_backward", "_mps_convolution", "_mps_convolution_transpose", "mps_convolution_backward",
     "mps_convolution_transpose_backward", "_scaled_dot_product_attention_math_for_mps", "linear_backward",
     "max_pool2d_backward"), OWN)  # fmt: skip
