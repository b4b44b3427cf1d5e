"""Lowerings of ATen operators to the rows of tables.py, for tensors on mpsx.

Inductor's tables of decompositions and lowerings are global. Wrap their entries for these operators: use the row if a
tensor argument is on mpsx, otherwise call the previous entry.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy
import torch
from torch._C import DispatchKey
from torch._inductor import decomposition, lowering
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.fx_passes import post_grad
from torch._inductor.ir import TensorBox
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.shape_propagation import ShapePropagationOpsHandler
from torch._inductor.virtualized import V, ops
from torch._ops import OpOverload
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Promotion
from torch.utils._pytree import tree_leaves, tree_map_only

from . import foreach
from .decompositions import DECOMPOSITIONS, keep_roundings
from .lanes import runs_loops
from .overrides import METAL_TYPES, dtype_of
from .signatures import SIGNATURES, Call
from .tables import Row, rows

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
TYPES = {"FLOAT": FLOATS, "REAL": FLOATS + INTEGERS, "INT": INTEGERS, "BITS": (*INTEGERS, torch.bool),
         "ALL": (*FLOATS, *INTEGERS, torch.bool)}  # fmt: skip
MIN_ROWS, MIN_COLUMNS = 64, 32  # smaller sums of columns are fused
POOLING = (torch.ops.aten.max_pool2d_with_indices.default, torch.ops.aten.max_pool2d_with_indices_backward.default)
POOLING_GRADIENTS = (torch.ops.aten.avg_pool2d_backward.default, torch.ops.aten.avg_pool3d_backward.default)
PROMOTIONS = {"FLOATING": Promotion.INT_TO_FLOAT, "COMMON": Promotion.DEFAULT, "SAME": Promotion.DEFAULT}


class Unsupported(Exception):
    """Raised if a row does not support the arguments."""


def on_mpsx(values: Any) -> bool:
    """Return whether any argument is a tensor on mpsx."""
    for value in tree_leaves(values):
        if isinstance(value, torch.Tensor):
            device = value.device
        elif isinstance(value, TensorBox):
            device = value.get_device()
        else:
            continue
        if device is not None and device.type == "mpsx":
            return True
    return False


def is_number(operand: Any) -> bool:
    """Return whether an operand is a tensor on the CPU, which must have no dimensions. Eager kernels treat it like a
    Python number, and Dynamo passes Python floats that change between calls as such tensors."""
    return isinstance(operand, TensorBox) and operand.get_device().type == "cpu"


def constant(number: TensorBox) -> Any:
    """Return the value of a constant, for which Inductor would otherwise compile a C++ kernel. Return others as is."""
    found = lowering.get_constant_value(number)
    return number if found is None else found.value


def number_as_in_eager(row: Row, index: int, operand: Any, promoted: Any, dtype: torch.dtype) -> Any:
    """Return an operand of a 16-bit operator. If it is a number, round it as the eager kernel does, which keeps the
    right operand of EXACT rows in float32."""
    exact = row.number == "EXACT" and (index == 1 or not is_number(operand))
    value = constant(operand) if is_number(operand) else promoted
    if isinstance(value, bool | int | float):
        return value if exact else torch.tensor(value, dtype=dtype).item()
    if exact and is_number(operand):
        return lowering.expand(lowering.to_dtype(operand, torch.float32), promoted.get_size())
    return promoted


def pointwise(row: Row, operands: Sequence[Any], scalars: Sequence[float]) -> TensorBox:
    """Return the result of a row after type promotion and broadcasting."""
    if not any(isinstance(x, TensorBox) for x in operands) or not all(isinstance(s, int | float) for s in scalars):
        raise Unsupported  # the scalars are symbolic
    if row.promotion == "SAME" and len({x.get_dtype() for x in operands if isinstance(x, TensorBox)}) > 1:
        raise Unsupported
    args, _ = lowering.transform_args(list(operands), {}, True, PROMOTIONS[row.promotion], False)
    dtype = next(x for x in args if isinstance(x, TensorBox)).get_dtype()
    if dtype not in TYPES[row.types] or (row.promotion == "SAME" and dtype != operands[0].get_dtype()):
        raise Unsupported
    if dtype in (torch.float16, torch.bfloat16):
        given = enumerate(zip(operands, args, strict=True))
        args = [number_as_in_eager(row, i, operand, promoted, dtype) for i, (operand, promoted) in given]
    element, scalars = METAL_TYPES[dtype], tuple(scalars)

    def inner(*values: Any) -> Any:
        return ops.mpsx_row(row.name, element, scalars, *values)

    result = torch.bool if row.returns_bool else torch.int32 if row.name == "frexp_exponent" else dtype
    return lowering.make_pointwise(inner, override_return_dtype=result)(*args)


def computes_float64_number(values: Any) -> bool:
    """Return whether the operands are float64 numbers on the CPU in a graph for mpsx. Fused into a kernel, the operator
    would be computed in float32."""
    operands = [x for x in tree_leaves(values) if isinstance(x, TensorBox)]
    if "mpsx" not in V.graph.device_types or not all(map(is_number, operands)):
        return False
    return any(x.get_dtype() == torch.float64 for x in operands) and not any(x.get_size() for x in operands)


def run(call: Call) -> Any:
    """Lower a call returned by a signature."""
    if isinstance(call, list):
        return tuple(run(part) for part in call)
    name, operands, scalars = call
    operands = [run(x) if isinstance(x, tuple) else x for x in operands]
    if name == "copy":
        return lowering.clone(operands[0])
    return pointwise(rows()[name], operands, scalars)


def binary_signature(row: Row) -> Callable[..., Call]:
    """Return the signature of an operator whose arguments are the row's operands and possibly alpha."""
    if row.number == "ALPHA":
        return lambda a, b, alpha=1: (row.name, [a, b], [alpha])
    return lambda *operands: (row.name, operands, ())


def overloads(row: Row) -> Iterator[OpOverload]:
    """Yield the overloads of a row's operator whose arguments are the row's operands and possibly alpha."""
    packet = getattr(torch.ops.aten, row.name, None)
    for overload in packet.overloads() if packet else ():
        op = getattr(packet, overload)
        arguments = [a for a in op._schema.arguments if not a.is_out]
        names = {a.name for a in arguments[len(row.operands) :]}
        results = op._schema.returns
        plain = len(results) == 1 and str(results[0].type) == "Tensor" and not op._schema.is_mutable
        if plain and len(arguments) >= len(row.operands) and names <= {"alpha"} and not overload.endswith("_mode"):
            yield op


@functools.cache
def signatures() -> dict[OpOverload, Callable[..., Call]]:
    """Map each overload to its signature: a function from the overload's arguments to a row's name, operands, and
    scalars."""
    found = {}
    for row in rows().values():
        if row.table in ("unary", "binary", "compare", "special"):
            found |= dict.fromkeys(overloads(row), binary_signature(row))
    for name, signature in SIGNATURES.items():
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if op is not None:
            found[op] = signature
    return found | foreach.signatures()


def lowered(op: OpOverload, signature: Callable[..., Call], previous: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a lowering of `op` that uses the signature's row for mpsx, and `previous` for other devices."""

    @functools.wraps(previous or signature)
    def lower(*args: Any, **kwargs: Any) -> Any:
        if on_mpsx((args, kwargs)):
            try:
                call = signature(*args, **kwargs)
                if call is not None:
                    return run(call)
            except Unsupported:
                pass
            if previous is None or op in decomposition.decompositions:
                return lowering.fallback_handler(op, add_to_fallback_set=False)(*args, **kwargs)
        elif computes_float64_number((args, kwargs)):
            args, kwargs = tree_map_only(TensorBox, constant, (args, kwargs))
            return lowering.fallback_handler(op, add_to_fallback_set=False)(*args, **kwargs)
        if previous is None:
            return lowering.fallback_handler(op, add_to_fallback_set=False)(*args, **kwargs)
        return previous(*args, **kwargs)

    return lower


def undecomposed(previous: Callable[..., Any], where: Callable[[Any], bool] = on_mpsx) -> Callable[..., Any]:
    """Return a decomposition that leaves operators undecomposed if `where` holds for their arguments."""

    @functools.wraps(previous)
    def decompose(*args: Any, **kwargs: Any) -> Any:
        return NotImplemented if where((args, kwargs)) else previous(*args, **kwargs)

    return decompose


def is_real(values: Any) -> bool:
    """Return whether an operand on mpsx is not complex. Rows support only real numbers."""
    return on_mpsx(values) and not any(isinstance(x, torch.Tensor) and x.is_complex() for x in tree_leaves(values))


def _result_dtype(name: str, element: str, scalars: tuple[float, ...], *values: Any) -> torch.dtype:
    """Return the result dtype of the operation mpsx_row."""
    row = rows()[name]
    if row.returns_bool:
        return torch.bool
    found = functools.reduce(torch.promote_types, map(dtype_of, values))
    return torch.int32 if name == "frexp_exponent" else torch.float32 if found.is_floating_point else found


def _add_operation() -> None:
    """Add the operation mpsx_row to Inductor's ops handlers."""
    DefaultHandler.mpsx_row = DefaultHandler._call_default("mpsx_row")
    DtypePropagationOpsHandler.mpsx_row = staticmethod(_result_dtype)
    ShapePropagationOpsHandler.mpsx_row = staticmethod(lambda *_: None)


def decomposed(own: Callable[..., Any], previous: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decomposition that calls `own` for mpsx and `previous` for other devices."""

    @functools.wraps(previous)
    def decompose(*args: Any, **kwargs: Any) -> Any:
        return (own if on_mpsx((args, kwargs)) else previous)(*args, **kwargs)

    return decompose


def _eager(*args: Any, **kwargs: Any) -> Call:
    """The signature of an operator that should run its eager kernel."""
    return None


def _keep_in_autograd(op: OpOverload) -> None:
    """Prevent a decomposition that PyTorch would otherwise apply in autograd during tracing."""
    own = op.py_kernels.get(DispatchKey.Autograd)
    if own is None:
        return

    @functools.wraps(own)
    def keep(*args: Any, **kwargs: Any) -> Any:
        if not on_mpsx((args, kwargs)):
            return own(*args, **kwargs)
        with torch._C._DisablePythonDispatcher():
            return op(*args, **kwargs)

    op.py_kernels[DispatchKey.Autograd] = keep
    op._dispatch_cache.clear()


def reduces_columns(x: TensorBox, axis: Sequence[int] | None) -> bool:
    """Return whether a sum reduces many rows but not the last dimension, on a driver with SIMD groups. Inductor would
    give each column a threadgroup, whose threads would access one element per row."""
    sizes = x.get_size()
    if not sizes or not axis or not all(isinstance(size, int | sympy.Integer) for size in sizes):
        return False
    axes = {a % len(sizes) for a in axis}
    if len(sizes) - 1 in axes:
        return False
    rows = math.prod(sizes[a] for a in axes)
    return rows >= MIN_ROWS and math.prod(sizes) >= MIN_COLUMNS * rows and not runs_loops()


def summed(previous: Callable[..., Any]) -> Callable[..., Any]:
    """Return a lowering of sum that calls the eager kernel for sums of columns."""
    eager = lowering.fallback_handler(torch.ops.aten.sum.dim_IntList, add_to_fallback_set=False)

    @functools.wraps(previous)
    def lower(x: TensorBox, axis: Any = None, keepdims: bool = False, *, dtype: torch.dtype | None = None) -> Any:
        if on_mpsx(x) and reduces_columns(x, axis):
            return eager(x, axis, keepdims, dtype=dtype)
        return previous(x, axis, keepdims, dtype=dtype)

    return lower


def call_eager_kernel(op: OpOverload, where: Callable[[Any], bool]) -> None:
    """Let the lowering of an operator call the eager kernel if `where` holds for the arguments."""
    previous, eager = lowering.lowerings[op], lowering.fallback_handler(op, add_to_fallback_set=False)

    @functools.wraps(previous)
    def lower(*args: Any, **kwargs: Any) -> Any:
        return (eager if where((args, kwargs)) else previous)(*args, **kwargs)

    lowering.lowerings[op] = lower


def is_empty(values: Any) -> bool:
    """Return whether a reduction's input is empty. Inductor's mean of no elements is 0, and should be NaN."""
    return on_mpsx(values) and any(size == 0 for size in values[0][0].get_size())


def adds_narrow_elements(dtype: torch.dtype) -> bool:
    """Return whether the current operator must call its eager kernel to add elements of a type at indices. A generated
    kernel would use an atomic operation on 32 bits, which also accesses the next element or the end of the buffer."""
    return dtype.itemsize < 4 and on_mpsx(V.graph.current_node.meta.get("val"))


def _call_eager_kernels_for_narrow_sums() -> None:
    needs_fallback, uses_fallback = lowering.needs_fallback_due_to_atomic_add_limitations, lowering.use_scatter_fallback

    def of_index_put(dtype: torch.dtype) -> bool:
        return needs_fallback(dtype) or adds_narrow_elements(dtype)

    def of_scatter(op: OpOverload, reduction: str | None, dtype: torch.dtype, *args: Any) -> bool:
        adds = reduction in ("add", "sum") and adds_narrow_elements(dtype)
        return adds or uses_fallback(op, reduction, dtype, *args)

    lowering.needs_fallback_due_to_atomic_add_limitations = of_index_put
    lowering.use_scatter_fallback = of_scatter


def _undecomposable() -> dict[OpOverload, Callable[..., Call]]:
    """Return the operators whose decompositions draw different random numbers than eager mode, or round and add in a
    different order."""
    aten = torch.ops.aten
    return dict.fromkeys((aten.bernoulli.default, aten.bernoulli.p, aten.mvlgamma.default), _eager)


def pools_in_loops(values: Any) -> bool:
    """Return whether to call the eager kernels of pooling. Their loops have no branch per element of a window."""
    return on_mpsx(values) and runs_loops()


def counts_padding_of_partial_windows(values: Any) -> bool:
    """Return whether windows of average pooling may extend beyond the padding, and padding counts. Inductor's gradients
    divide by the size of a whole window, and should divide by its part inside the padding."""
    _grad, _input, _kernel, _stride, _padding, ceil_mode, count_include_pad, *_divisor = values[0]
    return on_mpsx(values) and ceil_mode and count_include_pad


def _choose_mpsx_over_cpu() -> None:
    """Let lowerings of elementwise operators compute on mpsx although the first operand is a number on the CPU, as
    PyTorch does for the GPUs that it knows."""
    is_gpu = lowering.is_gpu
    lowering.is_gpu = lambda device: device == "mpsx" or is_gpu(device)


def install() -> None:
    """Wrap the lowerings and decompositions."""
    _add_operation()
    _choose_mpsx_over_cpu()
    # PyTorch's rule for aten.round, which removes it for integers, does not accept the number of decimals.
    post_grad.noop_registry.pop(torch.ops.aten.round.decimals, None)
    if torch.__version__ < "2.13":
        keep_roundings()
    angle = decomposition.decompositions[torch.ops.aten.angle.default]
    for op, own in DECOMPOSITIONS.items():
        decomposition.decompositions[op] = decomposed(own, decomposition.decompositions[op])
    for op, signature in {**signatures(), **_undecomposable()}.items():
        _keep_in_autograd(op)
        lowering.lowerings[op] = lowered(op, signature, lowering.lowerings.get(op))
        if op in decomposition.decompositions:
            decomposition.decompositions[op] = undecomposed(decomposition.decompositions[op])
    # The eager kernel returns contiguous angles, as on the CPU, but PyTorch's graphs expect the layout of the input.
    decomposition.decompositions[torch.ops.aten.angle.default] = undecomposed(angle, is_real)
    columns = torch.ops.aten.sum.dim_IntList
    lowering.lowerings[columns] = summed(lowering.lowerings[columns])
    call_eager_kernel(torch.ops.aten.var_mean.correction, is_empty)
    for op in POOLING_GRADIENTS:
        call_eager_kernel(op, counts_padding_of_partial_windows)
    for op in POOLING:
        call_eager_kernel(op, pools_in_loops)
        if op in decomposition.decompositions:
            decomposition.decompositions[op] = undecomposed(decomposition.decompositions[op], pools_in_loops)
    for op in foreach.signatures().keys() & lowering.inplaceable_foreach_ops.keys():
        lowering.lowerings[lowering.inplaceable_foreach_ops[op]] = foreach.in_place(op, on_mpsx)
    _call_eager_kernels_for_narrow_sums()
    decomposition.fast_random_decomps.cache_clear()
