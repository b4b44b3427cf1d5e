"""Address spaces in declarations: Metal Shading Language Specification, section 4. For expressions that mix address
spaces, address_spaces.py uses clang."""

from ..declarations import ADDRESS_SPACES, CLASS, VARIABLE
from .rules import rule
from .types import BUILTIN, declarator

SPECIFIERS = ("const", "constexpr", "static", "volatile", "inline", "extern")


def with_space(unit):
    """Return the names of types that may include an address space."""
    words = {*ADDRESS_SPACES, "typename", "decltype", "<"}
    return {name for name, (a, b) in unit.tree.aliases.items() if words & set(unit.src.texts[a:b])}


def is_known_type(unit, base, template, opaque):
    """Return whether `base` is known to be a type without an address space."""
    name = base.replace("metal :: ", "")
    known = name in BUILTIN or set(name.split()) <= BUILTIN or name in unit.tree.classes or name in unit.tree.aliases
    return known and name not in template and name not in opaque


@rule
def program_scope_is_constant(unit):
    """4, 4.2: variables at program scope and static members must be in the constant address space."""
    src = unit.src
    for v in unit.tree.variables:
        words = src.texts[v.begin : v.name]
        if v.in_class and "static" not in words:
            continue
        p = declarator(src, v.begin, v.declarator_end)
        if "constant" in words and not p.pointers:
            continue
        if p.pointers and "constant" in src.texts[p.pointers[-1] : v.name]:  # the pointer itself is constant
            continue
        if "using" in words or "friend" in words or not p.base:
            continue
        extern = "extern variable" if "extern" in words else "program scope variable"
        yield v.name, f"{extern} must reside in constant address space: '{src.texts[v.name]}' (section 4)"


@rule
def constants_are_initialized(unit):
    """4.2: a constant variable must have an initializer, unless it is a function constant (5.8)."""
    for v in unit.tree.variables:
        words = unit.src.texts[v.begin : v.name]
        if "constant" not in words or (v.in_class and "static" not in words) or "extern" in words:
            continue
        if unit.src.texts[v.name - 1] == "::":  # the definition of a static member, whose initializer is in the class
            continue
        if declarator(unit.src, v.begin, v.declarator_end).pointers:
            continue
        if not v.initialized and not any(a.name == "function_constant" for a in v.attributes):
            yield (
                v.name,
                f"variable in constant address space must be initialized: '{unit.src.texts[v.name]}' (section 4.2)",
            )


@rule
def values_have_no_space(unit):
    """4: only pointees and variables at program scope may have an address space."""
    src = unit.src
    for f in unit.tree.functions:
        for begin, end in f.parameters:
            p = declarator(src, begin, end)
            if not p.shape and p.spaces and p.spaces[0][1] != "thread" and p.base not in unit.tree.aliases:
                message = f"parameter may not be qualified with an address space: '{src.span(begin, end)}' (section 4)"
                yield p.spaces[0][0], message
    for v in unit.tree.variables:
        p = declarator(src, v.begin, v.declarator_end)
        if v.in_class and "static" not in p.words and not p.pointers and p.shape != "(" and p.spaces:
            yield p.spaces[0][0], f"field may not be qualified with an address space: '{src.texts[v.name]}' (section 4)"
    for f in unit.tree.definitions:
        for p in local_variables(unit, f, "device", "constant"):
            if "static" not in p.words:
                yield p.name, f"automatic variable qualified with an address space: '{src.texts[p.name]}' (section 4)"


def local_variables(unit, function, *spaces):
    """Yield the Declarators of a function's variables in these address spaces."""
    for d in unit.tree.locals(function):
        if d.kind == VARIABLE:
            p = declarator(unit.src, d.start, d.declarator_end)
            if p.spaces and p.spaces[0][1] in spaces and not p.pointers and p.name is not None and p.base:
                yield p


@rule
def threadgroup_variables(unit):
    """4.4: threadgroup variables may only be declared in kernels."""
    for f in unit.tree.definitions:
        for p in local_variables(unit, f, "threadgroup") if f.entry != "kernel" else ():
            yield p.name, ("variables in the threadgroup address space belong in kernel functions: "
                           f"'{unit.src.texts[p.name]}' in '{unit.name(f)}' (section 4.4)")


@rule
def pointers_have_a_space(unit):
    """4: pointers and references must be declared with an address space. Template arguments, aliases, and auto may
    supply the address space, so they are all accepted."""
    src, opaque = unit.src, with_space(unit)

    def missing(p, template):
        if (
            len(p.pointers) != 1
            or p.shape == "("
            or p.spaces
            or (p.attributes and any(a.name == "function_constant" for a in p.attributes))
        ):
            return False
        return is_known_type(unit, p.base, template, opaque)

    def message(p):
        kind = "pointer" if src.texts[p.pointers[-1]] == "*" else "reference"
        text = src.span(p.begin, p.end if p.name is None else p.name + 1)
        return f"{kind} type must have explicit address space qualifier: '{text}' (section 4)"

    for f in unit.tree.functions:
        for begin, end in f.parameters:
            p = declarator(src, begin, end)
            if missing(p, f.template) and src.texts[p.pointers[0]] != "&&":
                yield p.begin, message(p)
        result = declarator(src, *f.result)
        if missing(result, f.template) and src.texts[f.name] != "operator":
            yield result.begin, message(result)
    for v in unit.tree.variables:
        p = declarator(src, v.begin, v.declarator_end)
        if v.in_class and "static" not in p.words and missing(p, v.template):
            yield p.begin, message(p)
    types = BUILTIN | set(unit.tree.classes)
    for f in unit.tree.definitions:
        inside = [(d.body, d.end) for d in unit.tree.locals(f) if d.kind == CLASS]
        # `type * name =` at the start of a statement is a declaration, because a type cannot be multiplied.
        for star, _ in unit.find("*", "&", within=f.body_range):
            first = star - 1
            while src.texts[first - 1] in SPECIFIERS:
                first -= 1
            before = src.texts[first - 1]
            if (
                src.texts[star - 1] in types
                and src.kinds[star + 1] == "word"
                and src.texts[star + 2] in ("=", ";", ":", ",", "{")
                and (before in (";", "{", "}") or (before == "(" and src.texts[first - 2] == "for"))
                and not any(a < star < b for a, b in inside)
            ):
                p = declarator(src, first, star + 2)
                if missing(p, f.template):
                    yield p.begin, message(p)


@rule
def function_constants(unit):
    """5.8: function constants must be scalars or vectors without an initializer."""
    src = unit.src
    for v in unit.tree.variables:
        for a in v.attributes:
            if a.name != "function_constant":
                continue
            if v.initialized:
                yield v.name, f"function constant '{src.texts[v.name]}' cannot be initialized (section 5.8)"
            base = declarator(src, v.begin, v.declarator_end).base
            if base in unit.tree.classes:
                yield (
                    v.name,
                    f"function constant '{src.texts[v.name]}': expected a scalar or a vector, got {base} (section 5.8)",
                )
