"""Patches for PyTorch's own Python code: higher-order operators, torch.distributed, fake convolutions, Inductor,
collect_env."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import torch
from torch._C import DispatchKey

from ..distributed import comm_hooks, dtensor, process_groups
from .rewrite import line


def _higher_order_operators(module: ModuleType) -> None:
    """Let operators on functions, such as cond, ignore autocast as on other devices. It applies to the functions."""
    key = DispatchKey.AutocastPrivateUse1
    module._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(key)
    for operator in module._higher_order_ops.values():
        if key not in operator.py_kernels:
            operator.fallthrough(key)


def _flex_attention(module: ModuleType) -> None:
    """Compute FlexAttention with matmuls where PyTorch's Metal kernel lacks a feature: gradients, the logsumexp and max
    outputs, and symbolic sizes. Under autocast, also cast the inputs."""
    operator = module.flex_attention
    fused = operator.py_kernels[DispatchKey.Autograd]

    def dense(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score_mod: object, block_mask: tuple,
              scale: float, options: dict, captured: tuple = (), mask_captured: tuple = ()) -> tuple:  # fmt: skip
        rest = (score_mod, block_mask, scale, options, captured, mask_captured)
        inputs = (query, key, value, *captured)
        gradients = torch.is_grad_enabled() and any(getattr(tensor, "requires_grad", False) for tensor in inputs)
        statistics = options.get("OUTPUT_LOGSUMEXP") or options.get("OUTPUT_MAX")
        sizes = any(isinstance(value, torch.SymInt) for value in (*captured, *mask_captured))
        if not (query.is_mpsx and (gradients or statistics or sizes or not _METAL_FLEX)):
            return fused(query, key, value, *rest)
        out, logsumexp, largest = module.math_attention(query, key, value, *rest)
        return module._permute_strides(out, query.stride()), logsumexp, largest.detach()

    def under_autocast(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: object) -> tuple:
        kind = query.device.type
        cast = (module._autocast_cast(x, kind, torch.get_autocast_dtype(kind)) for x in (query, key, value))
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(DispatchKey.AutocastPrivateUse1)):
            return operator(*cast, *rest)

    operator.py_kernels[DispatchKey.Autograd] = dense
    operator.py_impl(DispatchKey.AutocastPrivateUse1)(under_autocast)
    operator._dispatch_cache.clear()


def _collect_env(module: ModuleType) -> None:
    """Append `python -m mpsx info` to the output of `python -m torch.utils.collect_env`. Patch the source as well,
    because `-m` executes the module's code a second time."""
    loader = module.__spec__.loader
    last = 'if __name__ == "__main__":'

    class Reporting(type(loader)):
        def get_code(self, name: str) -> object:
            source = self.get_source(name)
            if source.count(last) != 1:
                raise ValueError(f"{name} has changed, expected {last!r}")
            return self.source_to_code(source.replace(last, f"{_REPORT}\n{last}"), self.get_filename(name))

    module.__spec__.loader = Reporting(loader.name, loader.path)
    exec(_REPORT, vars(module))


def _inductor(module: ModuleType) -> None:
    """Replace decompositions and lowerings before Inductor traces its first graph."""
    importlib.import_module("mpsx.inductor")


_REPORT = """
def _with_mpsx(pretty_str):
    def with_report(environment):
        from mpsx.cli.info import report
        return pretty_str(environment) + "\\n\\n" + report()
    return with_report
pretty_str = _with_mpsx(pretty_str)
"""
# Whether this version of PyTorch has FlexAttention for Metal.
_METAL_FLEX = (Path(torch.__file__).parent / "_inductor" / "codegen" / "metal_flex_attention_template.py").exists()

PATCHES = {
    "torch.distributed.distributed_c10d": (process_groups.register,),
    "torch.distributed.tensor._ops._matrix_ops": (dtensor.attention,),
    "torch.nn.parallel.distributed": (comm_hooks.bfloat16,),
    "torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks": (comm_hooks.quantization,),
    "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook": (comm_hooks.power_sgd,),
    "torch.utils.collect_env": (_collect_env,),
    "torch._ops": (_higher_order_operators,),
    "torch._higher_order_ops.flex_attention": (_flex_attention,),
    "torch.nn.attention.flex_attention": (
        line("_validate_device", "supported_devices = {", 'supported_devices = {"mpsx", '),
        # On mpsx, compute logsumexp only when it is requested.
        line("_apply_kernel_options", "= torch.is_grad_enabled()", "= torch.is_grad_enabled() and not query.is_mpsx"),
    ),
    # A convolution's output is channels-last if the input or the weight is.
    "torch._subclasses.fake_impls": (
        line("conv", "torch._C._conv_determine_backend_memory_format(", "torch.mpsx._convolution_format("),
    ),
    # The means and inverse standard deviations have the dtype of the parameters.
    "torch._refs": (
        line("native_layer_norm", 'if input.device.type in ["cpu", "mtia"]:',
             "if input.is_mpsx:\n"
             "        parameter = next((x for x in (weight, bias) if x is not None), input)\n"
             "        mean, rstd = mean.to(parameter.dtype), rstd.to(parameter.dtype)\n"
             '    if input.device.type in ["cpu", "mtia"]:'),
        *(line("native_group_norm", f"_maybe_convert_to_dtype({x}, input.dtype)",
               f"_maybe_convert_to_dtype({x}, (weight if input.is_mpsx and weight is not None else input).dtype)")
          for x in ("mean", "rstd")),
    ),
    "torch._inductor.compile_fx": (_inductor,),
    # Keep addcdiv with a constant factor in one piece, to compute and round as in eager mode.
    "torch._dynamo.variables.torch": (
        line("TorchInGraphFunctionVariable._get_handlers",
             'if len(args) == 3 and "value" in kwargs and len(kwargs) == 1:',
             'if (len(args) == 3 and "value" in kwargs and len(kwargs) == 1 and not (\n'
             '                kwargs["value"].is_python_constant() and\n'
             '                getattr(args[0], "device", None) == torch.device("mpsx", 0))):'),
    ),
    # Convolutions add the bias before they round the result.
    "torch._inductor.kernel.conv": (
        line("convolution", 'device_type != "cpu"', 'device_type not in ("cpu", "mpsx")'),
    ),
    # Metal has neither double nor float8, so do not compile operators on these dtypes.
    "torch._inductor.lowering": (
        line("unsupported_input_tensor", "if t.is_meta:",
             "if t.is_meta or (t.is_mpsx and not torch.mpsx._has_metal_type(t.dtype)):"),
    ),
}
if _METAL_FLEX:
    PATCHES["torch.nn.attention.flex_attention"] += (
        # Limit PyTorch's check to its own mps device.
        line("_validate_device", 'if query.device.type == "mps" and (',
             'if query.device.type == "mps" and not torch.mpsx.is_mps() and ('),
    )  # fmt: skip
    PATCHES["torch._inductor.kernel.flex.flex_attention"] = tuple(
        line(where, 'get_device().type == "mps"', 'get_device().type in ("mps", "mpsx")')
        for where in ("flex_attention", "flex_attention_backward")
    )
    PATCHES["torch._inductor.codegen.metal_flex_attention_template"] = (
        line("MetalFlexAttentionNode.codegen",
             '"from torch._inductor.runtime.runtime_utils import compile_mps_shader"',
             '"from torch.mpsx import compile_shader as compile_mps_shader" if self.get_device().type == "mpsx" else '
             '"from torch._inductor.runtime.runtime_utils import compile_mps_shader"'),
    )  # fmt: skip
