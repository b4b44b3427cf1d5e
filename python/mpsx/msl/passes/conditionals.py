"""Lower `c ? a : b` if a or b is half or bfloat.

half and bfloat are classes in C++, which rejects operands whose types convert to each other in both directions, such as
half and float. The pass wraps the operands and unwraps the result (see src/metal_stdlib/conditional.h)."""

import re

BEFORE = {"return", "case", "else", "do", "goto", "co_return", "throw"}
STATEMENTS = {"if", "while", "for", "switch", "constexpr"}
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
TEMPLATES = {"vec", "array", "as_type", "static_cast", "reinterpret_cast", "const_cast", "atomic", "matrix",
             "simdgroup_matrix", "numeric_limits", "packed_vec", "enable_if", "conditional", "is_same", "decay",
             "tensor", "extents", "dextents", "slice", "execution_simdgroups"}
SMALL = re.compile(r"b?half\d?(x\d)?$|bfloat\w*$|packed_b?half\d$|half\w*$")
IN_ANGLES = set("<>,*&+-/%()[].~!") | {"::", "==", "!=", "<=", ">="}


def begins_type(src, i):
    """Return whether the name that ends before token i begins a statement or a type definition."""
    k = i - 1
    while src.texts[k - 1] == "::" and src.kinds[k - 2] == "word":
        k -= 2
    before = src.texts[k - 1]
    if before in (";", "{", "}", "typedef", "typename", "struct", "class", "thread", "const", "constexpr"):
        return True
    return before == "=" and src.texts[k - 3] == "using"


def angle_pairs(src, templates):
    """Map every '<' and '>' around template arguments to its partner. `templates` contains the names of templates."""
    pairs = {}
    for i, t in enumerate(src.texts):
        if t != "<" or i == 0 or src.kinds[i - 1] != "word" or i in pairs:
            continue
        word = src.texts[i - 1]
        named = word in templates or word in TEMPLATES or src.texts[i - 2] == "template"
        certain = named or word.endswith(("_t", "_v"))
        is_type = begins_type(src, i)
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
            elif (src.kinds[j] == "op" and inner not in IN_ANGLES and not (certain and inner in ("&&", "||"))
                  and not ((named or is_type) and inner in ("?", ":"))):
                break
            j += 1
        if stack or not (certain or is_type or (j + 1 < len(src) and src.texts[j + 1] in ("(", "::", "{"))):
            for k in [k for k, v in pairs.items() if i <= k <= j and i <= v <= j]:
                del pairs[k]
    return pairs


def condition_begin(src, pairs, question):
    """Return the first token of the condition before a '?'."""
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


def operand_end(src, pairs, i, stops):
    """Return the token after the operand that begins at token i. The operand ends at one of `stops` or at a closing
    bracket."""
    nested, begin = 0, i
    while i < len(src):
        t = src.texts[i]
        if t == ">" and pairs.get(i, begin) < begin:  # ends the last template argument
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


def is_pointer_literal(src, begin, end):
    """Return whether an operand is a string or nullptr, which cannot be mixed with half."""
    return end == begin + 1 and (src.kinds[begin] == "string" or src.texts[begin] == "nullptr")


def are_same_call(src, a, b):
    """Return whether both operands are calls or casts with the same name, as in `T(x) : T(0)`."""
    return (src.texts[a[0]] == src.texts[b[0]] and src.kinds[a[0]] == "word"
            and all(src.texts[x + 1] in ("(", "{") and src.match[x + 1] == y - 1 for x, y in (a, b)))


def are_same_literals(src, a, b):
    """Return whether both operands are literals of the same kind."""
    def kind(begin, end):
        begin += src.texts[begin] == "-"
        if end != begin + 1 or src.kinds[begin] != "number":
            return None
        return "f" if re.search(r"[.]|(?<!x)[eE][+-]?\d|[fFhH]$", src.texts[begin]) else "i"
    return kind(*a) is not None and kind(*a) == kind(*b)


def wrap_mixed_ternary(src, templates, done=()):
    """Wrap the operands of conditional operators in a source that uses half or bfloat. Skip the tokens `done`."""
    if not any(kind == "word" and SMALL.match(t) for kind, t in zip(src.kinds, src.texts, strict=True)):
        return
    pairs = None
    for q, t in enumerate(src.texts):
        if t != "?" or src.kinds[q] != "op" or q in done:
            continue
        pairs = pairs if pairs is not None else angle_pairs(src, templates)
        colon = operand_end(src, pairs, q + 1, ":")
        if src.texts[colon] != ":":
            continue
        a, b = (q + 1, colon), (colon + 1, operand_end(src, pairs, colon + 1, (",", ":")))
        if (is_pointer_literal(src, *a) or is_pointer_literal(src, *b) or are_same_literals(src, a, b)
                or are_same_call(src, a, b) or b[1] <= b[0]):
            continue
        src.wrap(condition_begin(src, pairs, q), b[1], "(::mpsx::unmark, (", "))")
        src.wrap(*a, "(::mpsx::mark, (", "))")
        src.wrap(*b, "(::mpsx::mark, (", "))")
