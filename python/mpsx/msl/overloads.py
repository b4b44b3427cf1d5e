"""Overloads that differ in nothing but address spaces. On a CPU memory is of one kind, so that one of them does.

    void load(device T* p), void load(threadgroup T* p), operator T() const device, struct element<thread T*>

Of functions the first stays: what memory a pointer leads to is all that the others may know better. Specialisations
of classes are told apart by what they say, so they must say the same."""

import bisect
import functools
import os
import re

from .declarations import CLASS, FUNCTION

SPACES = {"device", "thread", "threadgroup", "constant", "threadgroup_imageblock", "ray_data", "object_data"}
QUALIFIERS = {"const", "volatile", "restrict", "__restrict", "__restrict__"}
HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = re.compile(r"MPSX_(?:VALUE|TEST)\((\w+)\)|^template <class A(?:, class B)?> \w+ (\w+)\(", re.M)
SPECIFIERS = {"constexpr", "inline", "METAL_FUNC", "explicit"}
BUILTIN = {"int", "char", "short", "long", "float", "half", "bool", "void", "unsigned", "signed", "auto"}


def normal(src, begin, end):
    """Tokens without address spaces and attributes; `const` once, before the type that it belongs to."""
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


def parameter(src, begin, end):
    """A parameter's type, without its name and default."""
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
    text = normal(src, begin, last if named else stop) + brackets
    by_reference = re.fullmatch(r"const ([\w :<>,]+?) &", text)   # a value and a reference to it are as good
    return by_reference[1] if by_reference else text


def function_key(src, d):
    """A key that two functions share if only their address spaces differ."""
    close = src.match[d.open]
    parameters = [parameter(src, a, b) for a, b in src.split(d.open + 1, close)]
    stop = close + 1
    while stop < d.end and src.texts[stop] not in ("{", ";", ":", "="):
        stop += 1
    behind = normal(src, close + 1, stop)
    if d.in_class and src.texts[d.name] == d.scope[-1].partition("@")[0]:   # a constructor is never const
        behind = ""
    return (d.scope, normal(src, d.begin, d.open), *parameters, behind)


def spaces(src, d):
    """The address spaces that a declaration's head names."""
    head = d.body if d.body >= 0 else d.end
    return [src.texts[i] for i in range(d.begin, head) if src.texts[i] in SPACES]


def duplicates(src, found):
    """Token ranges of the declarations to leave out; `found`: declarations(src)."""
    seen, out = {}, []
    for d in found:
        if d.kind == FUNCTION and d.name >= 0 and (d.body >= 0 or d.in_class):
            first = seen.setdefault(function_key(src, d), d)
        elif d.kind == CLASS and src.texts[d.body - 1] == ">":
            first = seen.setdefault((d.scope, normal(src, d.begin, d.body)), d)
        else:
            continue
        if first is d or spaces(src, first) == spaces(src, d):
            continue
        if d.kind == CLASS and normal(src, first.body, first.end) != normal(src, d.body, d.end):
            raise src.error(d.begin, f"'{src.span(d.begin, d.body)}' and the one at {src.location(first.begin)} differ "
                            "in address spaces only, which a CPU does not tell apart, and say different things")
        out.append((d.begin, d.end))
    return out


@functools.cache
def library_names():
    """The functions of the Metal library."""
    with open(os.path.join(HERE, "check", "declarations.h")) as f:
        return {a or b for a, b in LIBRARY.findall(f.read())}


def without_arguments_namespaces(src, found):
    """`max(x)` becomes `(max)(x)` where the source has a template of its own of that name: C++ would look in the
    namespaces of the arguments too, where bfloat and the vectors are classes. In Metal they are not, and have none."""
    own = {}
    for d in found:
        if d.kind == FUNCTION and d.name >= 0 and not d.in_class and src.texts[d.begin] == "template":
            own.setdefault(src.texts[d.name], []).append(d)
    own = {name: ds for name, ds in own.items() if name in library_names()} if own else own
    if not own:
        return
    declared = {d.name for d in found if d.kind == FUNCTION}
    bodies = [d for d in found if d.kind == FUNCTION and d.body >= 0]
    begins = [d.begin for d in bodies]
    for i, t in enumerate(src.texts):
        if t not in own or i in declared or src.kinds[i] != "word" or src.texts[i - 1] in (".", "->", "::"):
            continue
        if src.kinds[i - 1] == "word" and src.texts[i - 1] not in ("return", "else", "case", "do"):
            continue
        around = bodies[bisect.bisect_right(begins, i) - 1] if begins and begins[0] <= i else None
        if around is None or i >= around.end:
            continue
        scope = tuple(s for s in around.scope if "@" not in s)
        if not any(d.begin < i and scope[:len(d.scope)] == d.scope for d in own[t]):
            continue
        end = src.angle_end(i + 1) + 1 if src.opens(i + 1) else i + 1
        if src.texts[end] == "(":
            src.wrap(i, end, "(", ")")
