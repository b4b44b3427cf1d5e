"""`torch.compile` with Inductor: PyTorch's Metal code generation for its MPS backend, compiled by `compile_shader`.

Inductor asks the device's module (`torch.mpsx`) for these classes when it first compiles a graph; torch.mpsx imports
this package then.
"""

from .codegen import CppWrapperCodegen, Kernels, PythonWrapperCodegen, Scheduling, WrapperFxCodegen

__all__ = ["CppWrapperCodegen", "Kernels", "PythonWrapperCodegen", "Scheduling", "WrapperFxCodegen"]
