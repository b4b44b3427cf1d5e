"""`torch.compile` with Inductor. Reuses PyTorch's Metal code generation for MPS, and compiles with `compile_shader`.

Inductor looks up these classes in the device's module (`torch.mpsx`) when it first compiles a graph. Only then does
torch.mpsx import this package.
"""

from .codegen import CppWrapperCodegen, Kernels, PythonWrapperCodegen, Scheduling, WrapperFxCodegen

__all__ = ["CppWrapperCodegen", "Kernels", "PythonWrapperCodegen", "Scheduling", "WrapperFxCodegen"]
