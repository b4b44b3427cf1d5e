"""Template arguments out of the types of parameters, for instantiations that leave them out:

    template <typename T> kernel void f(device T* x, constant vec<T, 2>& y) { … }
    template [[host_name("f_half")]] kernel void f(device half*, constant half2&);
"""

import re

VECTOR = re.compile(r"(bool|u?char|u?short|u?int|u?long|half|bfloat|float)([234])$")
QUALIFIERS = {"const", "volatile", "metal", "::"}
OPENING, CLOSING = set("<(["), set(">)]")


def template_arguments(head, pairs):
    """The arguments as text, up to the first that has a default and is not told; None where one is missing. `head`: the
    words of each template parameter; `pairs`: of each parameter the words of its declaration and of its type as the
    instantiation says it, which may name it too."""
    names = {name_of(words) for words in head}
    bound = {}
    for declared, said in pairs:
        pattern, words = normal(declared[:-1]), normal(said)
        for actual in (words, words[:-1]):
            found = match(pattern, actual, names, bound)
            if found is not None:
                bound = found
                break
    arguments = []
    for words in head:
        if name_of(words) not in bound:
            return arguments if "=" in words else None
        arguments.append(" ".join(bound[name_of(words)]))
    return arguments


def name_of(words):
    return words[(words.index("=") if "=" in words else len(words)) - 1]


def normal(words):
    """Words of a type in one spelling: without qualifiers, `vec<float, 2>` for float2."""
    out = []
    for w in words:
        vector = VECTOR.match(w)
        if vector:
            out += ["vec", "<", vector[1], ",", vector[2], ">"]
        elif w not in QUALIFIERS:
            out.append(w)
    return out


def match(pattern, words, names, bound):
    """`bound` with the names of the pattern that stand for words, or None."""
    if not pattern:
        return None if words else bound
    first, rest = pattern[0], pattern[1:]
    if first not in names:
        return match(rest, words[1:], names, bound) if words[:1] == [first] else None
    if first in bound:
        known = bound[first]
        return match(rest, words[len(known):], names, bound) if words[:len(known)] == known else None
    depth = 0
    for n, w in enumerate(words, 1):
        depth += (w in OPENING) - (w in CLOSING)
        if depth == 0:
            found = match(rest, words[n:], names, {**bound, first: words[:n]})
            if found is not None:
                return found
    return None
