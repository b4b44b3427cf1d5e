"""Find the element types of kernel buffers from their declarations, aliases, and template parameters.

A type is written as its scalar type and the number of components, such as `float` or `half 4`. Structs, `void`, and
types that need semantic analysis are unknown and written as ""."""

import re

from .declarations import ALIAS
from .deduction import parameter_name
from .kernels import template_parameters

SCALARS = {
    "bool": "bool", "char": "char", "uchar": "uchar", "short": "short", "ushort": "ushort", "int": "int",
    "uint": "uint", "long": "long", "ulong": "ulong", "half": "half", "float": "float", "bfloat": "bfloat",
    "int8_t": "char", "uint8_t": "uchar", "int16_t": "short", "uint16_t": "ushort", "int32_t": "int",
    "uint32_t": "uint", "int64_t": "long", "uint64_t": "ulong", "size_t": "ulong", "ptrdiff_t": "long",
    "unsigned": "uint", "signed": "int", "_Float16": "half", "__fp16": "half",
}  # fmt: skip
VECTOR = re.compile(r"(?:packed_|simd_)?(\w+?)([234])(?:x([234]))?$")
ATOMIC = re.compile(r"atomic_(\w+)$")
DROPPED = {"const", "volatile", "restrict", "__restrict", "device", "constant", "threadgroup", "thread", "metal", "::",
           "typename", "struct", "std", "coherent", "signed"}  # fmt: skip
MAX_DEPTH = 8   # nesting of aliases


def aliases(unit):
    """Return a dict from the names defined by `using` and `typedef` to the tokens of their types. Omits ambiguous
    names."""
    found, ambiguous, src = {}, set(), unit.src
    for d in unit.of_kind(ALIAS):
        begin, end = d.value
        if d.name < 0 or d.heads or (src.texts[d.start] == "typedef" and d.name != end - 1):
            continue
        name, words = src.texts[d.name], src.texts[begin:min(end, d.name) if d.name > begin else end]
        if found.setdefault(name, words) != words:
            ambiguous.add(name)
    return {name: words for name, words in found.items() if name not in ambiguous}


def template_arguments(src, instance):
    """Return a dict from the names of an instance's template parameters to the tokens of their arguments."""
    kernel = instance.kernel
    if not kernel.head:
        return {}
    expression = instance.expression.split()
    begin = next((i for i, w in enumerate(expression) if w == "<"), len(expression))
    given, depth = [[]], 0
    for w in expression[begin + 1:-1]:
        depth += (w in ("<", "(")) - (w in (">", ")"))
        if w == "," and depth == 0:
            given.append([])
        else:
            given[-1].append(w)
    found = {}
    for k, words in enumerate(template_parameters(src, kernel)):
        default = words[words.index("=") + 1:] if "=" in words else None
        found[parameter_name(words)] = given[k] if k < len(given) and given[k] else default
    return found


def element_type(parameter, names):
    """Return the element type of a parameter. `names` maps aliases and template parameters to the tokens of a type."""
    words = parameter.text.split()
    if "(" in words or "[" in words or words[-1] in ("*", "&"):
        return ""
    words = [w for w in words[:-1] if w not in ("*", "&")] if words.count("*") + words.count("&") == 1 else []
    return resolve(words, names, MAX_DEPTH)


def value_type(text, names):
    """Return the name of a scalar or vector type, such as `int2`, that the type `text` refers to. Return "" for any
    other type."""
    scalar, _, count = resolve(text.split(), names, MAX_DEPTH).partition(" ")
    return scalar + count if count in ("", "2", "3", "4") else ""


def resolve(words, names, depth):
    """Return the name of the element type that the tokens `words` refer to, or "" if it is unknown."""
    long = words.count("long")
    words = [w for w in words if w not in DROPPED]
    if len(words) > 1 and words[0] == "unsigned":
        words = ["u" + words[-1]]
    if long > 1 and set(words) == {"long"}:
        words = ["long"]
    if len(words) > 1:
        return resolve_template(words, names, depth)
    if not words or depth == 0:
        return ""
    (word,) = words
    if word in names:
        return resolve(names[word], names, depth - 1) if names[word] else ""
    if word in SCALARS:
        return SCALARS[word]
    if atomic := ATOMIC.match(word):
        return f"atomic {SCALARS[atomic[1]]}" if atomic[1] in SCALARS else ""
    vector = VECTOR.match(word)
    if vector and vector[1] in SCALARS:
        return f"{SCALARS[vector[1]]} {int(vector[2]) * int(vector[3] or 1)}"
    return ""


def resolve_template(words, names, depth):
    """Return the element type of vec<T, 4>, packed_vec<T, 4>, matrix<T, 4, 4> or atomic<T>."""
    if words[1] != "<" or words[-1] != ">" or words.count("<") != 1:
        return ""
    parts = " ".join(words[2:-1]).split(" , ")
    scalar = resolve(parts[0].split(), names, depth - 1)
    if words[0] == "atomic" and len(parts) == 1:
        return f"atomic {scalar}" if scalar in SCALARS else ""
    if words[0] not in ("vec", "packed_vec", "matrix") or scalar not in SCALARS:
        return ""
    count = 1
    for part in parts[1:]:
        text = " ".join(names.get(part) or [part])
        if not text.isdigit():
            return ""
        count *= int(text)
    return f"{scalar} {count}" if count > 1 else scalar
