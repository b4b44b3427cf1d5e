"""How much threadgroup memory a kernel declares: a constant beside each kernel, for its record.

The sizes may depend on template parameters and on constants of the kernel's body, so the C++ compiler computes them:
after the kernel comes a constexpr function with the kernel's template parameters and those constants."""

import re
from dataclasses import dataclass

from .rewrite import literal

SPACES = ("device", "constant", "threadgroup", "thread")
DECLARATIONS = ("constexpr", "const", "using", "typedef", "enum", "constant", "static")
POINTERS = ("*", "&", "(")
ALIGNMENT = ("__attribute__", "alignas")
NAME = "mpsx_threadgroup_bytes_of_"


@dataclass
class Variable:
    """`threadgroup T name[dims];`"""
    name: int       # token
    type: list      # tokens of the type
    dims: list      # token ranges of [ … ]
    begin: int      # token of `threadgroup`, or of what precedes it
    end: int        # token of the ';'


def variables(src, begin, end):
    """The threadgroup variables declared among tokens [begin, end)."""
    found = []
    for i in range(begin + 1, end):
        if src.texts[i] != "threadgroup" or src.texts[i - 1] not in (";", "{", "}", "volatile", ")"):
            continue
        if src.texts[i - 1] == ")" and src.texts[src.match[i - 1] - 1] not in ALIGNMENT:
            continue
        k, stop = i, i
        while stop < end and src.texts[stop] != ";":
            stop = src.match[stop] + 1 if src.texts[stop] in ("(", "[", "{") else stop + 1
        kind = []
        while k < stop and src.texts[k] not in (*POINTERS, "[", ",", "=", "{"):
            after = src.specifier_end(k)
            if after == k:
                after = src.angle_end(k) + 1 if src.texts[k] == "<" else k + 1
                kind += range(k, after)
            k = after
        if (k < stop and src.texts[k] in POINTERS) or src.kinds[kind[-1]] != "word":
            continue    # a pointer to threadgroup memory
        k = kind.pop() + 1
        kind = [t for t in kind[1:] if src.texts[t] != "volatile"]
        for a, b in src.split(k - 1, stop):
            if src.kinds[a] != "word":
                continue
            dims, at = [], a + 1
            while at < b and src.texts[at] == "[":
                dims.append((at, src.match[at] + 1))
                at = src.match[at] + 1
            found.append(Variable(a, kind, dims, i, stop))
    return found


def constants_before(src, begin, end):
    """(block, first token, end) of the declarations that are visible at token `end` of the body that begins at
    `begin`; `block` counts the blocks around it."""
    found, block, i = [], 0, begin + 1
    while i < end:
        if src.texts[i] == "{":
            around = src.match[i] > end
            block += around
            i = i + 1 if around else src.match[i] + 1
        elif src.texts[i] in DECLARATIONS and src.texts[i - 1] in (";", "{", "}"):
            stop = i
            while stop < end and src.texts[stop] != ";":
                stop = src.match[stop] + 1 if src.texts[stop] in ("(", "[", "{") else stop + 1
            if stop < end and "threadgroup" not in src.texts[i:stop]:
                found.append((block, i, stop + 1))
            i = stop + 1
        else:
            i += 1
    return found


def cpp(src, tokens):
    kept = [t for t in tokens if src.texts[t] not in (*SPACES, "static")]
    return "".join(src.spaced(t, literal(src.texts[t]) if src.kinds[t] == "number" else src.texts[t], kept[0])
                   for t in kept)


def declared(src, begin, end):
    """The names that a declaration makes known."""
    if src.texts[begin] == "enum":
        return {src.texts[t] for t in range(begin, end) if src.kinds[t] == "word"}
    names, value, i = set(), False, begin + 1
    while i < end:
        if src.texts[i] in ("=", ","):
            value = src.texts[i] == "="
        elif src.kinds[i] == "word" and not value and src.texts[i + 1] in ("=", ";", ",", "[", "{", "("):
            names.add(src.texts[i])
        i = src.match[i] + 1 if src.texts[i] in ("(", "[", "{") else i + 1
    return names


def statement(src, body, v):
    """Adds one variable to `bytes`, after the declarations that its type needs."""
    dims = [t for a, b in v.dims for t in range(a, b)]
    needed = {src.texts[t] for t in (*v.type, *dims) if src.kinds[t] == "word"}
    kept, blocks = "", []
    for block, a, b in reversed(constants_before(src, body[0], v.begin)):
        if declared(src, a, b) & needed:   # an inner block may hide what an outer one declares
            kept = f"{cpp(src, range(a, b))} {'{ ' if blocks and blocks[-1] != block else ''}{kept}"
            blocks += [block] if block not in blocks else []
            needed |= {src.texts[t] for t in range(a, b) if src.kinds[t] == "word"}
    kind, close = cpp(src, v.type), "} " * len(blocks)
    return (f"{{ {kept}bytes = (bytes + alignof({kind}) - 1) / alignof({kind}) * alignof({kind}) "
            f"+ sizeof({kind}{cpp(src, dims)}); {close if blocks else '} '}")


def declare(src, module):
    """Writes the function after each kernel that has threadgroup variables, and remembers which have."""
    for kernel in module.kernels.values():
        mine = variables(src, *kernel.body)
        kernel.has_threadgroup_variables = bool(mine)
        if not mine:
            continue
        last = kernel.body[1] - 1
        sums = " ".join(statement(src, kernel.body, v) for v in mine)
        head = cpp(src, range(*kernel.head)) if kernel.head else ""
        src.replace(last, last + 1, f"}} {head} constexpr unsigned long {NAME}{kernel.name}() "
                    f"{{ unsigned long bytes = 0; {sums} return bytes; }}")


def constant(symbol, instance):
    """The declaration of the constant of an instance, to stand beside its entry point; or nothing."""
    if not instance.kernel.has_threadgroup_variables:
        return ""
    path, name, arguments = re.fullmatch(r"((?:\w* ?:: )*)(\w+)(.*)", instance.expression).groups()
    return f"static constexpr unsigned {symbol}_bytes = unsigned({path}{NAME}{name}{arguments}());\n"


def reference(entry, instance):
    """The value for the kernel's record; `entry` is the entry point's qualified name."""
    return f"{entry}_bytes" if instance.kernel.has_threadgroup_variables else "0"
