"""Remove address spaces and attributes, which C++ lacks, and convert literals to C++."""

from ..declarations import NAMESPACE
from .literals import literal

DROPPED_SPACES = {"device", "thread", "threadgroup", "ray_data", "object_data"}
KEPT_ATTRIBUTES = {"maybe_unused", "nodiscard", "fallthrough", "likely", "unlikely"}


def specifiers_end(src, i):
    """Return the end of the declaration specifiers around token i: the first of * & ; = , ( { and ) after it."""
    depth, j = 0, i
    while j < len(src):
        t = src.texts[j]
        depth += src.opens(j) - (t == ">")
        if src.specifier_end(j) > j:
            j = src.specifier_end(j)
            continue
        if depth < 0 or (depth == 0 and t in ("*", "&", ";", "=", ",", "(", ")", "{", "[")):
            return j
        j += 1
    return len(src)


def constant_replacement(src, i, depth):
    """Return the replacement for `constant` at token i. `depth` is the number of brackets around it."""
    if src.texts[i + 1] == ":":  # it qualifies `this`, after a constructor's parameters
        return ""
    begin = i
    while begin and src.texts[begin - 1] in ("static", "constexpr", "const", "inline", "extern"):
        begin -= 1
    end = specifiers_end(src, i)
    words = src.texts[begin:i] + src.texts[i + 1:end]
    if src.texts[i - 1] == "*":  # in `constant half* constant table`, the pointer itself is constant
        return "const"
    pointer = src.texts[end] in ("*", "&") or src.texts[end:end + 2] in (["(", "*"], ["(", "&"])
    # constexpr makes a variable const, but not the pointee of a pointer.
    const = "" if "const" in words or ("constexpr" in words and not pointer) else "const"
    variable = depth == 0 and src.texts[end] not in ("*", "&", ")", ",", ">", "(")
    variable = variable and src.texts[end - 2] != "::"  # exclude definitions of members outside their class
    if not variable:
        return const
    return " ".join(filter(None, ["" if "static" in words else "static", const]))


def is_variable(src, i):
    """Return whether the address space at token i applies to a variable rather than to a pointee, an alias, or a member
    function."""
    end = specifiers_end(src, i)
    qualifiers = ("const", "volatile", "noexcept")
    return (src.texts[i - 1] not in (*qualifiers, "=", "typedef")
            and src.texts[i + 1] not in (*qualifiers, "{", ":", ";", "=")
            and src.texts[end] not in ("*", "&", ")", ",", ">")
            and src.texts[end:end + 2] not in (["(", "*"], ["(", "&"]))


def lower_address_spaces(src, unit, done, shared):
    """Run the pass. Skip the tokens in `done`, which other passes have replaced. If `shared` is set, threads share
    threadgroup variables, and `done` includes all of those."""
    braces = {brace for d in unit.of_kind(NAMESPACE) for brace in (d.body, src.match[d.body])}
    around, i = [], 0  # the open brackets, not counting namespaces
    while i < len(src):
        kind, t = src.kinds[i], src.texts[i]
        if i in done:
            i += 1
            continue
        if kind == "op":
            stop = src.attribute_end(i) if t == "[" else None
            if stop is not None:
                if not KEPT_ATTRIBUTES & set(src.texts[i:stop]):
                    src.replace(i, stop + 1)
                i = stop + 1
                continue
            if t in "([{" and i not in braces:
                around.append(t)
            elif t in ")]}" and i not in braces:
                around.pop()
        elif kind == "number":
            new = literal(t)
            if new != t:
                src.replace(i, i + 1, new)
        elif kind == "word":
            member = i and src.texts[i - 1] in (".", "->")
            if t in DROPPED_SPACES:
                if shared and t == "threadgroup" and around[-1:] != ["("] and is_variable(src, i):
                    raise src.error(i, "expected a threadgroup variable at the beginning of a statement in a function")
                src.replace(i, i + 1)
            elif t == "constant":
                src.replace(i, i + 1, constant_replacement(src, i, len(around)))
            elif t == "coherent" and not member and src.texts[i + 1] in ("device", "("):   # also coherent(device) T*
                end = src.match[i + 1] + 1 if src.texts[i + 1] == "(" else i + 1
                src.replace(i, end)
                i = end
                continue
            elif t == "double" and not member:
                raise src.error(i, "Metal has no double")
        i += 1
