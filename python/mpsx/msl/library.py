"""Translate a whole kernel library into one C++ file for compile_shader."""

from collections.abc import Callable
from dataclasses import dataclass

from . import element_types, tensor_parameters
from .kernels import collect_kernels
from .lowering import lower
from .tensor_types import TensorTypes, type_words
from .translate import emitter_of, macros


@dataclass(frozen=True)
class Library:
    """A translated source in two parts: the source itself, and the code that exports its kernels."""

    source: str
    # One dict per kernel: name, location, buffers [{index, space, name, text, optional, constant}], elements [the
    # element type of each buffer, see element_types.py], constants [{name, index, type, required}]. A buffer's
    # `constant` is the function constant that enables it.
    kernels: list
    exports: Callable  # instances -> code that exports them
    instances: list
    constants: list  # all function constants in the source: {name, index, type}
    definitions: list  # the function_constants.Definitions that a specialized kernel needs

    @property
    def text(self):
        """The source, plus code that exports all instances."""
        return self.source + self.exports(self.instances)

    def parts(self):
        """Return a dict from each kernel's name to code that exports only this kernel."""
        return {i.host_name: self.exports([i]) for i in self.instances}

    def samples(self):
        """Return the code that exports one instance of each kernel."""
        return self.exports(list({i.kernel.token: i for i in reversed(self.instances)}.values()))


def translate_library(src, mode, compiler, isa, specialize=False, tree=None):
    """Translate a preprocessed Source to C++ that exports mpsx_kernel_table or, in mode cuda, to C++ for a PTX library.
    `mode` is auto, simt, or cuda, as in `msl.py translate`. If `specialize` is set, the code of each kernel must follow
    `definitions` with the values of the function constants. Otherwise, and never in mode cuda, the entry points receive
    them at run time. `tree` is parse(src), if the caller has it."""
    module = collect_kernels(src, tree)
    lower(src, module, shared=True, general=True, specialize=specialize)
    emitter = emitter_of(module.unit, mode, general=True)
    named = element_types.aliases(module.unit) if module.instances else {}
    for constant in module.constants:
        constant.type = element_types.value_type(constant.type, named)
    used = {k.token: constants_of(emitter.calls, k, module) for k in module.kernels.values()}
    tensors = TensorTypes(module.unit, module.evaluator)
    kernels = [describe(src, i, used[i.kernel.token], named, tensors) for i in module.instances]
    source = (f'{macros(src, mode, general=True)}#include "metal_stdlib/msl.h"\n#include "metal_stdlib/names.h"\n'
              f"MPSX_USER_CODE_BEGIN\n{src.result()}\nMPSX_USER_CODE_END\n")

    def exports(instances):
        table = "mpsx_records"
        text = emitter.entries(instances, module) + emitter.table(instances, table, "")
        if mode == "cuda":
            return emitter.description(instances) + text
        return text + export(table, len(instances), compiler, isa)

    constants = [{"name": c.plain, "index": c.index, "type": c.type} for c in module.constants]
    return Library(source, kernels, exports, module.instances, constants, module.definitions)


def constants_of(calls, kernel, module):
    """Return the function constants that a kernel uses. A constant passed to is_function_constant_defined does not need
    a value (MSL specification 3.2, section 5.8.1)."""
    if not module.constants:
        return []
    used = {*calls.reachable_words(kernel.name, kernel.body),
            *(p.attributes.get("function_constant", "") for p in kernel.parameters)}
    return [{"name": c.plain, "index": c.index, "type": c.type, "required": not c.is_queried}
            for c in module.constants if c.names & used]


def describe(src, instance, constants, aliases, tensors):
    """Return an instance's entry in Library.kernels."""
    kernel, arguments = instance.kernel, element_types.template_arguments(src, instance)
    names = aliases | arguments
    return {
        "name": instance.host_name,
        "location": src.location(kernel.token),
        "buffers": [{"index": p.index, "space": p.space, "name": p.text.split()[-1], "text": p.text,
                     "optional": "function_constant" in p.attributes,
                     "constant": p.attributes.get("function_constant", ""),
                     **tensor(p, tensors, arguments)}
                    for p in kernel.parameters if p.index >= 0],
        "elements": [element_types.element_type(p, names) for p in kernel.parameters if p.index >= 0],
        "constants": constants,
    }


def tensor(parameter, types, arguments):
    if parameter.shape != "tensor":
        return {}
    return {"tensor": tensor_parameters.describe(types, type_words(parameter.text.split()), arguments)}


def export(table, count, compiler, isa):
    """Return C++ that exports the first `count` records of the array `table`."""
    pointers = "".join(f"    &{table}[{i}],\n" for i in range(count))
    return (f"static const mpsx_kernel_record* const mpsx_pointers[] = {{\n{pointers}    nullptr}};\n"
            'extern "C" __attribute__((visibility("default"))) const mpsx_kernel_table_t mpsx_kernel_table;\n'
            f"const mpsx_kernel_table_t mpsx_kernel_table = {{MPSX_KERNEL_ABI_VERSION, {count}, mpsx_pointers, "
            f'&mpsx_simt, "{compiler}", "{isa}"}};\n')
