"""`c ? a : b` where one of a and b is half or bfloat.

These are classes here, and C++ refuses an operand that converts to the other's type in both directions, as half and
float do. So the operands are marked, and the result is unmarked: see src/metal_stdlib/conditional.h."""

import re

BEFORE = {"return", "case", "else", "do", "goto", "co_return", "throw"}
STATEMENTS = {"if", "while", "for", "switch", "constexpr"}
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
TEMPLATES = {"vec", "array", "as_type", "static_cast", "reinterpret_cast", "const_cast", "atomic", "matrix",
             "simdgroup_matrix", "numeric_limits", "packed_vec", "enable_if", "conditional", "is_same", "decay"}
SMALL = re.compile(r"b?half\d?(x\d)?$|bfloat\w*$|packed_b?half\d$|half\w*$")
IN_ANGLES = set("<>,*&+-/%()[].~!") | {"::", "==", "!=", "<=", ">="}


def begins_type(src, i):
    """Whether the name that ends before token i stands where a statement or a definition of a type begins."""
    k = i - 1
    while src.texts[k - 1] == "::" and src.kinds[k - 2] == "word":
        k -= 2
    before = src.texts[k - 1]
    if before in (";", "{", "}", "typedef", "typename", "struct", "class", "thread", "const", "constexpr"):
        return True
    return before == "=" and src.texts[k - 3] == "using"


def angle_pairs(src, templates):
    """The partner of every '<' and '>' that encloses template arguments. `templates`: names of templates."""
    pairs = {}
    for i, t in enumerate(src.texts):
        if t != "<" or i == 0 or src.kinds[i - 1] != "word" or i in pairs:
            continue
        word = src.texts[i - 1]
        sure = word in templates or word in TEMPLATES or word.endswith(("_t", "_v")) or src.texts[i - 2] == "template"
        conditions = begins_type(src, i)
        stack, j = [], i
        while j < len(src):
            inner = src.texts[j]
            if j == i or src.opens(j):
                stack.append(j)
            elif inner == ">":
                pairs[j], pairs[stack[-1]] = stack[-1], j
                stack.pop()
                if not stack:
                    break
            elif inner in "([":
                j = src.match[j]
            elif (src.kinds[j] == "op" and inner not in IN_ANGLES and not (sure and inner in ("&&", "||"))
                  and not (conditions and inner in ("?", ":"))):
                break
            j += 1
        if stack or not (sure or conditions or (j + 1 < len(src) and src.texts[j + 1] in ("(", "::", "{"))):
            for k in [k for k, v in pairs.items() if i <= k <= j and i <= v <= j]:
                del pairs[k]
    return pairs


def condition(src, pairs, question):
    """The first token of the condition before a '?'."""
    j = question - 1
    while j >= 0:
        t = src.texts[j]
        if t in (")", "]"):
            first = src.match[j]
            if t == ")" and src.texts[first - 1] in STATEMENTS:
                break
            j = first - 1
        elif t == ">" and j in pairs:
            j = pairs[j] - 1
        elif t == "}":
            first = src.match[j]
            if (src.kinds[first - 1] != "word" and src.texts[first - 1] != ">") or src.texts[first - 1] in BEFORE:
                break
            j = first - 1
        elif t in ("(", "[", "{", ";", ",", "?", ":") or t in ASSIGN or t in BEFORE or (t == "<" and j in pairs):
            break
        else:
            j -= 1
    return j + 1


def arm(src, pairs, i, stops):
    """Behind the last token of an operand that begins at token i; `stops` end it."""
    nested, begin = 0, i
    while i < len(src):
        t = src.texts[i]
        if t == ">" and pairs.get(i, begin) < begin:   # the last template argument
            break
        if t in "([{":
            i = src.match[i]
        elif t == "<" and i in pairs:
            i = pairs[i]
        elif t == "?":
            nested += 1
        elif t == ":" and nested:
            nested -= 1
        elif t in stops or t in ")]};":
            break
        i += 1
    return i


def plain(src, begin, end):
    """Whether an operand cannot stand beside half: a string, or nullptr."""
    return end == begin + 1 and (src.kinds[begin] == "string" or src.texts[begin] == "nullptr")


def same_cast(src, a, b):
    """Whether both operands are calls or casts of one name, as in `T(x) : T(0)`."""
    return (src.texts[a[0]] == src.texts[b[0]] and src.kinds[a[0]] == "word"
            and all(src.texts[x + 1] in ("(", "{") and src.match[x + 1] == y - 1 for x, y in (a, b)))


def literals(src, a, b):
    """Whether both are literals of one kind."""
    def kind(begin, end):
        begin += src.texts[begin] == "-"
        if end != begin + 1 or src.kinds[begin] != "number":
            return None
        return "f" if re.search(r"[.]|(?<!x)[eE][+-]?\d|[fFhH]$", src.texts[begin]) else "i"
    return kind(*a) is not None and kind(*a) == kind(*b)


def mark(src, templates, done=()):
    """Marks the conditional operators of a source that has half or bfloat in it, but for the tokens `done`."""
    if not any(kind == "word" and SMALL.match(t) for kind, t in zip(src.kinds, src.texts, strict=True)):
        return
    pairs = None
    for q, t in enumerate(src.texts):
        if t != "?" or src.kinds[q] != "op" or q in done:
            continue
        pairs = pairs if pairs is not None else angle_pairs(src, templates)
        colon = arm(src, pairs, q + 1, ":")
        if src.texts[colon] != ":":
            continue
        a, b = (q + 1, colon), (colon + 1, arm(src, pairs, colon + 1, (",", ":")))
        if plain(src, *a) or plain(src, *b) or literals(src, a, b) or same_cast(src, a, b) or b[1] <= b[0]:
            continue
        src.wrap(condition(src, pairs, q), b[1], "(::mpsx::unmark, (", "))")
        src.wrap(*a, "(::mpsx::mark, (", "))")
        src.wrap(*b, "(::mpsx::mark, (", "))")
