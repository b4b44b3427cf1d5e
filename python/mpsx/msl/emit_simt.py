"""SIMT: every thread of a threadgroup runs, one by one; the engine (src/driver/host/simt) makes them meet.

Mode `simt` runs every kernel so. Mode `auto` only those that use threadgroups in any way: kernels that know their
place in the grid alone, or whose threadgroups have one thread by their own word, are loops, as in wide mode."""

from .attributes import GRID, POSITIONS
from .emit_wide import WideEmitter, position_attribute

# Calls at which threads wait for each other.
MEETING = ("simd_", "quad_", "simdgroup_", "threadgroup_barrier", "__metal_simd_", "__metal_quad_",
           "__metal_get_thread")
# Between a function's parameters and its body.
QUALIFIERS = ("const", "volatile", "constexpr", "noexcept", "device", "constant", "thread", "threadgroup")
DISPATCHED = "launch->group[0] * launch->group[1] * launch->group[2]"
OF_THREAD = {
    "thread_position_in_grid": tuple(f"group->origin[{d}] + thread->local[{d}]" for d in range(3)),
    "threads_per_grid": tuple(f"launch->threads[{d}]" for d in range(3)),
    "grid_origin": ("0u", "0u", "0u"),
    "threadgroup_position_in_grid": tuple(f"group->position[{d}]" for d in range(3)),
    "threadgroups_per_grid": tuple(f"launch->groups[{d}]" for d in range(3)),
    "thread_position_in_threadgroup": tuple(f"thread->local[{d}]" for d in range(3)),
    "thread_index_in_threadgroup": ("thread->index",),
    "threads_per_threadgroup": tuple(f"group->size[{d}]" for d in range(3)),
    "dispatch_threads_per_threadgroup": tuple(f"launch->group[{d}]" for d in range(3)),
    "thread_index_in_simdgroup": ("thread->lane",),
    "simdgroup_index_in_threadgroup": ("thread->simdgroup",),
    "simdgroups_per_threadgroup": ("group->simdgroups",),
    "dispatch_simdgroups_per_threadgroup": (f"({DISPATCHED} + MPSX_SIMD_WIDTH - 1u) / MPSX_SIMD_WIDTH",),
    "threads_per_simdgroup": ("unsigned(MPSX_SIMD_WIDTH)",),
    "thread_index_in_quadgroup": ("thread->lane % 4u",),
    "quadgroup_index_in_threadgroup": ("thread->index / 4u",),
    "quadgroups_per_threadgroup": ("(group->threads + 3u) / 4u",),
    "dispatch_quadgroups_per_threadgroup": (f"({DISPATCHED} + 3u) / 4u",),
}


def definitions(src):
    """Names of functions and types, each with the token ranges of their bodies; "class": those of all classes;
    "using A", of a name `using A = B<…>`: B."""
    found = {}
    for i, t in enumerate(src.texts):
        if t == "using" and src.texts[i + 2:i + 3] == ["="]:
            k = i + 3 + (src.texts[i + 3] == "typename")
            while src.texts[k + 1:k + 2] == ["::"]:
                k += 2
            found.setdefault("using " + src.texts[i + 1], src.texts[k])
    for i, t in enumerate(src.texts):
        if src.kinds[i] != "word" or i + 2 >= len(src):
            continue
        if t in ("struct", "class") and src.kinds[i + 1] == "word":
            brace = i + 2
            while brace < len(src) and src.texts[brace] not in "{;(=,>&*":
                brace += 1
            name = src.texts[i + 1]
        elif src.texts[i + 1] == "(" and t not in ("if", "for", "while", "switch"):
            brace, name = src.match[i + 1] + 1, t
            while brace < len(src) and (src.texts[brace] in QUALIFIERS or src.attribute_end(brace) is not None):
                brace = (src.attribute_end(brace) or brace) + 1
        else:
            continue
        if brace < len(src) and src.texts[brace] == "{":
            found.setdefault(name, []).append((brace, src.match[brace] + 1))
            if t in ("struct", "class"):
                found.setdefault("class", []).append((brace, src.match[brace] + 1))
    return found


def members(src, bodies, i):
    """The bodies of what the word at token i names: of `A::f`, those within A where there are any, and of `f` those in
    the class around it."""
    found = bodies.get(src.texts[i], [])
    if len(found) < 2 or src.texts[i - 1] in (".", "->"):
        return found
    if src.texts[i - 1] != "::":
        around = [a for a in bodies.get("class", ()) if a[0] < i < a[1]]
        return [b for b in found if any(a[0] < b[0] and b[1] <= a[1] for a in around)] or found
    owner = src.texts[i - 2]
    if owner == ">":   # A<…>::f
        k, depth = i - 2, 0
        while k > 0:
            depth += (src.texts[k] == ">") - (src.texts[k] == "<")
            k -= 1
            if depth == 0:
                break
        owner = src.texts[k]
    around = bodies.get(bodies.get("using " + owner, owner), [])
    inside = [b for b in found if any(a[0] < b[0] and b[1] <= a[1] for a in around)]
    return inside or found


def words(src, bodies, kernel):
    """The words in a kernel and in what it calls, however far. `bodies`: those of definitions()."""
    todo, seen, done = [kernel.body], set(), set()
    while todo:
        for i in range(*todo.pop()):
            word = src.texts[i]
            if src.kinds[i] != "word":
                continue
            if word not in seen:   # the kernel's own name too, which may be that of a function of Metal
                seen.add(word)
                yield word
            if word in bodies and word != kernel.name:
                more = [b for b in members(src, bodies, i) if b not in done]
                done.update(more)
                todo += more


def uses(src, bodies, kernel, prefixes):
    """Whether a word with one of the prefixes is in the kernel, or in what it calls."""
    return any(word.startswith(prefixes) for word in words(src, bodies, kernel))


class SimtEmitter(WideEmitter):
    """`every`: whether kernels that could be loops over threads run thread by thread too."""

    def __init__(self, src, every):
        super().__init__(src)
        self.every = every
        self.fibers = {}
        self.bodies = definitions(src)

    def is_simt(self, kernel):
        if self.every or any(p.space == "threadgroup" for p in kernel.parameters):
            return True
        grouped = any(POSITIONS[a].level != GRID for p in kernel.parameters for a in p.attributes if a in POSITIONS)
        if grouped and kernel.limit != "1":
            return True
        return uses(self.src, self.bodies, kernel, (*MEETING, "threadgroup"))

    def simt_plan(self, kernel):
        """None for a kernel that is a loop; else whether its threads meet."""
        if kernel.token not in self.fibers:
            self.fibers[kernel.token] = uses(self.src, self.bodies, kernel, MEETING) if self.is_simt(kernel) else None
        return self.fibers[kernel.token]

    def simt_argument(self, kernel, i, p):
        if p.space and p.shape:
            at = f"31 + {p.index}" if p.space == "threadgroup" else p.index
            get = "address_or_zero" if "function_constant" in p.attributes else "address"
            return f"mpsx::{get}<S::at<{i}>>(args[{at}])"
        attribute = position_attribute(self.src, kernel, p)
        values = (*OF_THREAD[attribute.field], "0u", "0u")[:3]
        return f"mpsx::position<S::at<{i}>>({', '.join(values)})"

    def entry(self, symbol, instance):
        if self.simt_plan(instance.kernel) is None:
            return super().entry(symbol, instance)
        arguments = ", ".join(self.simt_argument(instance.kernel, i, p)
                              for i, p in enumerate(instance.kernel.parameters))
        body = (
            f"static MPSX_ENTRY void {symbol}(void* const* arguments, const mpsx_launch* whole, "
            "const mpsx_thread* own) {\n"
            f"  using S = mpsx::signature<decltype({self.function(instance)})>;\n"
            f"  MPSX_SIMT_ENTRY\n{self.prologue.replace('(launch)', '(whole)')}"
            f"  {self.function(instance)}({arguments});\n"
            "}\n")
        return self.scoped(body, instance)

    def record(self, symbol, instance, prefix):
        fibers = self.simt_plan(instance.kernel)
        if fibers is None:
            return super().record(symbol, instance, prefix)
        return self.record_text(instance, "MPSX_UNIT_SIMT", "nullptr", self.qualified(symbol, instance, prefix),
                                int(fibers), prefix)
