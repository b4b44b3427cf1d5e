"""The classes that Inductor looks up in the device's module: scheduling, wrapper code, and device properties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import sympy
import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._inductor import config
from torch._inductor.codegen.common import (
    CSEVariable,
    DeviceOpOverrides,
    custom_backend_passes,
    register_device_op_overrides,
)
from torch._inductor.codegen.cpp_wrapper_mps import CppWrapperMps
from torch._inductor.codegen.mps import MetalKernel, MetalScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen as _PythonWrapperCodegen
from torch._inductor.codegen.wrapper import SubgraphPythonWrapperCodegen
from torch._inductor.codegen.wrapper_fxir import WrapperFxCodegen as _WrapperFxCodegen
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.ir import IRNode
from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .. import _runtime
from .._build_info import VERSION
from ..shader.cache import digest
from ..shader.kernel_library import SOURCES
from . import (
    backward_process,
    batching,
    choices,
    coalescing,
    columns,
    compile_time,
    epilogues,
    float_arguments,
    loops,
    lowerings,
    preloading,
    replay,
    rows,
    saved_rng,
    vectors,
)
from .kernels import Kernels
from .lanes import runs_loops
from .nesting import known
from .overrides import Overrides

UNSUPPORTED = (torch.float64, torch.complex128)
MAX_BUFFERS = 27  # Metal has 31; sizes, the alignment of the addresses, and the error buffer need some


class MpsxKernel(MetalKernel):
    """A MetalKernel that generates code with mpsx's Overrides."""

    overrides = Overrides

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.headers = OrderedSet(["utils"])  # one set per kernel; the base class shares a single set
        self.functions: OrderedSet[tuple[str, str, str]] = OrderedSet()  # rows (tables.source)
        self.masks: tuple[CSEVariable, ...] = ()  # the current code runs only where all of them are true

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        """Return a dtype's Metal type. Generated kernels only copy complex numbers; Inductor calls eager kernels for
        all other operations on them."""
        return "float2" if dtype == torch.complex64 else super().dtype_to_str(dtype)

    @contextmanager
    def under_mask(self, mask: CSEVariable) -> Iterator[None]:
        """Record that the code within runs only where the mask is true."""
        outer, self.masks = self.masks, (*self.masks, mask)
        yield
        self.masks = outer


class MpsxVectorKernel(vectors.VectorKernel, coalescing.CoalescedKernel, MpsxKernel):
    """A kernel without a reduction for drivers with SIMD groups."""


class MpsxRowKernel(rows.RowKernel, MpsxKernel):
    """A kernel with a reduction for drivers with SIMD groups."""


class MpsxColumnKernel(columns.ColumnKernel, MpsxKernel):
    """A kernel that reduces columns, for drivers with SIMD groups."""


class MpsxLoopKernel(loops.LoopKernel, MpsxKernel):
    """A kernel for drivers that run one thread per threadgroup."""


def buffers(*nodes: BaseSchedulerNode) -> int:
    """Return the number of buffers accessed by a kernel fused from these nodes, not counting its internal buffers."""
    parts = [part for node in nodes for part in node.get_nodes()]
    inside = {part.get_name() for part in parts}
    results = [result for part in parts for result in part.get_outputs()]
    internal = {r.get_name() for r in results if all(user.get_name() in inside for user in r.users)}
    return len({dep.name for part in parts for dep in part.read_writes.reads_and_writes()} - internal)


def updates_shared_elements(*nodes: BaseSchedulerNode) -> bool:
    """Return whether all threads of a reduction would load elements that one of them updates, such as a running mean,
    if these nodes were fused. If all that follows the reductions is computed once per output, one thread does it."""
    parts = [part for node in nodes for part in node.get_nodes()]
    reductions = [part for part in parts if part.is_reduction()]
    others = [part for part in parts if not part.is_reduction()]
    if not reductions or not any(part.has_aliasing_or_mutation() for part in others):
        return False
    outputs = {part.group[1][0] for part in reductions}
    mutated = {name for part in others for result in part.get_outputs() for name in result.get_mutations()}
    real = V.graph.scheduler.mutation_real_name
    reads = {real.get(dep.name, dep.name) for part in reductions for dep in part.read_writes.reads}
    once = all(part.group[1] in {(n, 1) for n in outputs} for part in others)
    return not once or not reads.isdisjoint(real.get(name, name) for name in mutated)


class Scheduling(MetalScheduling):
    """A MetalScheduling that compiles kernels in the background."""

    @property
    def kernel_type(self) -> type[MpsxKernel]:
        """The kernel class for the driver in use."""
        return MpsxLoopKernel if runs_loops() else MpsxVectorKernel

    def create_kernel_choices(self, kernel_features: Any, kernel_args: Any, kernel_kwargs: Any) -> list[MpsxKernel]:
        """Return the kernel to generate."""
        chosen = self.kernel_type
        if kernel_features.is_reduction() and chosen is MpsxVectorKernel:
            has_columns = len(kernel_args[0]) == 2 and columns.reduces_columns(kernel_features)
            chosen = MpsxColumnKernel if has_columns else MpsxRowKernel
        return [chosen(*kernel_args, **kernel_kwargs)]

    @classmethod
    def get_tiling_and_scores(cls, node_schedule: Any, numel: sympy.Expr, reduction_numel: sympy.Expr = sympy.S.One,
                              *args: Any) -> tuple[dict[str, sympy.Expr], Any]:  # fmt: skip
        """Choose the index variables of a kernel. Loops need only one, because they nest by themselves: with two, the
        inner one would run over a whole dimension before the next element of the other one is accessed."""
        if runs_loops() and known(numel, reduction_numel):
            return cls.create_tiling([numel], [reduction_numel]), None
        return super().get_tiling_and_scores(node_schedule, numel, reduction_numel, *args)

    def codegen_node(self, node: Any) -> None:
        """Generate the kernel of a node. Only tiles of several index variables depend on the analysis of memory
        accesses."""
        with config.patch({"triton.coalesce_tiling_analysis": False}) if runs_loops() else nullcontext():
            super().codegen_node(node)

    def codegen_combo_kernel(self, combo_kernel_node: Any) -> None:
        """Reject Inductor's option `combo_kernels`, which only Triton supports. batching.py fuses small kernels."""
        raise NotImplementedError("mpsx: combo_kernels is not supported; small kernels are fused without it")

    def can_fuse_vertical(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """Return whether to fuse a node with a consumer of its results."""
        return self.fits_kernel(node1, node2) and super().can_fuse_vertical(node1, node2)

    def can_fuse_horizontal(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """Return whether to fuse nodes that read the same buffers."""
        return self.fits_kernel(node1, node2) and super().can_fuse_horizontal(node1, node2)

    def fits_kernel(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """Return whether one kernel can compute both nodes."""
        one_thread = self.kernel_type is MpsxLoopKernel
        return buffers(node1, node2) <= MAX_BUFFERS and (one_thread or not updates_shared_elements(node1, node2))

    def define_kernel(self, src_code: str, node_schedule: Any, kernel: Any) -> str:
        """Start compiling a kernel, and write its source into the graph's Python module."""
        wrapper = root_of(V.graph.wrapper_code)
        if src_code in wrapper.src_to_kernel:
            return wrapper.src_to_kernel[src_code]
        if not hasattr(wrapper, "mpsx_kernels"):  # src_to_kernel also contains kernels for other devices
            wrapper.mpsx_kernels = Kernels()
            wrapper.header.writeline("from mpsx.inductor import Kernels")
            wrapper.header.writeline("mpsx_kernels = Kernels(globals())")
        name = f"generated_kernel_{len(wrapper.src_to_kernel)}"
        wrapper.src_to_kernel[src_code] = name
        source = src_code.split("'''", 1)[1].rsplit("'''", 1)[0]
        lines = [line for line in source.split("\n") if not line.strip().startswith("#include")]
        body = "\n".join(lines).replace("generated_kernel", name)
        vector_size = getattr(kernel, "vector_size", 1)
        arguments = (name, body, sorted(kernel.headers), sorted(kernel.functions), vector_size)
        wrapper.mpsx_kernels.add(*arguments)
        wrapper.header.writeline(f"{name} = mpsx_kernels.add{arguments!r}")
        return name


def root_of(wrapper: _PythonWrapperCodegen) -> _PythonWrapperCodegen:
    """Return the wrapper of the module that contains a graph's kernels."""
    return wrapper.get_root_graph() if isinstance(wrapper, SubgraphPythonWrapperCodegen) else wrapper


def is_float64(argument: Any) -> bool:
    """Return whether a kernel's argument is a float64 tensor. Its device is the CPU, and it has one element. Dynamo
    passes Python floats that change between calls as such tensors."""
    buffer = V.graph.try_get_buffer(argument)
    return isinstance(buffer, IRNode) and buffer.get_dtype() == torch.float64


class _MpsxCalls:
    """A mixin that generates code for allocations and kernel calls."""

    def generate_kernel_call(self, kernel_name: str, call_args: Sequence[Any], *, device: torch.device | None = None,
                             **options: Any) -> None:  # fmt: skip
        """Write the call of a kernel. Metal has no float64, so pass the value of such a tensor as a number."""
        if device is not None and device.type == "mps":  # MetalKernel passes this device
            call_args = [f"{arg}.item()" if is_float64(arg) else arg for arg in call_args]
        super().generate_kernel_call(kernel_name, call_args, device=device, **options)

    def make_allocation(self, name: str, device: torch.device, dtype: torch.dtype, shape: Sequence[Any],
                        stride: Sequence[Any], allocation_shape: Sequence[Any] | None = None,
                        is_pinned: bool = False) -> str:  # fmt: skip
        """Return the allocation of a buffer. On mpsx, it does not pass through PyTorch's dispatcher."""
        if device.type != "mpsx":
            return super().make_allocation(name, device, dtype, shape, stride, allocation_shape, is_pinned)
        sizes, strides = self.codegen_python_shape_tuple(shape), self.codegen_python_shape_tuple(stride)
        allocated = sizes if allocation_shape is None else self.codegen_python_shape_tuple(allocation_shape)
        view = f".as_strided({sizes}, {strides})" if allocated != sizes else ""
        return f"{name} = empty_strided_mpsx({allocated}, {strides}, {dtype}){view}"


class SubgraphWrapperCodegen(_MpsxCalls, SubgraphPythonWrapperCodegen):
    """The wrapper code generation for a function in a graph's module."""


class PythonWrapperCodegen(_MpsxCalls, _PythonWrapperCodegen):
    """PyTorch's wrapper code generation, with faster allocations and checks of layouts."""

    @staticmethod
    def create(is_subgraph: bool, *args: Any, **kwargs: Any) -> _PythonWrapperCodegen:
        """Return the wrapper code generator for a graph or a subgraph."""
        return SubgraphWrapperCodegen(*args, **kwargs) if is_subgraph else PythonWrapperCodegen()

    def generate(self, is_inference: bool) -> Any:
        """Return the module's text. All kernels are complete, so start compiling the last ones."""
        kernels = getattr(self, "mpsx_kernels", None)
        if kernels and kernels.waiting:
            kernels.start()
        return super().generate(is_inference)

    def write_header(self) -> None:
        """Write the header, and import the functions that replace slower ones of PyTorch."""
        super().write_header()
        self.header.writeline("from mpsx._shader import assert_size_stride, empty_strided_mpsx")


class CppWrapperCodegen(CppWrapperMps):
    """Reject ahead-of-time compilation, which would emit calls to PyTorch's mps backend."""

    @staticmethod
    def create(*args: Any, **kwargs: Any) -> CppWrapperMps:
        """Raise NotImplementedError."""
        raise NotImplementedError("mpsx: AOTInductor and cpp_wrapper are not supported; use torch.compile, or "
                                  "torch.export without ahead-of-time compilation")  # fmt: skip


class WrapperFxCodegen(_WrapperFxCodegen):
    """PyTorch's FX wrapper code generation, unchanged."""


class Interface(DeviceInterface):
    """The device interface for Dynamo and Inductor."""

    class Worker:
        """The part of the interface that Inductor's compile workers use."""

        @staticmethod
        def get_device_properties(device: torch.types.Device = None) -> NamedTuple:
            """Return the number of processors, which Inductor's heuristics use."""
            return _Properties(choices.processors())

        @staticmethod
        def current_device() -> int:
            """Return the index of the only device."""
            return 0

    current_device = staticmethod(torch.mpsx.current_device)
    device_count = staticmethod(torch.mpsx.device_count)
    is_available = staticmethod(torch.mpsx.is_available)
    synchronize = staticmethod(torch.mpsx.synchronize)

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        """Return True. bfloat16 kernels compute in float."""
        return True

    @classmethod
    def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
        """Return False for double and complex double, which Metal lacks."""
        return dtype not in UNSUPPORTED

    @staticmethod
    def get_compute_capability(device: torch.types.Device = None) -> str:
        """Return an empty string, because only CUDA has compute capabilities."""
        return ""


class _Properties(NamedTuple):
    multi_processor_count: int


class _DeviceOpOverrides(DeviceOpOverrides):
    def device_guard(self, device_idx: int) -> str:
        return "torch._ops.contextlib.nullcontext()"

    def set_device(self, device_idx: int) -> str:
        return "pass"

    def synchronize(self) -> str:
        return "torch.mpsx.synchronize()"


class _CacheKey(CustomGraphModulePass):
    """A no-op pass whose uuid adds to Inductor's cache key what generated code depends on: mpsx's version, this
    package's code, the driver, and the number of processors, which decides how reductions are split."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        """Do nothing. Inductor never calls this pass, because it is registered under a name that no device has."""

    def uuid(self) -> str:
        started = _runtime.driver_started()  # otherwise the graph is for another device
        device = f"{_runtime.driver()['name']} {choices.processors()}" if started else ""
        files = [*Path(__file__).parent.glob("*.py"), *SOURCES.glob("*/*.def")]
        return digest(VERSION, device, *(path.read_bytes() for path in sorted(files)))


custom_backend_passes["mpsx cache key"] = _CacheKey()
register_interface_for_device("mpsx", Interface)
register_device_op_overrides("mpsx", _DeviceOpOverrides())
lowerings.install()
float_arguments.install()
saved_rng.install()
choices.install()
epilogues.install()
batching.install()
replay.install()
compile_time.install()
preloading.install()
backward_process.install()
