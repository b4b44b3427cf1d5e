"""A translation unit as a stock clang takes it, for the check of address spaces."""

import copy
import re

from ..declarations import constructor_body
from ..rewrite import literal
from .structure import SPACES
from .types import BUILTIN

SUFFIX = re.compile(r"[hH]$|bf$|BF$")
QUALIFIERS = (*SPACES, "const", "volatile", "noexcept")
NUMBERS = {"device": 1, "constant": 2, "threadgroup": 3}


def source_text(unit, samples=False):
    """The unit with Metal's own syntax spelt as stock clang takes it; lines stay where they are. `samples`: with one
    instance of each kernel alone."""
    src, structure, index = unit.src, unit.structure, unit.index
    edit = copy.copy(src)
    edit._replacements = []
    for i in repeated(unit) if samples else ():
        edit.replace(i.begin, i.end + 1)
    for i in index.get("[", ()):
        stop = src.attribute_end(i)
        if stop is not None:
            edit.replace(i, stop + 1)
    for i, _ in unit.find("coherent"):  # coherent device T*, coherent(device) device T*
        edit.replace(i, src.match[i + 1] + 1 if src.texts[i + 1] == "(" else i + 1)
    for i, _ in unit.find("kernel"):
        edit.replace(i, i + 1)
    for t, tokens in index.items():
        if t[0] == '"' or t == "__func__":
            for i in tokens:
                if is_constant_string(src, i):
                    edit.replace(i, i + 1, f"((constant char*){t})")
        elif t[0] in ".0123456789" and SUFFIX.search(t) and literal(t) != t:
            for i in tokens:
                edit.replace(i, i + 1, literal(t))
    for i, space in unit.find(*NUMBERS):
        k = i - 1
        while src.texts[k] in ("const", "volatile"):
            k -= 1
        if src.texts[k] == "(" and is_cast(src, k):
            wrap_operand(src, edit, k, space)
    types = BUILTIN | set(structure.classes)
    for i, _ in unit.find("*"):  # (float*)p and (thread float*)p
        if i + 1 < len(src) and src.texts[i + 1] == ")":
            begin = src.match[i + 1]
            words = [t for t in src.texts[begin + 1 : i] if t not in ("const", "volatile", "thread")]
            if len(words) == 1 and words[0] in types and is_cast(src, begin):
                wrap_operand(src, edit, begin, "thread")
    static_variables(unit, edit)
    member_spaces(src, edit)
    return edit.result()


def repeated(unit):
    """The instantiations of kernels that have had one before."""
    seen, texts = set(), unit.src.texts
    for i in unit.structure.instantiations:
        name = next((texts[k - 1] for k in range(i.begin, i.end) if texts[k] == "<"), None)
        if name in seen:
            yield i
        seen.add(name)


def is_constant_string(src, i):
    """Whether a string literal may become a pointer to constant memory: not where it initialises an array."""
    if (src.texts[i - 1] == "=" and src.texts[i - 2] == "]") or src.texts[i - 1] == "extern":
        return False
    if src.kinds[i - 1] == "string" or (i + 1 < len(src) and src.kinds[i + 1] == "string"):
        return False
    k = i - 1
    while k > 0 and src.texts[k] not in (";", "{", "}"):  # static_assert takes a literal
        if src.texts[k] in (")", "]"):
            k = src.match[k]
        elif src.texts[k] == "static_assert":
            return False
        k -= 1
    return True


def is_cast(src, i):
    """Whether the '(' i begins a C-style cast to a pointer, as in `(device float*)p`."""
    end = src.match[i]
    inside = src.texts[i + 1 : end]
    if len(inside) < 2 or inside[-1] != "*" or inside.count("*") != 1 or end + 1 >= len(src):
        return False
    if any(t in ("(", ",", "=", "[", ";") for t in inside):
        return False
    before, after = src.texts[i - 1], src.texts[end + 1]
    if (src.kinds[i - 1] == "word" and before not in ("return", "else", "case")) or before in (")", "]", ">"):
        return False  # a call, a declaration or a function type
    return src.kinds[end + 1] != "op" or after in ("(", "&", "*", "+", "-")


def wrap_operand(src, edit, i, space):
    begin = end = src.match[i] + 1
    while end < len(src) and src.texts[end] in ("&", "*", "+", "-", "~", "!", "++", "--"):
        end += 1
    if end >= len(src) or (src.texts[end] == "(" and is_cast(src, end)):
        return
    end = src.match[end] + 1 if src.texts[end] == "(" else end + 1
    while end < len(src):
        t = src.texts[end]
        if t in ("(", "["):
            end = src.match[end] + 1
        elif t in (".", "->", "::"):
            end += 2
        elif t in ("++", "--"):
            end += 1
        else:
            break
    before, after = f"metal::mpsx_cast_{space}({src.texts[begin]}", f"{src.texts[end - 1]})"
    if end - begin == 1:
        edit.replace(begin, end, before + ")")
    else:
        edit.replace(begin, begin + 1, before)
        edit.replace(end - 1, end, after)


def static_variables(unit, edit):
    """An automatic variable cannot have an address space in C++; a static one can."""
    src = unit.src
    for f in unit.bodies():
        for i, t in unit.find("threadgroup", "constant", within=f.body):
            if src.texts[i - 1] in (";", "{", "}"):
                end = i
                while src.texts[end] not in ("*", "&", ";", "=", "(", "{", "["):
                    end += 1
                if src.texts[end] not in ("*", "&", "("):
                    edit.replace(i, i + 1, f"static {t}")


def member_spaces(src, edit):
    """`T get() const device { … }`: clang takes no address space of `this` in C++. A function without its address
    space belongs to thread memory, and its body is not shown where the object is elsewhere. Overloads by address space
    whose results differ would become one function; they are removed, and clang says nothing of their calls."""
    found = list(functions_with_space(src))
    around = enclosing_braces(src) if found else ()
    sets = {}
    for name, opening, qualifiers, end in found:
        sets.setdefault((around[name], src.span(name, opening)), []).append((name, opening, end))
        for k in range(qualifiers, end):
            if src.texts[k] in SPACES:
                edit.replace(k, k + 1)
        if set(src.texts[qualifiers:end]) & {*NUMBERS} and (body := body_of(src, end)):
            edit.replace(end, body, "{ __builtin_unreachable(); }")
    for (brace, name), functions in sets.items():
        if brace < 0:
            continue
        known = {f[0] for f in functions}
        functions += [f for f in plain_functions(src, around, brace, name) if f[0] not in known]
        results = {tuple(t for t in src.texts[member_begin(src, f[0]) : f[0]] if t in NUMBERS) for f in functions}
        if len(results) > 1:
            for f in functions:
                edit.replace(member_begin(src, f[0]), body_of(src, f[2]) or statement_end(src, f[2]))


def functions_with_space(src):
    """(name, parameter list, first and end token of the qualifiers) of every member function with an address space
    after its parameters, in classes of every form: nothing else has that between `)` and one of the tokens below."""
    for i in range(1, len(src)):
        if src.texts[i - 1] != ")" or src.texts[i] not in QUALIFIERS:
            continue
        end = i
        while end < len(src) and src.texts[end] in QUALIFIERS:
            end += 1
        if end < len(src) and src.texts[end] in ("{", ";", "=", ":", "->") and {*SPACES} & set(src.texts[i:end]):
            opening = src.match[i - 1]
            operator = next((k for k in range(opening - 1, opening - 5, -1) if src.texts[k] == "operator"), None)
            yield opening - 1 if operator is None else operator, opening, i, end


def plain_functions(src, around, brace, name):
    """The same for the functions of that name, in the class whose body opens at `brace`, that name no address space."""
    for k in range(brace + 1, src.match[brace]):
        opening = next((j for j in range(k + 1, min(k + 5, len(src))) if src.texts[j] == "("
                        and src.span(k, j) == name), None)  # fmt: skip
        if around[k] == brace and opening is not None:
            end = src.match[opening] + 1
            while src.texts[end] in QUALIFIERS:
                end += 1
            yield k, opening, end


def enclosing_braces(src):
    """For each token the innermost `{` around it, or -1."""
    stack, found = [-1], []
    for i, t in enumerate(src.texts):
        if t == "}" and src.kinds[i] == "op":
            stack.pop()
        found.append(stack[-1])
        if t == "{" and src.kinds[i] == "op":
            stack.append(i)
    return found


def member_begin(src, i):
    """The first token of the member declaration whose name is token i."""
    while src.texts[i - 1] not in (";", "{", "}") and src.texts[i - 2] not in ("public", "private", "protected"):
        i -= 1
    return i


def body_of(src, i):
    """The end of the body of a function whose qualifiers end before token i; None for a declaration."""
    begin = constructor_body(src, i + 1) if src.texts[i] == ":" else i
    while src.texts[begin] not in ("{", ";", "="):
        begin = src.match[begin] + 1 if src.texts[begin] in ("(", "[") else begin + 1
    return src.match[begin] + 1 if src.texts[begin] == "{" else None


def statement_end(src, i):
    return next(k for k in range(i, len(src)) if src.texts[k] == ";") + 1
