"""Rewrite a translation unit into a form that a stock clang accepts, for the address space check."""

import re

from ..declarations import ADDRESS_SPACES, CLASS, VARIABLE, walk
from ..passes.literals import literal
from .types import BUILTIN

SUFFIX = re.compile(r"[hH]$|bf$|BF$")
QUALIFIERS = (*ADDRESS_SPACES, "const", "volatile", "noexcept")
NUMBERS = {"device": 1, "constant": 2, "threadgroup": 3}


def source_text(unit, samples=False):
    """Return the unit's text with Metal's own syntax replaced by syntax that a stock clang accepts. Line numbers stay
    the same. `samples` keeps only one instance of each kernel."""
    src, index = unit.src, unit.index
    edit = src.unedited()
    for i in repeated_instantiations(unit) if samples else ():
        edit.replace(i.begin, i.end)
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
    types = BUILTIN | unit.tree.classes
    for i, _ in unit.find("*"):  # (float*)p and (thread float*)p
        if i + 1 < len(src) and src.texts[i + 1] == ")":
            begin = src.match[i + 1]
            words = [t for t in src.texts[begin + 1 : i] if t not in ("const", "volatile", "thread")]
            if len(words) == 1 and words[0] in types and is_cast(src, begin):
                wrap_operand(src, edit, begin, "thread")
    static_variables(unit, edit)
    member_spaces(unit, edit)
    return edit.result()


def repeated_instantiations(unit):
    """Yield all instantiations of each kernel except the first."""
    seen, texts = set(), unit.src.texts
    for i in unit.tree.instantiations:
        name = next((texts[k - 1] for k in range(i.begin, i.end) if texts[k] == "<"), None)
        if name in seen:
            yield i
        seen.add(name)


def is_constant_string(src, i):
    """Return whether a string literal may become a pointer to constant memory. In an array initializer it may not."""
    if (src.texts[i - 1] == "=" and src.texts[i - 2] == "]") or src.texts[i - 1] == "extern":
        return False
    if src.kinds[i - 1] == "string" or (i + 1 < len(src) and src.kinds[i + 1] == "string"):
        return False
    k = i - 1
    while k > 0 and src.texts[k] not in (";", "{", "}"):  # static_assert requires a literal
        if src.texts[k] in (")", "]"):
            k = src.match[k]
        elif src.texts[k] == "static_assert":
            return False
        k -= 1
    return True


def is_cast(src, i):
    """Return whether the '(' at i begins a C-style cast to a pointer, as in `(device float*)p`."""
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
    """Wrap the operand of the cast at token i in a call to a function that accepts only pointers to `space`."""
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
    """Make variables with an address space static, because an automatic variable in C++ cannot have one."""
    texts = unit.src.texts
    for f in unit.tree.definitions:
        for d in unit.tree.locals(f):
            words = texts[d.start : d.name]
            if d.kind == VARIABLE and words[0] in ("threadgroup", "constant") and not {"*", "&"} & set(words):
                edit.replace(d.start, d.start + 1, f"static {words[0]}")


def member_spaces(unit, edit):
    """Remove address spaces after parameter lists, as in `T get() const device { … }`. clang's C++ has no address
    spaces for `this`. Without one, `this` points to thread memory, so also remove the bodies of functions for objects
    in other memory. Overloads that differ only in their address space and result would become one function. Remove all
    of them; clang then reports nothing about calls to them."""
    src, texts, overloads = unit.src, unit.src.texts, {}
    local = [d for f in unit.tree.definitions for d in walk(d for d in unit.tree.locals(f) if d.kind == CLASS)]
    for d in (*unit.tree.functions, *(d for d in local if d.open >= 0)):
        begin = end = src.match[d.open] + 1
        while end < d.end and texts[end] in QUALIFIERS:
            end += 1
        spaces = {*ADDRESS_SPACES} & set(texts[begin:end])
        if d.in_class:
            overloads.setdefault((d.scope, src.span(d.name, d.open)), []).append((d, spaces))
        for k in range(begin, end):
            if texts[k] in ADDRESS_SPACES:
                edit.replace(k, k + 1)
        if spaces & {*NUMBERS} and d.body >= 0:
            edit.replace(end, d.end, "{ __builtin_unreachable(); }")
    for functions in overloads.values():
        results = {tuple(t for t in texts[d.begin : d.name] if t in NUMBERS) for d, _ in functions}
        if len(results) > 1 and any(spaces for _, spaces in functions):
            for d, _ in functions:
                edit.replace(d.begin, d.end)
