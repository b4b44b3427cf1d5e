"""Code generation for SIMT execution: the threads of a threadgroup run one by one, and the engine
(src/driver/host/simt) switches between them where they synchronize.

In mode `simt`, every kernel runs this way. In mode `auto`, a kernel becomes a loop as in wide mode if it only reads its
position in the grid, or if it limits its threadgroups to one thread."""

from ..attributes import GRID, POSITIONS
from ..declarations import ALIAS, CLASS, FUNCTION, walk
from .wide import WideEmitter, position_attribute

# Prefixes of functions in which threads wait for each other.
SYNCHRONIZING = ("simd_", "quad_", "simdgroup_", "threadgroup_barrier", "__metal_simd_", "__metal_quad_",
                 "__metal_get_thread", "matmul2d", "convolution2d", "reduce_rows", "reduce_columns",
                 "cooperative_tensor", "get_destination_cooperative_tensor")
DISPATCHED = "mpsx_this_launch->group[0] * mpsx_this_launch->group[1] * mpsx_this_launch->group[2]"
THREAD_VALUES = {
    "thread_position_in_grid": tuple(f"mpsx_this_group->origin[{d}] + mpsx_this_thread->local[{d}]" for d in range(3)),
    "threads_per_grid": tuple(f"mpsx_this_launch->threads[{d}]" for d in range(3)),
    "grid_origin": ("0u", "0u", "0u"),
    "threadgroup_position_in_grid": tuple(f"mpsx_this_group->position[{d}]" for d in range(3)),
    "threadgroups_per_grid": tuple(f"mpsx_this_launch->groups[{d}]" for d in range(3)),
    "thread_position_in_threadgroup": tuple(f"mpsx_this_thread->local[{d}]" for d in range(3)),
    "thread_index_in_threadgroup": ("mpsx_this_thread->index",),
    "threads_per_threadgroup": tuple(f"mpsx_this_group->size[{d}]" for d in range(3)),
    "dispatch_threads_per_threadgroup": tuple(f"mpsx_this_launch->group[{d}]" for d in range(3)),
    "thread_index_in_simdgroup": ("mpsx_this_thread->lane",),
    "simdgroup_index_in_threadgroup": ("mpsx_this_thread->simdgroup",),
    "simdgroups_per_threadgroup": ("mpsx_this_group->simdgroups",),
    "dispatch_simdgroups_per_threadgroup": (f"({DISPATCHED} + MPSX_SIMD_WIDTH - 1u) / MPSX_SIMD_WIDTH",),
    "threads_per_simdgroup": ("unsigned(MPSX_SIMD_WIDTH)",),
    "thread_index_in_quadgroup": ("mpsx_this_thread->lane % 4u",),
    "quadgroup_index_in_threadgroup": ("mpsx_this_thread->index / 4u",),
    "quadgroups_per_threadgroup": ("(mpsx_this_group->threads + 3u) / 4u",),
    "dispatch_quadgroups_per_threadgroup": (f"({DISPATCHED} + 3u) / 4u",),
}


class CallGraph:
    """The call graph of kernels. Functions are matched by name, so it may contain functions that are never called."""

    def __init__(self, unit):
        self.unit, self.src = unit, unit.src
        self.bodies = {}  # name of a function or class -> token ranges of its bodies
        self.aliases = {}  # name -> the template or class that `using name = …` refers to
        local = [d for f in unit.definitions for d in walk(unit.locals(f))]
        for d in sorted([*unit.all, *local], key=lambda d: d.begin):
            if d.kind == FUNCTION and d.body >= 0:
                self.bodies.setdefault(self.src.texts[d.name], []).append(d.body_range)
            elif d.kind == CLASS and d.name >= 0:
                self.bodies.setdefault(self.src.texts[d.name], []).append((d.body, self.src.match[d.body] + 1))
            elif d.kind == ALIAS and self.src.texts[d.start] == "using":
                self.aliases.setdefault(self.src.texts[d.name], self.named_type(d.value[0]))
        self.classes = [(d.body, self.src.match[d.body] + 1) for d in (*unit.all, *local) if d.kind == CLASS]

    def named_type(self, i):
        """Return the last name of the qualified name that begins at token i."""
        i += self.src.texts[i] == "typename"
        while self.src.texts[i + 1:i + 2] == ["::"]:
            i += 2
        return self.src.texts[i]

    def callees(self, i):
        """Return the bodies that the word at token i may refer to. Prefer the members of A for `A::f`, and the members
        of the enclosing class for `f`."""
        src, found = self.src, self.bodies.get(self.src.texts[i], [])
        if len(found) < 2 or src.texts[i - 1] in (".", "->"):
            return found
        if src.texts[i - 1] == "::":
            owner = i - 2
            if src.texts[owner] == ">":   # A<…>::f
                owner = src.angle_begin(owner) - 1
            owner = src.texts[owner]
            around = self.bodies.get(self.aliases.get(owner, owner), [])
        else:
            around = [a for a in self.classes if a[0] < i < a[1]]
        return [b for b in found if any(a[0] < b[0] and b[1] <= a[1] for a in around)] or found

    def reachable_words(self, name, body):
        """Yield the tokens of a function and of all functions that it calls, directly or indirectly."""
        src, todo, seen, done = self.src, [body], set(), set()
        while todo:
            for i in range(*todo.pop()):
                word = src.texts[i]
                if src.kinds[i] != "word":
                    continue
                if word not in seen:  # includes the function's own name, because a Metal function may share it
                    seen.add(word)
                    yield word
                if word in self.bodies and word != name:
                    more = [b for b in self.callees(i) if b not in done]
                    done.update(more)
                    todo += more

    def mentions(self, kernel, prefixes):
        """Return whether the kernel, or a function that it calls, contains an identifier with one of these prefixes."""
        return any(word.startswith(prefixes) for word in self.reachable_words(kernel.name, kernel.body))


class SimtEmitter(WideEmitter):
    """Generates SIMT entry points: for all kernels if `every` is true, otherwise only for those that need them."""

    def __init__(self, unit, general, every):
        super().__init__(unit, general)
        self.every = every
        self.uses_fibers = {}
        self.calls = CallGraph(unit)

    def is_simt(self, kernel):
        if self.every or any(p.space == "threadgroup" for p in kernel.parameters):
            return True
        grouped = any(POSITIONS[a].level != GRID for p in kernel.parameters for a in p.attributes if a in POSITIONS)
        if grouped and kernel.max_threads != "1":
            return True
        return self.calls.mentions(kernel, (*SYNCHRONIZING, "threadgroup"))

    def simt_plan(self, kernel):
        """Return None for a kernel that becomes a loop. Otherwise, return whether its threads synchronize and need
        fibers."""
        if kernel.token not in self.uses_fibers:
            simt = self.is_simt(kernel)
            self.uses_fibers[kernel.token] = self.calls.mentions(kernel, SYNCHRONIZING) if simt else None
        return self.uses_fibers[kernel.token]

    def simt_argument(self, kernel, i, p):
        if p.space and p.shape:
            at = f"31 + {p.index}" if p.space == "threadgroup" else p.index
            get = "address_or_zero" if "function_constant" in p.attributes else "address"
            return f"::mpsx::{get}<mpsx_signature::at<{i}>>(mpsx_args[{at}])"
        attribute = position_attribute(self.src, kernel, p)
        values = (*THREAD_VALUES[attribute.field], "0u", "0u")[:3]
        return f"::mpsx::position<mpsx_signature::at<{i}>>({', '.join(values)})"

    def entry(self, symbol, instance):
        if self.simt_plan(instance.kernel) is None:
            return super().entry(symbol, instance)
        arguments = ", ".join(self.simt_argument(instance.kernel, i, p)
                              for i, p in enumerate(instance.kernel.parameters))
        body = (
            f"static MPSX_ENTRY void {symbol}(void* const* mpsx_plain_args, const mpsx_launch* mpsx_plain_launch, "
            "const mpsx_thread* mpsx_plain_thread) {\n"
            f"  using mpsx_signature = ::mpsx::signature<decltype({self.function(instance)})>;\n"
            f"  MPSX_SIMT_ENTRY\n{self.prologue.replace('mpsx_this_launch', 'mpsx_plain_launch')}"
            f"  {self.function(instance)}({arguments});\n"
            "}\n")
        return self.scoped(body, instance)

    def record(self, symbol, instance, prefix):
        fibers = self.simt_plan(instance.kernel)
        if fibers is None:
            return super().record(symbol, instance, prefix)
        return self.record_text(instance, "MPSX_UNIT_SIMT", "nullptr", self.qualified(symbol, instance, prefix),
                                int(fibers), prefix)
