"""Components of vectors in constant expressions: C++ lets those read only the member of a union that was written, which
is the array of components. Where a class of the user has a member of that name, only what is plainly a vector is read
so."""

import re

from .declarations import CLASS

VECTOR = re.compile(r"(?:packed_)?(?:bool|u?char|u?short|u?int|u?long|half|bfloat|float)[234]$")
COMPONENTS = {letter: i for letters in ("xyzw", "rgba") for i, letter in enumerate(letters)}


def constant_components(src, found):
    """Within what is evaluated by the compiler, `v.y` becomes `v[1]` and `v.zx` a subscript by both. Returns the tokens
    that were read so."""
    read = set()
    # The type of `v.y` is a component's, that of `v[1]` a reference.
    types = {j for i, word in enumerate(src.texts) if word == "decltype" for j in range(i, src.match[i + 1])}
    members = {src.texts[i] for d in found if d.kind == CLASS for i in range(d.body, d.end)
               if src.kinds[i] == "word" and src.texts[i - 1] not in (".", "->")}
    done = -1
    for begin, end in _constant_expressions(src):
        for i in range(max(begin, done), end):
            word = src.texts[i]
            if i in types or src.texts[i - 1] != "." or not 1 <= len(word) <= 4:
                continue
            if not any(set(word) <= set(letters) for letters in ("xyzw", "rgba")):
                continue
            if word in members and not _is_vector(src, i - 2):
                continue
            indices = [str(COMPONENTS[c]) for c in word]
            index = indices[0] if len(indices) == 1 else f"::metal::mpsx_components<{', '.join(indices)}>()"
            src.replace(i - 1, i + 1, f"[{index}]")
            read.add(i)
        done = max(done, end)
    return read


def _is_vector(src, i):
    """Whether the expression that ends at token i is a vector as far as its own words say."""
    while src.texts[i] == "]":
        i = src.match[i] - 1
    if src.texts[i] == ")":
        return bool(VECTOR.match(src.texts[src.match[i] - 1]))
    return any(src.texts[j] == src.texts[i] and VECTOR.match(src.texts[j - 1]) for j in range(1, i))


def _constant_expressions(src):
    """Token ranges: constexpr variables and functions, conditions of `if constexpr`, static assertions."""
    for i, word in enumerate(src.texts):
        if src.kinds[i] != "word" or word not in ("constexpr", "static_assert"):
            continue
        if src.texts[i + 1] == "(":
            yield i, src.match[i + 1]
            continue
        j = i
        while j < len(src) and src.texts[j] != ";":
            if src.texts[j] in "([{":
                function = src.texts[j] == "{" and src.texts[j - 1] in (")", "const", "noexcept")
                j = src.match[j]
                if function:
                    break
            j += 1
        yield i, j
