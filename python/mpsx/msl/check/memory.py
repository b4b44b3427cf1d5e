"""Address spaces as declarations spell them: Metal Shading Language Specification, section 4. Whether pointers of
different spaces are mixed in expressions is for a compiler to see: address_spaces.py."""

from .language import local_classes
from .rules import rule
from .structure import SPACES
from .types import BUILTIN, declarator

SPECIFIERS = ("const", "constexpr", "static", "volatile", "inline", "extern")


def with_space(unit):
    """Names that stand for a type which may bring an address space along."""
    return {
        n
        for n, (a, b) in unit.structure.aliases.items()
        if set(unit.src.texts[a:b]) & {*SPACES, "typename", "decltype", "<"}
    }


def is_known_type(unit, base, template, vague):
    """Whether `base` is certainly a type that has no address space of its own."""
    name = base.replace("metal :: ", "")
    return (
        (
            name in BUILTIN
            or set(name.split()) <= BUILTIN
            or name in unit.structure.classes
            or name in unit.structure.aliases
        )
        and name not in template
        and name not in vague
    )


@rule
def program_scope_is_constant(unit):
    """4, 4.2: variables at program scope, and static members, live in the constant address space."""
    src = unit.src
    for v in unit.structure.variables:
        words = src.texts[v.begin : v.name]
        if v.where == "class" and "static" not in words:
            continue
        p = declarator(src, v.begin, v.end)
        if "constant" in words and not p.pointers:
            continue
        if p.pointers and "constant" in src.texts[p.pointers[-1] : v.name]:  # a pointer that is itself constant
            continue
        if "using" in words or "friend" in words or not p.base:
            continue
        extern = "extern variable" if "extern" in words else "program scope variable"
        yield v.name, f"{extern} must reside in constant address space: '{src.texts[v.name]}' (section 4)"


@rule
def constants_are_initialised(unit):
    """4.2: a constant variable is initialised where it is declared; function constants get their value later (5.8)."""
    for v in unit.structure.variables:
        words = unit.src.texts[v.begin : v.name]
        if "constant" not in words or (v.where == "class" and "static" not in words) or "extern" in words:
            continue
        if unit.src.texts[v.name - 1] == "::":  # a static member, which has its value in the class
            continue
        if declarator(unit.src, v.begin, v.end).pointers:
            continue
        if not v.initialised and not any(a.name == "function_constant" for a in v.attributes):
            yield (
                v.name,
                f"variable in constant address space must be initialized: '{unit.src.texts[v.name]}' (section 4.2)",
            )


@rule
def values_have_no_space(unit):
    """4: an address space belongs to what a pointer points at, or to a variable at program scope."""
    src = unit.src
    for f in unit.structure.functions:
        for begin, end in f.parameters:
            p = declarator(src, begin, end)
            if not p.shape and p.spaces and p.spaces[0][1] != "thread" and p.base not in unit.structure.aliases:
                yield (
                    p.spaces[0][0],
                    f"parameter may not be qualified with an address space: '{src.span(begin, end)}' (section 4)",
                )
    for v in unit.structure.variables:
        p = declarator(src, v.begin, v.end)
        if v.where == "class" and "static" not in p.words and not p.pointers and p.shape != "(" and p.spaces:
            yield (
                p.spaces[0][0],
                f"field may not be qualified with an address space: '{src.texts[v.name]}' (section 4)",
            )
    for f in unit.bodies():
        for i, _ in unit.find("device", "constant", within=f.body):
            if starts_statement(src, i):
                end = statement_end(src, i)
                p = declarator(src, statement_begin(src, i), end)
                if (
                    not p.pointers
                    and not p.shape.startswith("(")
                    and p.name is not None
                    and p.base
                    and "static" not in p.words
                ):
                    yield (
                        p.name,
                        f"automatic variable qualified with an address space: '{src.texts[p.name]}' (section 4)",
                    )


def statement_begin(src, i):
    while i and src.texts[i - 1] in SPECIFIERS:
        i -= 1
    return i


def starts_statement(src, i):
    before = src.texts[statement_begin(src, i) - 1]
    return before in (";", "{", "}")


def statement_end(src, i):
    """Where the declarator that token i belongs to ends: at its initialiser, or ';'."""
    while i < len(src) and src.texts[i] not in (";", "=", "{", ","):
        if src.texts[i] == "<":
            i = src.angle_end(i)
        i = src.match[i] + 1 if src.texts[i] in ("[", "(") else i + 1
    return i


@rule
def threadgroup_variables(unit):
    """4.4: threadgroup variables are declared in kernels."""
    src = unit.src
    for f in unit.bodies():
        if f.entry == "kernel":
            continue
        for i, _ in unit.find("threadgroup", within=f.body):
            if starts_statement(src, i):
                p = declarator(src, statement_begin(src, i), statement_end(src, i))
                if not p.pointers and p.shape != "(" and p.name is not None and p.base:
                    yield (
                        p.name,
                        (
                            "variables in the threadgroup address space belong in kernel functions: "
                            f"'{src.texts[p.name]}' in '{unit.name(f)}' (section 4.4)"
                        ),
                    )


@rule
def pointers_name_their_space(unit):
    """4: whatever is a pointer or a reference is declared with an address space. What a template argument, a type
    alias or auto may bring along is left to the types."""
    src, vague = unit.src, with_space(unit)

    def missing(p, template):
        if (
            len(p.pointers) != 1
            or p.shape == "("
            or p.spaces
            or (p.attributes and any(a.name == "function_constant" for a in p.attributes))
        ):
            return False
        return is_known_type(unit, p.base, template, vague)

    def message(p):
        kind = "pointer" if src.texts[p.pointers[-1]] == "*" else "reference"
        text = src.span(p.begin, p.end if p.name is None else p.name + 1)
        return f"{kind} type must have explicit address space qualifier: '{text}' (section 4)"

    for f in unit.structure.functions:
        for begin, end in f.parameters:
            p = declarator(src, begin, end)
            if missing(p, f.template) and src.texts[p.pointers[0]] != "&&":
                yield p.begin, message(p)
        result = declarator(src, *f.result)
        if missing(result, f.template) and src.texts[f.name] != "operator":
            yield result.begin, message(result)
    for v in unit.structure.variables:
        p = declarator(src, v.begin, v.end)
        if v.where == "class" and "static" not in p.words and missing(p, v.template):
            yield p.begin, message(p)
    types = BUILTIN | set(unit.structure.classes)
    for f in unit.bodies():
        inside = list(local_classes(unit, f.body))
        # `type * name =` at the start of a statement: with a type before it, a multiplication would do nothing
        for star, _ in unit.find("*", "&", within=f.body):
            first = statement_begin(src, star - 1)
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
    """5.8: function constants are scalars or vectors at program scope, in constant memory, without a value."""
    src = unit.src
    for v in unit.structure.variables:
        for a in v.attributes:
            if a.name != "function_constant":
                continue
            if v.initialised:
                yield v.name, f"function constant '{src.texts[v.name]}' cannot be initialised (section 5.8)"
            base = declarator(src, v.begin, v.end).base
            if base in unit.structure.classes:
                yield (
                    v.name,
                    f"function constant '{src.texts[v.name]}': expected a scalar or a vector, got {base} (section 5.8)",
                )
