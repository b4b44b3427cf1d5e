"""Lower vector syntax that C++ cannot express: swizzles of swizzles, swizzles as values, components in constant
expressions, and short initializer lists."""

import re

from ..declarations import CLASS

VECTOR = re.compile(r"(?:packed_)?(?:bool|u?char|u?short|u?int|u?long|half|bfloat|float)[234]$")
LETTERS = ("xyzw", "rgba")
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"}


def swizzle_letters(word):
    return next((letters for letters in LETTERS if set(word) <= set(letters)), None)


def compose_swizzles(src):
    """Turn `a.rgb.zy` into `a.bg`, because a C++ swizzle has no swizzle members."""
    i = 1
    while i + 2 < len(src):
        first = src.texts[i]
        if src.texts[i - 1] in (".", "->") and 2 <= len(first) <= 4 and swizzle_letters(first):
            j, picked = i, first
            while src.texts[j + 1] == "." and len(src.texts[j + 2]) <= 4 and swizzle_letters(src.texts[j + 2]):
                letters = swizzle_letters(src.texts[j + 2])
                indices = [letters.index(c) for c in src.texts[j + 2]]
                if max(indices) >= len(picked):
                    raise src.error(j + 2, f"'.{src.texts[j + 2]}' of a vector of {len(picked)} components")
                picked = "".join(picked[k] for k in indices)
                j += 2
            if j > i:
                src.replace(i, j + 1, picked)
                i = j
        i += 1


def convert_swizzles(src, done):
    """Append a conversion to a vector to every swizzle that is read, as in `auto q = v.xy; q.x` and `f(v.xy)`. Skip
    names that are class members in the source, and the tokens `done`, which are already vectors."""
    own = {t for i, t in enumerate(src.texts) if src.kinds[i] == "word" and src.texts[i - 1] not in (".", "->")}
    for i in range(1, len(src) - 1):
        t = src.texts[i]
        if (2 <= len(t) <= 4 and src.texts[i - 1] in (".", "->") and swizzle_letters(t) and t not in own
                and i not in done and src.texts[i + 1] not in ASSIGNMENTS and src.texts[i + 1] not in (".", "[")):
            src.wrap(i, i + 1, "", "()")


def index_constant_components(src, unit):
    """In constant expressions, turn `v.y` into `v[1]`, and `v.zx` into a subscript by both indices. Return the tokens.
    A C++ constant expression can read only the active member of a union, which here is the array of components. If a
    class of the source has a member with the swizzle's name, convert only operands that are known to be vectors."""
    read = set()
    # Skip decltype: `v.y` has the component type, but `v[1]` is a reference.
    types = {j for i, word in enumerate(src.texts) if word == "decltype" for j in range(i, src.match[i + 1])}
    members = {src.texts[i] for d in unit.of_kind(CLASS) for i in range(d.body, d.end)
               if src.kinds[i] == "word" and src.texts[i - 1] not in (".", "->")}
    done = -1
    for begin, end in _constant_expressions(src):
        for i in range(max(begin, done), end):
            word = src.texts[i]
            if i in types or src.texts[i - 1] != "." or not 1 <= len(word) <= 4:
                continue
            letters = swizzle_letters(word)
            if not letters or (word in members and not _is_vector(src, i - 2)):
                continue
            indices = [str(letters.index(c)) for c in word]
            index = indices[0] if len(indices) == 1 else f"::metal::mpsx_components<{', '.join(indices)}>()"
            src.replace(i - 1, i + 1, f"[{index}]")
            read.add(i)
        done = max(done, end)
    return read


def _is_vector(src, i):
    """Return whether the expression that ends at token i is clearly a vector."""
    while src.texts[i] == "]":
        i = src.match[i] - 1
    if src.texts[i] == ")":
        return bool(VECTOR.match(src.texts[src.match[i] - 1]))
    return any(src.texts[j] == src.texts[i] and VECTOR.match(src.texts[j - 1]) for j in range(1, i))


def _constant_expressions(src):
    """Yield the token ranges of constexpr variables and functions, of `if constexpr` conditions, and of static
    assertions."""
    for i, word in enumerate(src.texts):
        if src.kinds[i] != "word" or word not in ("constexpr", "static_assert"):
            continue
        if src.texts[i + 1] == "(":
            yield i, src.match[i + 1]
            continue
        j = i
        while j < len(src) and src.texts[j] != ";":
            if src.texts[j] in "([{":
                is_body = src.texts[j] == "{" and src.texts[j - 1] in (")", "const", "noexcept")
                j = src.match[j]
                if is_body:
                    break
            j += 1
        yield i, j


def complete_initializers(src):
    """Turn `uint4 v = {a, b};` into a call that fills in the missing components."""
    for i, t in enumerate(src.texts):
        if t != "{" or src.texts[i - 1] != "=" or src.kinds[i - 2] != "word" or not VECTOR.match(src.texts[i - 3]):
            continue
        end = src.match[i]
        count = len(src.split(i + 1, end))
        if 1 < count < int(src.texts[i - 3][-1]) and "{" not in src.texts[i + 1:end] and src.texts[end - 1] != ",":
            src.replace(i, i + 1, f"::metal::mpsx_list_of<{src.texts[i - 3]}>(")
            src.replace(end, end + 1, ")")
