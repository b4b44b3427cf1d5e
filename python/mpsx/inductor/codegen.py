"""`torch.compile` with Inductor: the Metal code that PyTorch generates for its own MPS backend, compiled by
`mpsx.compile_shader`.

Nobody imports this: Inductor asks the device's module (`torch.mpsx`) for `Scheduling` and the classes beside it the
first time that it compiles anything, and device_module.py hands over what is here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._inductor.codecache import CodeCacheFuture
from torch._inductor.codegen.common import (
    DeviceOpOverrides,
    custom_backend_passes,
    register_device_op_overrides,
)
from torch._inductor.codegen.cpp_wrapper_mps import CppWrapperMps
from torch._inductor.codegen.mps import MetalKernel, MetalOverrides, MetalScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen as _PythonWrapperCodegen
from torch._inductor.codegen.wrapper_fxir import WrapperFxCodegen as _WrapperFxCodegen
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .. import _runtime
from ..shader.cache import digest
from ..shader.library import compile_shader
from . import loops

UNSUPPORTED = (torch.float64, torch.complex128)


class Overrides(MetalOverrides):
    """PyTorch's, with the operations that it leaves to nobody."""

    @staticmethod
    def copysign(a: Any, b: Any) -> str:
        """Metal's."""
        return f"metal::copysign({a}, {b})"

    @staticmethod
    def hypot(a: Any, b: Any) -> str:
        """Scaled by the larger, so that no square overflows; Metal has no hypot."""
        x, y = f"metal::abs(float({a}))", f"metal::abs(float({b}))"
        larger, smaller = f"metal::max({x}, {y})", f"metal::min({x}, {y})"
        ratio = f"({smaller} / {larger})"
        return (f"(metal::isinf({larger}) || {larger} == 0.0 ? {larger} : "
                f"{larger} * metal::precise::sqrt(1.0 + {ratio} * {ratio}))")  # fmt: skip

    @staticmethod
    def ldexp(a: Any, b: Any) -> str:
        """Metal's."""
        return f"metal::ldexp(float({a}), int({b}))"

    @staticmethod
    def logical_xor(a: Any, b: Any) -> str:
        """Of any types."""
        return f"(({a}) != 0) != (({b}) != 0)"

    @staticmethod
    def nextafter(a: Any, b: Any) -> str:
        """Metal's."""
        return f"metal::nextafter({a}, {b})"


def _unary(name: str) -> None:
    setattr(Overrides, name, staticmethod(lambda x: f"metal::precise::{name}({x})"))


for _name in ("acosh", "asinh", "cosh", "sinh"):
    _unary(_name)


class MpsxKernel(MetalKernel):
    """PyTorch's, with these operations."""

    overrides = Overrides

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.headers = OrderedSet(["utils"])  # not the class's own set, to which every kernel would add


class MpsxLoopKernel(loops.LoopKernel, MpsxKernel):
    """With reductions for drivers on which a threadgroup is one thread."""


class Scheduling(MetalScheduling):
    """PyTorch's, but for the device's name and who compiles the kernels of a graph."""

    @property
    def kernel_type(self) -> type[MpsxKernel]:
        """By the driver in use."""
        return MpsxLoopKernel if _runtime.driver()["simd_width"] == 1 else MpsxKernel

    def define_kernel(self, src_code: str, node_schedule: Any, kernel: Any) -> str:
        """Writes the kernel's source into the graph's Python module, which compiles all of them together."""
        wrapper = V.graph.wrapper_code
        if src_code in wrapper.src_to_kernel:
            return wrapper.src_to_kernel[src_code]
        if not getattr(wrapper, "has_mpsx_kernels", False):  # other devices' kernels are in src_to_kernel too
            wrapper.has_mpsx_kernels = True
            wrapper.header.writeline("from mpsx.inductor import Kernels")
            wrapper.header.writeline("mpsx_kernels = Kernels()")
        name = f"generated_kernel_{len(wrapper.src_to_kernel)}"
        wrapper.src_to_kernel[src_code] = name
        source = src_code.split("'''", 1)[1].rsplit("'''", 1)[0]
        lines = [line for line in source.split("\n") if not line.strip().startswith("#include")]
        body = "\n".join(lines).replace("kernel void generated_kernel(", f"kernel void {name}(")
        wrapper.header.writeline(f"{name} = mpsx_kernels.add({name!r}, {body!r}, {sorted(kernel.headers)!r})")
        return name


class Kernels:
    """The kernels of one graph: compiled as one library when the first is asked for."""

    def __init__(self) -> None:
        self.sources: list[str] = []
        self.headers: set[str] = set()
        self.library: Any = None

    def add(self, name: str, source: str, headers: list[str]) -> Kernel:
        """Adds a kernel; `headers` are those of c10/metal."""
        self.sources.append(source)
        self.headers.update(headers)
        return Kernel(self, name)

    def get(self, name: str) -> Callable[..., None]:
        """The kernel of that name, ready to be called."""
        if self.library is None:
            includes = [f"#include <c10/metal/{header}.h>\n" for header in sorted(self.headers)]
            self.library = compile_shader("".join(includes) + "".join(self.sources))
        kernel = getattr(self.library, name)
        return kernel if torch.__version__ >= "2.13" else LibraryOfOne(kernel)


class LibraryOfOne:
    """Older versions of Inductor have a library a kernel, and call the kernel by its name there."""

    def __init__(self, kernel: Callable[..., None]) -> None:
        self.generated_kernel = kernel

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.generated_kernel(*args, **kwargs)


class Kernel(CodeCacheFuture):
    """Stands for a kernel in a graph's module until Inductor replaces it by its result, or calls it."""

    def __init__(self, kernels: Kernels, name: str) -> None:
        self.kernels, self.name = kernels, name

    def result(self, timeout: float | None = None) -> Callable[..., None]:
        """The kernel itself."""
        return self.kernels.get(self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.kernels.get(self.name)(*args, **kwargs)


class PythonWrapperCodegen(_PythonWrapperCodegen):
    """The module around a graph's kernels; nothing of it is the device's."""


class CppWrapperCodegen(CppWrapperMps):
    """Ahead-of-time compilation writes calls into PyTorch's own mps, so that it is refused."""

    @staticmethod
    def create(*args: Any, **kwargs: Any) -> CppWrapperMps:
        """Inductor's way to make one."""
        raise NotImplementedError("mpsx: AOTInductor and cpp_wrapper are not supported; use torch.compile, or "
                                  "torch.export without a package of compiled code")  # fmt: skip


class WrapperFxCodegen(_WrapperFxCodegen):
    """As PyTorch's."""


class Interface(DeviceInterface):
    """The device's properties, as Dynamo and Inductor ask for them."""

    class Worker:
        """The same in Inductor's worker processes."""

        @staticmethod
        def get_device_properties(device: torch.types.Device = None) -> NamedTuple:
            """How many processors there are, by which Inductor sizes some of its choices."""
            return _Properties(torch.get_num_threads())

        @staticmethod
        def current_device() -> int:
            """There is one device."""
            return 0

    current_device = staticmethod(torch.mpsx.current_device)
    device_count = staticmethod(torch.mpsx.device_count)
    is_available = staticmethod(torch.mpsx.is_available)
    synchronize = staticmethod(torch.mpsx.synchronize)

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        """bfloat16 computes in float."""
        return True

    @classmethod
    def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
        """Metal has no double."""
        return dtype not in UNSUPPORTED

    @staticmethod
    def get_compute_capability(device: torch.types.Device = None) -> str:
        """A CUDA notion."""
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


class _Generator(CustomGraphModulePass):
    """Does nothing. Inductor's cache of graphs asks passes for an identity, and so tells code that was generated for
    different drivers apart, and by different versions of this package."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        """Never called, as no device has its name."""

    def uuid(self) -> str:
        driver = _runtime.driver()["name"] if _runtime.driver_started() else ""
        return digest(driver, *(Path(file).read_bytes() for file in (__file__, loops.__file__)))


custom_backend_passes["mpsx's generator"] = _Generator()
register_interface_for_device("mpsx", Interface)
register_device_op_overrides("mpsx", _DeviceOpOverrides())
