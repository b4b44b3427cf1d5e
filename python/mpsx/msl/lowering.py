"""Lower Metal's own syntax to C++ by running the passes over a Source."""

from .kernels import rename_overloads
from .passes.address_spaces import lower_address_spaces
from .passes.conditionals import wrap_mixed_ternary
from .passes.division import guard_divisions
from .passes.function_constants import FunctionConstants
from .passes.overloads import remove_duplicates, suppress_argument_lookup
from .passes.tensors import mark_threadgroup_elements
from .passes.threadgroup_memory import declare_sizes, share_variables
from .passes.unions import make_unions_assignable
from .passes.vectors import complete_initializers, compose_swizzles, convert_swizzles, index_constant_components


def lower_thread_limits(src, module):
    """Turn a thread limit that depends on template arguments into a template next to the kernel."""
    for kernel in module.kernels.values():
        text = kernel.attributes.get("max_total_threads_per_threadgroup")
        if text is None:
            continue
        value = module.evaluator.value(text.split())
        if value is not None and not kernel.head:
            kernel.max_threads = str(value)
            continue
        kernel.max_threads = f"mpsx_limit_{kernel.name}"
        head = src.span(*kernel.head) if kernel.head else ""
        at = kernel.head[0] if kernel.head else kernel.marker
        src.insert_before(at, f"{head} struct {kernel.max_threads} {{ static constexpr unsigned value = ({text}); }}; ")


def lower(src, module, shared=False, general=False, specialize=False):
    """Edit `src` in place. If `shared` is set, the threads of a threadgroup share threadgroup variables. Otherwise,
    each threadgroup is a single thread. `general` also accepts features that the project's own kernels do not use. If
    `specialize` is set, each kernel is compiled for given values of the function constants."""
    unit = module.unit
    for begin, end in module.removed:
        src.replace(begin, end)
    remove_duplicates(src, unit)
    for begin, end in module.markers:
        src.replace(begin, end, "inline")
    constants = FunctionConstants(src, module, specialize)
    constants.run()
    module.constants, done = constants.constants, constants.done
    module.definitions, module.setters = (constants.definitions, []) if specialize else ([], constants.setters)
    lower_thread_limits(src, module)
    rename_overloads(src, module)
    compose_swizzles(src)
    if general:
        convert_swizzles(src, index_constant_components(src, unit))
        suppress_argument_lookup(src, unit)
        make_unions_assignable(src, unit)
        complete_initializers(src)
        templates = {src.texts[d.name] for d in unit.all if d.name >= 0 and d.heads}
        wrap_mixed_ternary(src, templates, done)
        guard_divisions(src, done)
    if shared:
        done |= share_variables(src, unit)
    done |= mark_threadgroup_elements(src)
    lower_address_spaces(src, unit, done, shared)
    declare_sizes(src, module)
