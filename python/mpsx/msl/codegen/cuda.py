"""Code generation for CUDA: each thread of a threadgroup is a GPU thread, and each kernel is a PTX entry point.

The body is the same as in mode `simt`. The parameters of an entry point are the buffers in the order of their indices,
an offset into dynamic shared memory for each [[threadgroup(n)]], and the grid (metal_stdlib/cuda/entry.h). The first
line of the C++ file tells the loader what PTX cannot express."""

import json
import re

from .simt import SimtEmitter

DESCRIPTION = "// mpsx-cuda: "


def resources(kernel, spaces):
    """Return (index, position) of the resource parameters in these address spaces, sorted by index."""
    found = [(p.index, i) for i, p in enumerate(kernel.parameters) if p.space in spaces and p.shape]
    return sorted(found)


class CudaEmitter(SimtEmitter):
    """Code generator for the entry points of one C++ file."""

    def __init__(self, unit, general):
        super().__init__(unit, general, every=True)

    def entry(self, symbol, instance):
        text = super().entry(symbol, instance)
        buffers = resources(instance.kernel, ("device", "constant"))
        types = "".join(
            f"typedef ::mpsx::kernel_argument<::mpsx::signature<decltype({self.function(instance)})>::at<{i}>, "
            f"{len(buffers)}>::type {symbol}_a{index};\n" for index, i in buffers)
        return text + self.scoped(types, instance)

    @staticmethod
    def record_constants(symbol, instance):
        return SimtEmitter.thread_limit(symbol, instance)

    def table(self, instances, name, prefix):
        return "".join(self.wrapper(f"mpsx_entry_{i}", symbol, instance, prefix)
                       for i, (instance, symbol) in enumerate(zip(instances, symbols(instances), strict=True)))

    def wrapper(self, entry, symbol, instance, prefix):
        kernel, entry = instance.kernel, self.qualified(entry, instance, prefix)
        buffers = [index for index, _ in resources(kernel, ("device", "constant"))]
        locals_ = [index for index, _ in resources(kernel, ("threadgroup",))]
        parameters = [f"{entry}_a{b} mpsx_a{b}" for b in buffers] + [f"unsigned mpsx_t{k}" for k in locals_]
        arguments = "".join(f"  mpsx_args[{b}] = ::mpsx::argument_address(mpsx_a{b});\n" for b in buffers)
        arguments += "".join(f"  mpsx_args[31 + {k}] = ::mpsx::dynamic_memory(mpsx_t{k});\n" for k in locals_)
        limit = kernel.max_threads or ""
        if limit:
            limit = limit if limit.isdigit() else f"{entry}_limit"
            limit = f'extern "C" __attribute__((used)) const unsigned mpsx_limit_{symbol} = {limit};\n'
        # Force inlining. In a separate function, clang would not know the address spaces of the arguments.
        return (f'{limit}extern "C" __attribute__((nvptx_kernel)) void {symbol}('
                f"{', '.join([*parameters, 'mpsx_cuda_grid mpsx_grid'])}) {{\n"
                "  mpsx_launch mpsx_this_launch;\n  mpsx_threadgroup mpsx_this_group;\n"
                "  mpsx_thread mpsx_this_thread;\n"
                "  if (!::mpsx::set_position(mpsx_grid, mpsx_this_launch, mpsx_this_group, mpsx_this_thread)) return;\n"
                f"  void* mpsx_args[MPSX_MAX_ARGUMENTS];\n{arguments}"
                f"  [[clang::always_inline]] {entry}(mpsx_args, &mpsx_this_launch, &mpsx_this_thread);\n}}\n")

    def description(self, instances):
        """Return the first line of the C++ file: a comment with JSON."""
        kernels = [{
            "name": instance.host_name,
            "symbol": symbol,
            "buffers": [index for index, _ in resources(instance.kernel, ("device", "constant"))],
            "threadgroups": [index for index, _ in resources(instance.kernel, ("threadgroup",))],
        } for instance, symbol in zip(instances, symbols(instances), strict=True)]
        return f"{DESCRIPTION}{json.dumps({'kernels': kernels})}\n"


def symbols(instances):
    """Return the names of the entry points. PTX does not allow `<`, and the prefix avoids clashes with C functions."""
    found = []
    for instance in instances:
        symbol = "mpsx_k_" + re.sub(r"\W", "_", instance.host_name)
        while symbol in found:
            symbol += "_"
        found.append(symbol)
    return found
