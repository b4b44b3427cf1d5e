"""Code generation for wide mode, in which a threadgroup is one thread. The compiler vectorizes the loops over threads
or the loops inside a thread.

If a kernel only reads its position in the grid, its entry point loops over threads. If a kernel uses threadgroups in
any way, its entry point loops over threadgroups that each have one thread."""

import re

from ..attributes import COUNT, GRID, POSITIONS
from ..passes.threadgroup_memory import size_constant, size_reference

# Loop variables supply positions in the grid. In a threadgroup of one thread, indices are 0 and counts are 1.
POSITION_FIELDS = ("thread_position_in_grid", "threadgroup_position_in_grid")
EXTENT_FIELDS = ("threads_per_grid", "threadgroups_per_grid")
GROUP_WORDS = ("simd_", "quad_", "threadgroup", "simdgroup_")


def value(attribute):
    """Return the x, y and z of a position attribute inside the loop."""
    if attribute.field in POSITION_FIELDS:
        return "mpsx_x, mpsx_y, mpsx_z"
    if attribute.field in EXTENT_FIELDS:
        return "mpsx_nx, mpsx_ny, mpsx_nz"
    return "1u, 1u, 1u" if attribute.kind == COUNT else "0u, 0u, 0u"


def is_group_kernel(src, kernel):
    """Return whether the kernel uses threadgroups in any way."""
    if any(p.space == "threadgroup" for p in kernel.parameters):
        return True
    if any(POSITIONS[a].level != GRID for p in kernel.parameters for a in p.attributes if a in POSITIONS):
        return True
    return any(src.texts[i].startswith(GROUP_WORDS) for i in range(*kernel.body) if src.kinds[i] == "word")


def uses_atomics(src, kernel):
    words = (src.texts[i] for i in range(*kernel.body) if src.kinds[i] == "word")
    return any("atomic" in p.text for p in kernel.parameters) or any("atomic" in w for w in words)


def argument(src, kernel, i, p):
    """Return an argument's declaration before the loops, which may be empty, and its expression inside them."""
    name, kind = f"mpsx_a{i}", f"mpsx_signature::at<{i}>"
    optional = "_or_zero" if "function_constant" in p.attributes else ""
    if p.space == "constant" and p.shape == "&":
        return f"const auto {name} = ::mpsx::value{optional}<{kind}>(mpsx_args[{p.index}]);", name
    if p.space in ("device", "constant") and p.shape:
        return f"auto&& {name} = ::mpsx::address{optional}<{kind}>(mpsx_args[{p.index}]);", name
    if p.space == "threadgroup" and p.shape:
        return f"auto&& {name} = ::mpsx::address<{kind}>(mpsx_args[31 + {p.index}]);", name
    return "", f"::mpsx::position<{kind}>({value(position_attribute(src, kernel, p))})"


def position_attribute(src, kernel, p):
    """Return the position attribute of a parameter that is not a resource."""
    for name in p.attributes:
        if name in POSITIONS:
            return POSITIONS[name]
    found = ", ".join(p.attributes) or "no attribute"
    raise src.error(p.token, f"kernel '{kernel.name}', parameter '{p.text}': expected a device, constant or "
                    f"threadgroup pointer or reference, or a position attribute; got {found}")


class WideEmitter:
    """Generates the entry points and the kernel table of one C++ file. `general` means that the source is at global
    scope, where a local variable of an entry point may shadow a kernel."""

    def __init__(self, unit, general):
        self.src, self.general = unit.src, general
        self.plans = {}
        self.constants, self.prologue = [], ""

    def plan(self, kernel):
        """Return the code shared by the entry points of a kernel's instances: the declarations and the loop."""
        if kernel.token not in self.plans:
            groups = is_group_kernel(self.src, kernel)
            pairs = [argument(self.src, kernel, i, p) for i, p in enumerate(kernel.parameters)]
            declarations = "".join(f"  {d}\n" for d, _ in pairs if d)
            hint = "" if groups or uses_atomics(self.src, kernel) else "    MPSX_VECTORIZE_LOOP\n"
            text = ", ".join(a for _, a in pairs)
            self.plans[kernel.token] = groups, declarations, hint, text
        return self.plans[kernel.token]

    def entry(self, symbol, instance):
        groups, declarations, hint, arguments = self.plan(instance.kernel)
        body = (
            f"static MPSX_ENTRY void {symbol}(void* const* mpsx_args, const mpsx_launch* mpsx_this_launch, "
            "unsigned long long mpsx_begin, unsigned long long mpsx_end) {\n"
            f"  using mpsx_signature = ::mpsx::signature<decltype({self.function(instance)})>;\n"
            f"{self.prologue}{declarations}"
            f"  ::mpsx::runs mpsx_runs(mpsx_this_launch->{'groups' if groups else 'threads'}, mpsx_begin, mpsx_end);\n"
            "  const unsigned mpsx_nx = mpsx_runs.nx, mpsx_ny = mpsx_runs.ny, mpsx_nz = mpsx_runs.nz;\n"
            "  while (mpsx_runs.next()) {\n"
            "    const unsigned mpsx_x0 = mpsx_runs.x0, mpsx_x1 = mpsx_runs.x1;\n"
            "    const unsigned mpsx_y = mpsx_runs.y, mpsx_z = mpsx_runs.z;\n"
            f"{hint}"
            "    for (unsigned mpsx_x = mpsx_x0; mpsx_x < mpsx_x1; ++mpsx_x)\n"
            f"      {self.function(instance)}({arguments});\n"
            "    (void)mpsx_y, (void)mpsx_z;\n"
            "  }\n"
            "  (void)mpsx_nx, (void)mpsx_ny, (void)mpsx_nz, (void)mpsx_args;\n"
            "}\n")
        return self.scoped(body, instance)

    def function(self, instance):
        """Return the expression that refers to an instance in its entry point."""
        kernel, expression = instance.kernel, instance.expression
        if not self.general or not re.match(rf"{kernel.name}\b", expression):
            return expression
        return "::" + "".join(f"{s}::" for s in kernel.scope if s) + expression

    @staticmethod
    def scoped(body, instance):
        """Wrap `body` in the namespaces of the kernel."""
        for scope in reversed(instance.scope):
            body = f"namespace {scope} {{\n{body}}}\n"
        return body

    def entries(self, instances, module):
        """Return the entry points, to be placed in the namespace of the translated source."""
        self.constants = module.constants
        setters = "".join(f" {s}();" for s in module.setters)
        text = ("static inline void mpsx_set_constants(const mpsx_launch* mpsx_this_launch) "
                f"{{ ::mpsx::set_constants(mpsx_this_launch);{setters} }}\n") if setters else ""
        self.prologue = "  mpsx_set_constants(mpsx_this_launch);\n" if setters else ""
        if self.constants:
            types = [f"::metal::remove_cv_t<decltype({c.name})>" for c in self.constants]
            rows = ", ".join(f'{{"{c.plain}", {c.index}u, ::mpsx::scalar_name<{kind}>(), '
                             f"::metal::mpsx_vector<{kind}>::size}}"
                             for c, kind in zip(self.constants, types, strict=True))
            text += f"static const mpsx_function_constant mpsx_constant_rows[] = {{{rows}}};\n"
        for i, k in enumerate(instances):
            symbol = f"mpsx_entry_{i}"
            text += self.entry(symbol, k) + self.scoped(self.record_constants(symbol, k), k)
        return f'#line 1 "<entries>"\n{text}'

    @staticmethod
    def record_constants(symbol, instance):
        """Return those constants of the kernel record that the C++ compiler computes."""
        return size_constant(symbol, instance) + WideEmitter.thread_limit(symbol, instance)

    @staticmethod
    def thread_limit(symbol, instance):
        """Return the thread limit if it depends on template arguments."""
        kernel = instance.kernel
        if not kernel.max_threads or kernel.max_threads.isdigit():
            return ""
        name = re.sub(rf"\b{kernel.name}\b", kernel.max_threads, instance.expression, count=1)
        return f"static constexpr unsigned {symbol}_limit = {name}::value;\n"

    def record(self, symbol, instance, prefix):
        unit = "MPSX_UNIT_GROUPS" if self.plan(instance.kernel)[0] else "MPSX_UNIT_THREADS"
        return self.record_text(instance, unit, self.qualified(symbol, instance, prefix), "nullptr", 0,
                                prefix)

    @staticmethod
    def qualified(symbol, instance, prefix):
        return prefix + "".join(f"{s}::" for s in instance.scope if s) + symbol

    def record_text(self, instance, unit, entry, thread_entry, fibers, prefix):
        """Return the initializer of an mpsx_kernel_record."""
        buffers = max((p.index + 1 for p in instance.kernel.parameters if p.space in ("device", "constant")), default=0)
        threads = instance.kernel.max_threads or "1024"
        if not threads.isdigit():
            threads = f"{entry if thread_entry == 'nullptr' else thread_entry}_limit"
        size = size_reference(thread_entry if entry == "nullptr" else entry, instance)
        constants = "nullptr, 0"
        if self.constants:
            constants = f"{prefix}mpsx_constant_rows, {len(self.constants)}"
        return (f'{{"{instance.host_name}", {unit}, {entry}, {thread_entry}, {fibers}, {buffers}, {size}, {threads}, '
                f"{constants}}}")

    def table(self, instances, name, prefix):
        """Return the records of `instances` in an array. `prefix` qualifies the entry points."""
        if not instances:
            return ""
        records = ",\n    ".join(self.record(f"mpsx_entry_{i}", k, prefix) for i, k in enumerate(instances))
        declaration = f'extern "C" const mpsx_kernel_record {name}[];\n'
        return f"{declaration}const mpsx_kernel_record {name}[] = {{\n    {records}}};\n"
