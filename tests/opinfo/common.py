"""OpInfo samples on the CPU and on mpsx, and how their results are compared."""

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

# No comparison is possible, on any device but the one named.
NOT_COMPARABLE = {
    "jiterator_unary": "compiles CUDA source",
    "jiterator_binary": "compiles CUDA source",
    "jiterator_binary_return_by_ref": "compiles CUDA source",
    "jiterator_2inputs_2outputs": "compiles CUDA source",
    "jiterator_4inputs_with_extra_args": "compiles CUDA source",
    "torch.ops.aten._flash_attention_forward": "a CUDA kernel's own operator",
    "torch.ops.aten._efficient_attention_forward": "a CUDA kernel's own operator",
    "as_strided.partial_views": "reads storage outside of the tensor, which a move to a device leaves behind",
}

# Operators whose tensor arguments after the first stay on the CPU, on any device.
CPU_ARGUMENTS = {"tensor_split"}

# Memory that nobody wrote: everything but the values is compared.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# Random numbers. The device's generator is Philox, the CPU's is the Mersenne Twister, so values differ by design;
# compared are shapes, types, strides, and that the same seed gives the same values again.
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "normal.in_place",
    "normal.number_mean", "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout.with_train",
    "nn.functional.feature_alpha_dropout.without_train", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward", "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention", "pca_lowrank", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "svd_lowrank", "uniform",
}  # fmt: skip

# In half types PyTorch picks the type of the buffers between its chunks by the device's name ("cpu", "cuda", others).
BUFFERS_BY_DEVICE_NAME = {"nn.functional.linear_cross_entropy.chunked_none"}


# Which of equal elements comes first is left open, unless stable=True; and where `dim` is among their arguments.
TIES = {"sort": 0, "argsort": 0, "msort": None, "topk": 1, "kthvalue": 1}


def op_id(op: OpInfo) -> str:
    """The name by which NOT_COMPARABLE and the like know an OpInfo."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


OPS = [op for op in op_db if op_id(op) not in NOT_COMPARABLE]


def main_dtype(op: OpInfo) -> torch.dtype:
    """float32 where the operator has it (an entry that declares no type for the CPU runs with it all the same)."""
    dtypes = forward_dtypes(op)
    return torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]


def forward_dtypes(op: OpInfo) -> set[torch.dtype]:
    """The types that the OpInfo declares for the CPU."""
    return op.supported_dtypes("cpu") or {torch.float32}


def backward_dtypes(op: OpInfo) -> set[torch.dtype]:
    """The types for which it says that gradients work."""
    if not op.supports_autograd:
        return set()
    return (op.supported_backward_dtypes("cpu") or {torch.float32}) & forward_dtypes(op)


def has_backward(op: OpInfo, dtype: torch.dtype) -> bool:
    """Whether the OpInfo says that gradients work for this type."""
    return dtype in backward_dtypes(op)


Sample = TypeVar("Sample", SampleInput, ErrorInput)


def seed(value: int) -> None:
    """torch.manual_seed of CPU and mpsx alone: it also notes the call stack for every other kind of GPU."""
    torch.default_generator.manual_seed(value)
    torch.mpsx.manual_seed(value)


def seeded(made: Iterable[Sample]) -> Iterator[Sample]:
    """Each sample from the same state of the generators: torch's own iterator does that too, but first searches the
    call stack for the test, which takes longer than the test."""
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
    """The first `count` samples (None: all), the same in every process and on every machine: where torch has CUDA, some
    ask for a result there."""
    seed(0)
    made = seeded(op.sample_inputs_func(op, "cpu", dtype, requires_grad))
    return islice((sample for sample in made if sample.kwargs.get("device") != "cuda"), count)


def error_samples(op: OpInfo) -> Iterator[ErrorInput]:
    """Inputs that are to be refused."""
    return seeded(op.error_inputs_func(op, "cpu"))


def comparable(op: OpInfo, dtype: torch.dtype) -> bool:
    """Whether values are the CPU's."""
    if dtype in (torch.float16, torch.bfloat16) and op_id(op) in BUFFERS_BY_DEVICE_NAME:
        return False
    return op_id(op) not in RANDOM and op.name not in UNINITIALISED


Arguments = tuple[object, tuple, dict]


def on_cpu(sample: SampleInput) -> Arguments:
    """A copy of a sample's arguments."""

    def clone(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return value.detach().clone().requires_grad_(value.requires_grad)
        return copy.deepcopy(value) if isinstance(value, torch.Generator) else value

    return tree_map(clone, (sample.input, sample.args, sample.kwargs))


def on_device(op: OpInfo, sample: SampleInput) -> Arguments:
    """A sample's arguments, tensors and devices moved to mpsx."""

    def move(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return value.detach().to(DEVICE).requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device(DEVICE)
        return value

    first, *rest = sample.input, sample.args, sample.kwargs
    return (tree_map(move, first), *(rest if op.name in CPU_ARGUMENTS else tree_map(move, rest)))


def call(function: Callable[..., object], arguments: Arguments, **more: object) -> object:
    """Calls with a fixed seed."""
    seed(1)
    first, args, kwargs = arguments
    return function(first, *args, **kwargs, **more)


def tensors(tree: object) -> list[torch.Tensor]:
    """Every tensor in a result."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def storage(tensor: torch.Tensor) -> int:
    """The identity of a tensor's storage."""
    return tensor.untyped_storage()._cdata


def in_double(arguments: Arguments) -> Arguments:
    """The same numbers in float64 and complex128."""
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    wide |= dict.fromkeys((torch.float16, torch.bfloat16), torch.float64)

    def widen(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return value.detach().to(wide.get(value.dtype, value.dtype)).requires_grad_(value.requires_grad)
        return wide.get(value, value) if isinstance(value, torch.dtype) else value

    return tree_map(widen, arguments)


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest difference: none of what is equal (infinities) or NaN in both, an infinite one of other NaN."""
    same = torch.isclose(result, exact, rtol=0, atol=0, equal_nan=True)
    return torch.where(same, 0, result - exact).abs().nan_to_num(nan=torch.inf).max().item()


def assert_close(have: torch.Tensor, want: torch.Tensor, exact: Callable[[], torch.Tensor] | None,
                 derivative: bool) -> None:  # fmt: skip
    """As close to the CPU's result as PyTorch asks, or else at least as close to the one in float64 as the CPU's is.

    The operators of a derivative round after each step, which leaves it to luck who comes closer: there, twice the
    CPU's error and one rounding of the largest number are allowed.
    """
    try:
        torch.testing.assert_close(have, want, equal_nan=True)
    except AssertionError:
        if exact is None or not (want.is_floating_point() or want.is_complex()):
            raise
        right = exact().detach().to(torch.complex128 if want.is_complex() else torch.double)
        allowed = error(want.to(right.dtype), right)
        if derivative:
            allowed = 2 * allowed + torch.finfo(want.dtype).eps * right[right.isfinite()].abs().max().item()
        if not error(have.to(right.dtype), right) <= allowed:
            raise


def names_device(arguments: Arguments) -> bool:
    """Whether a call's result is on the device of its arguments (else it is made on the default device, the CPU)."""
    return any(isinstance(leaf, torch.Tensor | torch.device) for leaf in tree_leaves(arguments))


def assert_same(cpu: object, device: object, *, values: bool = True, strides: bool = True, on: str = DEVICE,
                exact: Callable[[], object] | None = None, derivative: bool = False) -> None:  # fmt: skip
    """Same structure, layouts, types, shapes, strides and values, on device `on`. `exact`: the results in float64."""
    expected, got = tree_leaves(cpu), tree_leaves(device)
    assert len(expected) == len(got)
    for i, (want, have) in enumerate(zip(expected, got, strict=True)):
        if not isinstance(want, torch.Tensor):
            if values and isinstance(want, int | float | complex):
                assert want == have or (cmath.isnan(want) and cmath.isnan(have))
            continue
        assert have.device.type == on
        assert (have.layout, have.dtype, have.shape) == (want.layout, want.dtype, want.shape)
        # The strides of an empty tensor address nothing; composed operators leave some odd ones.
        if strides and want.layout == torch.strided and not want.is_nested and want.numel():
            assert have.stride() == want.stride()
        if values:
            precise = None if exact is None else lambda i=i: tree_leaves(exact())[i]
            assert_close(have.detach().cpu(), want.detach(), precise, derivative)
