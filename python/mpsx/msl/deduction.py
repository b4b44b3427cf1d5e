"""Deduce template arguments from the types of parameters, for instantiations that omit the arguments:

    template <typename T> kernel void f(device T* x, constant vec<T, 2>& y) { … }
    template [[host_name("f_half")]] kernel void f(device half*, constant half2&);
"""

import re

VECTOR = re.compile(r"(bool|u?char|u?short|u?int|u?long|half|bfloat|float)([234])$")
QUALIFIERS = {"const", "volatile", "metal", "::"}
OPENING, CLOSING = set("<(["), set(">)]")


def template_arguments(head, pairs):
    """Return the template arguments as text, or None if one cannot be deduced. Stop at the first parameter that is not
    deduced but has a default. `head` contains the tokens of each template parameter. For each function parameter,
    `pairs` contains its tokens in the declaration and in the instantiation, which may omit the parameter's name."""
    names = {parameter_name(words) for words in head}
    bound = {}
    for declared, given in pairs:
        pattern, words = normalized(declared[:-1]), normalized(given)
        for actual in (words, words[:-1]):
            found = match(pattern, actual, names, bound)
            if found is not None:
                bound = found
                break
    arguments = []
    for words in head:
        if parameter_name(words) not in bound:
            return arguments if "=" in words else None
        arguments.append(" ".join(bound[parameter_name(words)]))
    return arguments


def parameter_name(words):
    return words[(words.index("=") if "=" in words else len(words)) - 1]


def normalized(words):
    """Return the tokens of a type without qualifiers, with float2 spelled as `vec<float, 2>`."""
    out = []
    for w in words:
        vector = VECTOR.match(w)
        if vector:
            out += ["vec", "<", vector[1], ",", vector[2], ">"]
        elif w not in QUALIFIERS:
            out.append(w)
    return out


def match(pattern, words, names, bound):
    """Match `pattern` against `words`. Return `bound` with values for the names in `pattern`, or None on a mismatch."""
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
