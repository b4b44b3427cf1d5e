"""Remove overloads that differ only in address spaces. A CPU has one kind of memory, so one overload is enough.
Examples:

    void load(device T* p), void load(threadgroup T* p), operator T() const device, struct element<thread T*>

The first function is kept, because overloads that differ only in the kind of memory should do the same thing. Class
specializations that differ only in address spaces must have identical bodies."""

import bisect
import functools
import os
import re

from ..declarations import CLASS, FUNCTION

SPACES = {"device", "thread", "threadgroup", "constant", "threadgroup_imageblock", "ray_data", "object_data"}
QUALIFIERS = {"const", "volatile", "restrict", "__restrict", "__restrict__"}
LIBRARY_DECLARATIONS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "check",
                                    "declarations.h")
LIBRARY = re.compile(r"MPSX_(?:VALUE|TEST)\((\w+)\)|^template <class A(?:, class B)?> \w+ (\w+)\(", re.M)
SPECIFIERS = {"constexpr", "inline", "METAL_FUNC", "explicit"}
BUILTIN = {"int", "char", "short", "long", "float", "half", "bool", "void", "unsigned", "signed", "auto"}


def normalized(src, begin, end):
    """Return tokens as text without address spaces and attributes. Put `const` before the type that it qualifies."""
    words, chunk, i = [], [], begin

    def flush(t=""):
        if "const" in chunk:
            chunk[:] = ["const", *(w for w in chunk if w != "const")]
        words.extend(chunk)
        chunk.clear()
        if t:
            words.append(t)

    while i < end:
        t = src.texts[i]
        stop = src.attribute_end(i) if t == "[" else None
        if stop is not None:
            i = stop + 1
            continue
        if src.kinds[i] == "word":
            t = "const" if t == "constant" else t
            if t not in SPACES | SPECIFIERS:
                chunk.append(t)
        elif t == "::":
            chunk.append(t)
        else:
            flush(t)
        i += 1
    flush()
    return " ".join(words)


def parameter_type(src, begin, end):
    """Return a parameter's type without its name and default value."""
    stop = begin
    while stop < end and src.texts[stop] != "=":
        stop = src.match[stop] + 1 if src.texts[stop] in "([{" else stop + 1
    brackets = ""
    while stop > begin and src.texts[stop - 1] == "]":
        first = src.match[stop - 1]
        brackets, stop = brackets if src.attribute_end(first) is not None else "[]", first
    last = stop - 1
    types = [i for i in range(begin, stop) if src.texts[i] not in SPACES | QUALIFIERS]
    named = (len(types) > 1 and src.kinds[last] == "word" and src.texts[last - 1] != "::"
             and src.texts[last] not in BUILTIN)
    text = normalized(src, begin, last if named else stop) + brackets
    by_reference = re.fullmatch(r"const ([\w :<>,]+?) &", text)  # treat a const reference as a value
    return by_reference[1] if by_reference else text


def function_key(src, d):
    """Return a key that is the same for functions that differ only in address spaces."""
    close = src.match[d.open]
    stop = close + 1
    while stop < d.end and src.texts[stop] not in ("{", ";", ":", "="):
        stop += 1
    qualifiers = normalized(src, close + 1, stop)
    if d.in_class and src.texts[d.name] == d.scope[-1].partition("@")[0]:  # constructors have no qualifiers in C++
        qualifiers = ""
    return (d.scope, normalized(src, d.begin, d.open), *(parameter_type(src, *p) for p in d.parameters), qualifiers)


def address_spaces(src, d):
    """Return the address spaces that occur in a declaration before its body."""
    return [t for t in src.texts[d.begin:d.body if d.body >= 0 else d.end] if t in SPACES]


def remove_duplicates(src, unit):
    """Among declarations that differ only in address spaces, remove all but the first."""
    seen = {}
    for d in unit.all:
        if d.kind == FUNCTION and (d.body >= 0 or d.in_class):
            first = seen.setdefault(function_key(src, d), d)
        elif d.kind == CLASS and src.texts[d.body - 1] == ">":
            first = seen.setdefault((d.scope, normalized(src, d.begin, d.body)), d)
        else:
            continue
        if first is d or address_spaces(src, first) == address_spaces(src, d):
            continue
        if d.kind == CLASS and normalized(src, first.body, first.end) != normalized(src, d.body, d.end):
            raise src.error(d.begin, f"'{src.span(d.begin, d.body)}' differs from the one at "
                            f"{src.location(first.begin)} only in address spaces, which do not exist on a CPU, but the "
                            "bodies differ")
        src.replace(d.begin, d.end)


@functools.cache
def library_names():
    """Return the functions of the Metal library."""
    with open(LIBRARY_DECLARATIONS) as f:
        return {a or b for a, b in LIBRARY.findall(f.read())}


def suppress_argument_lookup(src, unit):
    """Turn `max(x)` into `(max)(x)` if the source defines a template `max`. Otherwise, C++ argument-dependent lookup
    would also find the Metal library's `max`, because bfloat and the vectors are classes rather than built-in types."""
    own = {}
    for d in unit.functions:
        if not d.in_class and src.texts[d.begin] == "template" and src.texts[d.name] in library_names():
            own.setdefault(src.texts[d.name], []).append(d)
    if not own:
        return
    declared = {d.name for d in unit.functions}
    begins = [d.begin for d in unit.definitions]
    for i, t in enumerate(src.texts):
        if t not in own or i in declared or src.kinds[i] != "word" or src.texts[i - 1] in (".", "->", "::"):
            continue
        if src.kinds[i - 1] == "word" and src.texts[i - 1] not in ("return", "else", "case", "do"):
            continue
        caller = unit.definitions[bisect.bisect_right(begins, i) - 1] if begins and begins[0] <= i else None
        if caller is None or i >= caller.end:
            continue
        scope = tuple(s for s in caller.scope if "@" not in s)
        if not any(d.begin < i and scope[:len(d.scope)] == d.scope for d in own[t]):
            continue
        end = src.angle_end(i + 1) + 1 if src.opens(i + 1) else i + 1
        if src.texts[end] == "(":
            src.wrap(i, end, "(", ")")
