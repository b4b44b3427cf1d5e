"""A whole kernel library as one C++ file, for compile_shader."""

from collections.abc import Callable
from dataclasses import dataclass

from . import element_types
from .kernels import collect_kernels
from .lowering import lower
from .translate import emitter_of, macros


@dataclass(frozen=True)
class Library:
    """A translated source. Its text in two: the source itself, and what exports some of its kernels."""

    source: str
    # Of dicts: name, location, buffers [{index, space, name, text, optional, constant}], elements [the element type of
    # each buffer, as element_types.py writes it], constants [{name, index, type, required}]. The constant of a buffer
    # is the one that says whether it is there.
    kernels: list
    exports: Callable   # of instances: the text behind the source
    instances: list

    @property
    def text(self):
        """All of it, in one file."""
        return self.source + self.exports(self.instances)

    def parts(self):
        """The text behind the source that exports one kernel, by its name."""
        return {i.host_name: self.exports([i]) for i in self.instances}

    def samples(self):
        """The text behind the source that has one instance of each kernel."""
        return self.exports(list({i.kernel.token: i for i in reversed(self.instances)}.values()))


def translate_library(src, mode, compiler, isa):
    """A preprocessed Source as C++ that exports mpsx_kernel_table, or in mode cuda as C++ for a library of PTX. `mode`:
    auto, simt or cuda, as for `msl.py translate`."""
    module = collect_kernels(src)
    lower(src, module, shared=True, general=True)
    emitter = emitter_of(module.unit, mode)
    emitter.general = True
    used = {k.token: constants_of(emitter.calls, k, module) for k in module.kernels.values()}
    named = element_types.aliases(module.unit) if module.instances else {}
    kernels = [describe(src, i, used[i.kernel.token], named) for i in module.instances]
    source = (f'{macros(src, mode, general=True)}#include "metal_stdlib/msl.h"\n#include "metal_stdlib/names.h"\n'
              f"MPSX_USER_CODE_BEGIN\n{src.result()}\nMPSX_USER_CODE_END\n")

    def exports(instances):
        table = "mpsx_records"
        text = emitter.entries(instances, module) + emitter.table(instances, table, "")
        if mode == "cuda":
            return emitter.description(instances) + text
        return text + export(table, len(instances), compiler, isa)

    return Library(source, kernels, exports, module.instances)


def constants_of(calls, kernel, module):
    """The function constants that a kernel uses. One that the source asks about needs no value: see section 5.8.1 of
    the MSL specification 3.2 on is_function_constant_defined."""
    if not module.constants:
        return []
    seen = {*calls.reachable_words(kernel.name, kernel.body),
            *(p.attributes.get("function_constant", "") for p in kernel.parameters)}
    return [{"name": c.plain, "index": c.index, "type": c.type, "required": not c.is_queried}
            for c in module.constants if c.names & seen]


def describe(src, instance, constants, aliases):
    """The facts of a kernel that callers need."""
    kernel, names = instance.kernel, aliases | element_types.template_words(src, instance)
    return {
        "name": instance.host_name,
        "location": src.location(kernel.token),
        "buffers": [{"index": p.index, "space": p.space, "name": p.text.split()[-1], "text": p.text,
                     "optional": "function_constant" in p.attributes,
                     "constant": p.attributes.get("function_constant", "")}
                    for p in kernel.parameters if p.index >= 0],
        "elements": [element_types.element_type(p, names) for p in kernel.parameters if p.index >= 0],
        "constants": constants,
    }


def export(table, count, compiler, isa):
    """The exported table of `count` records that lie in the array `table`."""
    pointers = "".join(f"    &{table}[{i}],\n" for i in range(count))
    return (f"static const mpsx_kernel_record* const mpsx_pointers[] = {{\n{pointers}    nullptr}};\n"
            'extern "C" __attribute__((visibility("default"))) const mpsx_kernel_table_t mpsx_kernel_table;\n'
            f"const mpsx_kernel_table_t mpsx_kernel_table = {{MPSX_KERNEL_ABI_VERSION, {count}, mpsx_pointers, "
            f'&mpsx_simt, "{compiler}", "{isa}"}};\n')
