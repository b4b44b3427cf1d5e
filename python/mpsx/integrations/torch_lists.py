"""Lists of devices in PyTorch's own Python code: FlexAttention, torch.distributed, fake convolutions, Inductor."""

from __future__ import annotations

from mpsx import distributed

from .rewrite import line

_FORMAT = "torch._C._conv_determine_backend_memory_format(\n                input_, weight, conv_backend\n            )"

PATCHES = {
    "torch.distributed.distributed_c10d": (distributed.register,),
    "torch.nn.attention.flex_attention": (
        line("_validate_device", '"hpu", "mps"}', '"hpu", "mps", "mpsx"}'),
        # Of PyTorch's own mps alone.
        line("_validate_device", 'if query.device.type == "mps" and (',
             'if query.device.type == "mps" and not torch.mpsx.is_mps() and ('),
    ),
    # A convolution's result is channels last where the input or the weight is.
    "torch._subclasses.fake_impls": (
        line("conv", _FORMAT, f"torch.mpsx._convolution_format(input_, weight) if input_.is_mpsx else {_FORMAT}"),
    ),
    # Metal has no double: such graphs are made of calls, each of which falls back.
    "torch._inductor.lowering": (
        line("unsupported_input_tensor", "if t.is_meta:", "if t.is_meta or (t.is_mpsx and t.dtype == torch.float64):"),
    ),
    "torch._inductor.kernel.flex.flex_attention": tuple(
        line(where, 'get_device().type == "mps"', 'get_device().type in ("mps", "mpsx")')
        for where in ("flex_attention", "flex_attention_backward")
    ),
    "torch._inductor.codegen.metal_flex_attention_template": (
        line("MetalFlexAttentionNode.codegen",
             '"from torch._inductor.runtime.runtime_utils import compile_mps_shader"',
             '"from torch.mpsx import compile_shader as compile_mps_shader" if self.get_device().type == "mpsx" else '
             '"from torch._inductor.runtime.runtime_utils import compile_mps_shader"'),
    ),
}  # fmt: skip
