"""A whole kernel library as one C++ file, for compile_shader."""

from dataclasses import dataclass

from .emit_simt import SimtEmitter
from .parse import parse
from .rewrite import rewrite
from .threadgroup_bytes import declare


@dataclass(frozen=True)
class Library:
    text: str
    kernels: list  # of dicts: name, location, buffers [{index, space, text}]


def translate_library(src, mode, compiler, isa):
    """A preprocessed Source as C++ that exports mpsx_kernel_table. `mode`: auto or simt, as for `msl.py translate`."""
    module = parse(src)
    kernels = [describe(src, i) for i in module.instances]
    rewrite(src, module, shared=True, general=True)
    declare(src, module)
    emitter = SimtEmitter(src, every=mode == "simt")
    table = "mpsx_records"
    text = ('#define MPSX_SIMT 1\n#include "msl/msl.h"\n#include "msl/names.h"\n'
            f"MPSX_USER_CODE_BEGIN\n{src.result()}\nMPSX_USER_CODE_END\n"
            f"{emitter.entries(module.instances, module)}"
            f"{emitter.table(module.instances, table, '')}"
            f"{export(table, len(kernels), compiler, isa)}")
    return Library(text, kernels)


def describe(src, instance):
    """What a caller wants to know of a kernel."""
    kernel = instance.kernel
    return {
        "name": instance.host_name,
        "location": src.location(kernel.token),
        "buffers": [{"index": p.index, "space": p.space, "text": p.text} for p in kernel.parameters if p.index >= 0],
    }


def export(table, count, compiler, isa):
    """The exported table of `count` records that lie in the array `table`."""
    pointers = "".join(f"    &{table}[{i}],\n" for i in range(count))
    return (f"static const mpsx_kernel_record* const mpsx_pointers[] = {{\n{pointers}    nullptr}};\n"
            'extern "C" __attribute__((visibility("default"))) const mpsx_kernel_table_t mpsx_kernel_table;\n'
            f"const mpsx_kernel_table_t mpsx_kernel_table = {{MPSX_KERNEL_ABI_VERSION, {count}, mpsx_pointers, "
            f'&mpsx_simt, "{compiler}", "{isa}"}};\n')
