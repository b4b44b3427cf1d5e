"""Lay out threadgroup memory: lower threadgroup variables, and compute how many bytes a kernel declares.

The size may depend on template parameters and on constants in the kernel's body, so the C++ compiler computes it. A
constexpr function after the kernel repeats these template parameters and constants."""

import re

from ..declarations import ADDRESS_SPACES, ENUM, VARIABLE
from ..parser import declarators
from .literals import literal

# First words of declarations that may define a name used in an array bound.
CONSTANTS = ("constexpr", "const", "using", "typedef", "enum", "constant", "static", "namespace")
SIZE_FUNCTION = "mpsx_threadgroup_bytes_of_"


def threadgroup_variables(src, unit, function):
    """Yield the declarations of threadgroup variables in a function body."""
    for d in unit.locals(function):
        words = src.texts[d.start:d.name]
        if d.kind == VARIABLE and "threadgroup" in words and "*" not in words and "&" not in words:
            yield d


def type_tokens(src, d):
    """Return the tokens of the type of a variable."""
    found, i = [], d.start
    while i < d.name:
        after = src.specifier_end(i)
        if after == i and src.texts[i] not in ("threadgroup", "volatile"):
            found.append(i)
        i = max(after, i + 1)
    return found


def cpp(src, tokens):
    """Return the C++ text for a list of tokens."""
    kept = [t for t in tokens if src.texts[t] not in (*ADDRESS_SPACES, "static")]
    return "".join(src.spaced(t, literal(src.texts[t]) if src.kinds[t] == "number" else src.texts[t], kept[0])
                   for t in kept)


def words(src, tokens):
    return {src.texts[t] for t in tokens if src.kinds[t] == "word"}


def declared_names(src, d):
    """Return the names that a declaration introduces."""
    if d.kind == ENUM:
        return words(src, range(d.begin, d.end))
    return {src.texts[v.name] for v in declarators(src, d)} if d.kind == VARIABLE else {src.texts[d.name]}


def changes_lookup(src, d):
    """Whether a declaration is a using directive, whose names are not known here, or a namespace alias."""
    return "namespace" in src.texts[d.begin:d.begin + 2]


def size_statement(src, block, d, v):
    """Return C++ that adds the size of one variable to `bytes`, after the declarations that its type uses."""
    bounds = [t for a, b in v.bounds for t in range(a, b)]
    kind = type_tokens(src, d)
    needed = words(src, [*kind, *bounds])
    before = [(depth, c) for depth, around in enumerate(block.path(d.begin)) for c in around.declarations
              if c.end <= d.begin and src.texts[c.begin] in CONSTANTS and "threadgroup" not in src.texts[c.begin:c.end]]
    kept, depths = "", []
    for depth, c in reversed(before):
        if changes_lookup(src, c) or declared_names(src, c) & needed:
            # use nested braces, because an inner block may shadow a name
            brace = "{ " if depths and depths[-1] != depth else ""
            kept = f"{cpp(src, range(c.begin, c.end))} {brace}{kept}"
            depths += [depth] if depth not in depths else []
            needed |= words(src, range(c.begin, c.end))
    kind = cpp(src, kind)
    return (f"{{ {kept}mpsx_bytes = (mpsx_bytes + alignof({kind}) - 1) / alignof({kind}) * alignof({kind}) "
            f"+ sizeof({kind}{cpp(src, bounds)}); {'} ' * max(len(depths), 1)}")


def declare_sizes(src, module):
    """Insert a function that computes the size after each kernel that declares threadgroup variables."""
    for kernel in module.kernels.values():
        kernel.threadgroup_variables = tuple(threadgroup_variables(src, module.unit, kernel.declaration))
        if not kernel.threadgroup_variables:
            continue
        block = module.unit.block(kernel.declaration)
        sums = " ".join(size_statement(src, block, d, v) for d in kernel.threadgroup_variables
                        for v in declarators(src, d))
        head = cpp(src, range(*kernel.head)) if kernel.head else ""
        last = kernel.body[1] - 1
        src.replace(last, last + 1, f"}} {head} constexpr unsigned long {SIZE_FUNCTION}{kernel.name}() "
                    f"{{ unsigned long mpsx_bytes = 0; {sums} return mpsx_bytes; }}")


def size_constant(symbol, instance):
    """Return the declaration of a constant with the size of an instance's threadgroup variables, or "" if it has
    none."""
    if not instance.kernel.threadgroup_variables:
        return ""
    path, name, arguments = re.fullmatch(r"((?:\w* ?:: )*)(\w+)(.*)", instance.expression).groups()
    return f"static constexpr unsigned {symbol}_bytes = unsigned({path}{SIZE_FUNCTION}{name}{arguments}());\n"


def size_reference(entry, instance):
    """Return the expression for the size in the kernel's record. `entry` is the entry point's qualified name."""
    return f"{entry}_bytes" if instance.kernel.threadgroup_variables else "0"


def share_variables(src, unit):
    """Turn threadgroup variables into references to memory that a threadgroup's threads share. `threadgroup float
    a[32], b;` becomes typedefs, followed by references to these types. Return the replaced tokens."""
    key, done = 0, set()
    for function in unit.definitions:
        if "threadgroup" not in src.texts[function.body:function.end]:
            continue
        for d in threadgroup_variables(src, unit, function):
            references = ""
            drop_alignment(src, range(d.start, d.name))
            for v in declarators(src, d):
                name = src.texts[v.name]
                if src.kinds[v.name] != "word":
                    raise src.error(v.name, f"threadgroup variable: expected a name, got '{name}'")
                for a, b in v.specifiers:
                    src.replace(a, b)
                if v.initializer[0] < v.end:  # Apple's compiler accepts an initializer but ignores it
                    src.replace(*v.initializer)
                src.replace(v.name, v.name + 1, f"mpsx_tg_{key}")
                references += f' mpsx_tg_{key}& {name} = ::mpsx::threadgroup_variable<mpsx_tg_{key}, {key}>("{name}");'
                key += 1
            space = next(i for i in range(d.start, d.name) if src.texts[i] == "threadgroup")
            src.replace(space, space + 1, "typedef")
            src.replace(d.end - 1, d.end, ";" + references)
            done.add(space)
    return done


def drop_alignment(src, tokens):
    """Remove alignment specifiers. The engine aligns all variables, and a typedef does not accept alignas."""
    for i in tokens:
        if src.specifier_end(i) > i:
            src.replace(i, src.specifier_end(i))
