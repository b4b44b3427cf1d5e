"""Generate OpInfo samples, run them on the CPU and on mpsx, and compare the results."""

from __future__ import annotations

import cmath
import copy
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import SEED
from torch.testing._internal.opinfo.core import ErrorInput, OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = "mpsx"

# OpInfos that need a different device or that cannot be moved to mpsx.
NOT_COMPARABLE = {
    "jiterator_unary": "compiles CUDA source",
    "jiterator_binary": "compiles CUDA source",
    "jiterator_binary_return_by_ref": "compiles CUDA source",
    "jiterator_2inputs_2outputs": "compiles CUDA source",
    "jiterator_4inputs_with_extra_args": "compiles CUDA source",
    "torch.ops.aten._flash_attention_forward": "CUDA only",
    "torch.ops.aten._efficient_attention_forward": "CUDA only",
    "as_strided.partial_views": "reads storage outside the tensor, which is not moved to the device",
}

# Operators whose first tensor argument moves to mpsx. Their other tensor arguments must stay on the CPU.
CPU_ARGUMENTS = {"tensor_split"}

# Operators that return uninitialized memory. The comparison ignores their values.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# Random operators. Their values differ, because mpsx uses Philox and the CPU uses the Mersenne Twister. Compare only
# shapes, dtypes and strides, and check that a seed reproduces the values.
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "normal.in_place",
    "normal.number_mean", "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout.with_train",
    "nn.functional.feature_alpha_dropout.without_train", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward", "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention", "pca_lowrank", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "svd_lowrank", "uniform",
}  # fmt: skip

# For half precision, PyTorch chooses the dtype of the buffers between chunks by device type, with cases for "cpu",
# "cuda" and everything else.
BUFFERS_BY_DEVICE_NAME = {"nn.functional.linear_cross_entropy.chunked_none"}


# Operators that may return equal elements in any order unless stable=True. Values: the position of the argument `dim`.
TIES = {"sort": 0, "argsort": 0, "msort": None, "topk": 1, "kthvalue": 1}


def op_id(op: OpInfo) -> str:
    """Return the OpInfo's name as used in the tables above."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


OPS = [op for op in op_db if op_id(op) not in NOT_COMPARABLE]


def main_dtype(op: OpInfo) -> torch.dtype:
    """Return float32 if the operator supports it, otherwise another supported dtype."""
    dtypes = forward_dtypes(op)
    return torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]


def forward_dtypes(op: OpInfo) -> set[torch.dtype]:
    """Return the dtypes that the OpInfo declares for the CPU."""
    return op.supported_dtypes("cpu") or {torch.float32}


def backward_dtypes(op: OpInfo) -> set[torch.dtype]:
    """Return the dtypes for which the OpInfo declares gradients."""
    if not op.supports_autograd:
        return set()
    return (op.supported_backward_dtypes("cpu") or {torch.float32}) & forward_dtypes(op)


def has_backward(op: OpInfo, dtype: torch.dtype) -> bool:
    return dtype in backward_dtypes(op)


Sample = TypeVar("Sample", SampleInput, ErrorInput)


def seed(value: int) -> None:
    """Seed only the CPU and mpsx. torch.manual_seed also records the call stack for every other GPU type, which is
    slow."""
    torch.default_generator.manual_seed(value)
    torch.mpsx.manual_seed(value)


def seeded(made: Iterable[Sample]) -> Iterator[Sample]:
    """Reset the generator to the same state before each sample.

    PyTorch's iterator does this as well, but it first searches the call stack for the test, which takes longer than the
    test itself.
    """
    made = iter(made)
    while True:
        seed(SEED)
        random.seed(SEED)
        np.random.seed(SEED)
        try:
            sample = next(made)
        except StopIteration:
            return
        yield sample


def samples(op: OpInfo, dtype: torch.dtype, count: int | None, requires_grad: bool = False) -> Iterator[SampleInput]:
    """Return the first `count` samples, or all if `count` is None. They are the same on every machine.

    Samples that request a CUDA result are skipped, because they exist only if torch was built with CUDA.
    """
    seed(0)
    made = seeded(op.sample_inputs_func(op, "cpu", dtype, requires_grad))
    return islice((sample for sample in made if sample.kwargs.get("device") != "cuda"), count)


def error_samples(op: OpInfo) -> Iterator[ErrorInput]:
    """Return the inputs for which the operator must raise an error."""
    return seeded(op.error_inputs_func(op, "cpu"))


def comparable(op: OpInfo, dtype: torch.dtype) -> bool:
    """Return whether the values must match those on the CPU."""
    if dtype in (torch.float16, torch.bfloat16) and op_id(op) in BUFFERS_BY_DEVICE_NAME:
        return False
    return op_id(op) not in RANDOM and op.name not in UNINITIALISED


Arguments = tuple[object, tuple, dict]


def on_cpu(sample: SampleInput) -> Arguments:
    def clone(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return value.detach().clone().requires_grad_(value.requires_grad)
        return copy.deepcopy(value) if isinstance(value, torch.Generator) else value

    return tree_map(clone, (sample.input, sample.args, sample.kwargs))


def on_device(op: OpInfo, sample: SampleInput) -> Arguments:
    """Move a sample's arguments to mpsx, and change its device arguments to mpsx."""

    def move(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return value.detach().to(DEVICE).requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device(DEVICE)
        return value

    first, *rest = sample.input, sample.args, sample.kwargs
    return (tree_map(move, first), *(rest if op.name in CPU_ARGUMENTS else tree_map(move, rest)))


def call(function: Callable[..., object], arguments: Arguments, **more: object) -> object:
    seed(1)
    first, args, kwargs = arguments
    return function(first, *args, **kwargs, **more)


def tensors(tree: object) -> list[torch.Tensor]:
    """Return every tensor in a nested structure."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def in_double(arguments: Arguments) -> Arguments:
    """Convert arguments to double precision."""
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    wide |= dict.fromkeys((torch.float16, torch.bfloat16), torch.float64)

    def widen(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return value.detach().to(wide.get(value.dtype, value.dtype)).requires_grad_(value.requires_grad)
        return wide.get(value, value) if isinstance(value, torch.dtype) else value

    return tree_map(widen, arguments)


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest absolute difference: 0 for equal infinities and for two NaNs, infinity for a single NaN."""
    same = torch.isclose(result, exact, rtol=0, atol=0, equal_nan=True)
    return torch.where(same, 0, result - exact).abs().nan_to_num(nan=torch.inf).max().item()


def assert_close(have: torch.Tensor, want: torch.Tensor, exact: Callable[[], torch.Tensor] | None,
                 derivative: bool) -> None:  # fmt: skip
    """Require agreement with the CPU within torch's default tolerance, or an error relative to float64 of at most twice
    the CPU's.

    Sums round in another order, so either device may be closer by chance. Derivatives also round after each operator,
    and may therefore have one more rounding error of the largest value.
    """
    try:
        torch.testing.assert_close(have, want, equal_nan=True)
    except AssertionError:
        if exact is None or not (want.is_floating_point() or want.is_complex()):
            raise
        right = exact().detach().to(torch.complex128 if want.is_complex() else torch.double)
        allowed = 2 * error(want.to(right.dtype), right)
        if derivative:
            allowed += torch.finfo(want.dtype).eps * right[right.isfinite()].abs().max().item()
        if not error(have.to(right.dtype), right) <= allowed:
            raise


def names_device(arguments: Arguments) -> bool:
    """Return whether the call has a tensor or device argument. Without one, the result is created on the default
    device, the CPU."""
    return any(isinstance(leaf, torch.Tensor | torch.device) for leaf in tree_leaves(arguments))


def assert_same(cpu: object, device: object, *, values: bool = True, strides: bool = True, on: str = DEVICE,
                exact: Callable[[], object] | None = None, derivative: bool = False) -> None:  # fmt: skip
    """Compare structure, layouts, dtypes, shapes, strides and values. `exact` returns the results in float64."""
    expected, got = tree_leaves(cpu), tree_leaves(device)
    assert len(expected) == len(got)
    for i, (want, have) in enumerate(zip(expected, got, strict=True)):
        if not isinstance(want, torch.Tensor):
            if values and isinstance(want, int | float | complex):
                assert want == have or (cmath.isnan(want) and cmath.isnan(have))
            continue
        assert have.device.type == on
        assert (have.layout, have.dtype, have.shape) == (want.layout, want.dtype, want.shape)
        # The strides of empty tensors mean nothing, and some composite operators return unusual ones.
        if strides and want.layout == torch.strided and not want.is_nested and want.numel():
            assert have.stride() == want.stride()
        if values:
            precise = None if exact is None else lambda i=i: tree_leaves(exact())[i]
            assert_close(have.detach().cpu(), want.detach(), precise, derivative)
