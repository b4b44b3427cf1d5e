"""The declarations of namespaces and classes: where each begins, what kind it is, what it is called."""

from dataclasses import dataclass

CLASS_WORDS = ("struct", "class", "union")
FUNCTION, CLASS, OTHER = "function", "class", "other"


@dataclass
class Declaration:
    kind: str       # FUNCTION (with or without a body), CLASS (with a body) or OTHER
    begin: int      # its first token, `template` included
    end: int        # behind its last
    name: int       # token of the name, or -1
    open: int       # the "(" of a function's parameters, or -1
    body: int       # the "{", or -1
    in_class: bool
    scope: tuple    # names of the enclosing namespaces and classes


def declarations(src):
    """Every declaration at namespace or class scope, outer ones first."""
    return list(_scan(src, 0, len(src), (), False))


def _scan(src, i, end, scope, in_class):
    begin = i
    while i < end:
        t = src.texts[i]
        if src.kinds[i] in ("string", "char", "number"):
            i += 1
        elif t == "namespace" and begin == i and src.texts[i + 1] != "=":
            brace = i + 1
            while src.texts[brace] not in ("{", ";", "="):
                brace += 1
            if src.texts[brace] != "{":
                i = begin = _after(src, brace, end)
                continue
            names = tuple(w for w in src.texts[i + 1:brace] if w not in ("::", "inline")) or ("",)
            yield from _scan(src, brace + 1, src.match[brace], scope + names, False)
            i = begin = src.match[brace] + 1
        elif t == "extern" and src.kinds[i + 1] == "string" and src.texts[i + 2] == "{":
            yield from _scan(src, i + 3, src.match[i + 2], scope, False)
            i = begin = src.match[i + 2] + 1
        elif in_class and t in ("public", "private", "protected") and src.texts[i + 1] == ":":
            i = begin = i + 2
        elif t in (";", "}"):
            i = begin = i + 1
        else:
            found = _one(src, begin, end, scope, in_class)
            yield found
            if found.kind == CLASS:
                name = f"{src.texts[found.name] if found.name >= 0 else ''}@{found.begin}"   # specialisations differ
                yield from _scan(src, found.body + 1, src.match[found.body], (*scope, name), True)
            i = begin = max(found.end, begin + 1)


def _after(src, i, end):
    """Behind the next ';'."""
    while i < end and src.texts[i] != ";":
        i = src.match[i] + 1 if src.texts[i] in "([{" else i + 1
    return i + 1


def _one(src, begin, end, scope, in_class):
    """The declaration that begins at a token."""
    i, opening, name, word = begin, -1, -1, ""
    while i < end and src.texts[i] == "template" and src.texts[i + 1] == "<":
        i = src.angle_end(i + 1) + 1
    while i < end:
        t = src.texts[i]
        stop = src.attribute_end(i) if t == "[" else None
        if stop is not None:
            i = stop + 1
        elif src.specifier_end(i) > i:
            i = src.specifier_end(i)
        elif t == "operator":
            name, i = i, i + 1
            while src.texts[i] != "(" or src.texts[i + 1:i + 3] == [")", "("]:
                i += 1
        elif t == "<" and src.kinds[i - 1] == "word":
            i = _angle(src, i) + 1
        elif t == "(":
            if opening < 0:
                before = name if name >= 0 else name_before(src, i)
                if before >= begin:
                    opening, name = i, before
            i = src.match[i] + 1
        elif t == "[":
            i = src.match[i] + 1
        elif (t in CLASS_WORDS and opening < 0) or t == "enum":
            word, i = t, i + 1
        elif t == ":" and opening >= 0:
            i = constructor_body(src, i + 1)
        elif t == "{":
            if opening >= 0:
                return Declaration(FUNCTION, begin, src.match[i] + 1, name, opening, i, in_class, scope)
            if word in CLASS_WORDS:
                last = _after(src, src.match[i] + 1, end)
                return Declaration(CLASS, begin, last, _class_name(src, begin, i), -1, i, in_class, scope)
            i, word = src.match[i] + 1, ""
        elif t == "=" and opening < 0:
            return Declaration(OTHER, begin, _after(src, i, end), name_before(src, i), -1, -1, in_class, scope)
        elif t == ";":
            kind = FUNCTION if opening >= 0 else OTHER
            found = name if opening >= 0 else name_before(src, i)
            return Declaration(kind, begin, i + 1, found, opening, -1, in_class, scope)
        else:
            i += 1
    return Declaration(OTHER, begin, end, -1, -1, -1, in_class, scope)


def _angle(src, i):
    """The '>' of the '<' at token i, or i where it is a comparison."""
    depth = 0
    for j in range(i, len(src)):
        t = src.texts[j]
        depth += (j == i or src.opens(j)) - (t == ">")
        if depth == 0:
            return j
        if t in (";", "{", "}"):
            break
    return i


def name_before(src, i):
    """The name that stands before token i: past array bounds, attributes and template arguments."""
    i -= 1
    while i >= 0 and src.texts[i] in ("]", ">"):
        if src.texts[i] == "]":
            i = src.match[i] - 1
            continue
        depth = 0
        while i >= 0:
            depth += (src.texts[i] == ">") - (src.texts[i] == "<")
            i -= 1
            if depth == 0:
                break
    return i if i >= 0 and src.kinds[i] == "word" and src.texts[i] not in ("decltype", "alignas") else -1


def _class_name(src, begin, brace):
    i = begin
    while i < brace and src.texts[i] == "template" and src.texts[i + 1] == "<":
        i = src.angle_end(i + 1) + 1
    while i < brace and src.texts[i] not in CLASS_WORDS:
        i += 1
    for j in range(i + 1, brace):
        if src.texts[j] == "alignas":
            continue
        if src.kinds[j] == "word" and src.texts[j - 1] != "(":
            return j
    return -1


def constructor_body(src, i):
    """The '{' of the body behind a constructor's member initialisers."""
    while i < len(src):
        while src.texts[i] not in ("(", "{"):
            i = _angle(src, i) + 1 if src.texts[i] == "<" else i + 1
        i = src.match[i] + 1
        if src.texts[i] != ",":
            return i
        i += 1
    return i
