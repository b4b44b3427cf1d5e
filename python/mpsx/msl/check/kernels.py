"""Kernel functions, their parameters and attributes: Metal Shading Language Specification, section 5.1."""

import ast

from ..parser import attributes
from ..passes.overloads import library_names
from ..source import MslError
from .rules import rule


def kernels(unit):
    """Return the definitions of kernels. Declarations are skipped, because they may omit attributes."""
    return [f for f in unit.tree.definitions if f.entry == "kernel"]


@rule
def only_compute(unit):
    """5.1: vertex, fragment, mesh, and object functions are valid Metal, but mpsx runs only compute kernels."""
    for f in unit.tree.functions:
        if f.entry and f.entry != "kernel":
            yield f.name, f"{f.entry} functions are not supported here: only compute kernels are"


@rule
def returns_void(unit):
    """5.1.3: kernels must return void."""
    src = unit.src
    for f in kernels(unit):
        outside = attributes(src, *f.result)[1]
        words = [
            src.texts[i]
            for i in outside
            if src.texts[i] not in ("kernel", "static", "inline", "extern", "constexpr", "METAL_FUNC")
        ]
        if words != ["void"]:
            result = " ".join(words)
            yield (
                f.name,
                f"invalid return type '{result}' for kernel function '{unit.name(f)}': expected void (section 5.1.3)",
            )


@rule
def kernel_is_free_function(unit):
    """5.1.3: a kernel must be a free function. 1.5.1: it must not be overloaded."""
    seen = {}
    for f in kernels(unit):
        if f.in_class:
            yield f.name, f"kernel function '{unit.name(f)}' cannot be a member function"
        elif not f.template:  # templates with the same name may have different parameters
            key = f.scope, unit.name(f)
            if key in seen:
                yield f.name, (f"kernel function '{unit.name(f)}' is already defined: kernels cannot be overloaded "
                               "(section 1.5.1)")
            seen[key] = f


def declared_in(unit, function):
    """Return the names of a function's parameters and local variables: `F f;`, `auto& f = …`, `Op<T> f(…)`."""
    src = unit.src
    for i in range(function.open, function.end):
        if src.kinds[i] == "word":
            before = src.texts[i - 1]
            typed = src.kinds[i - 1] == "word" and before not in ("return", "else", "case")
            pointer = before in ("*", "&") and src.texts[i + 1] in ("=", ";", ",", ")", ":")
            if typed or pointer or before == ">":
                yield src.texts[i]


@rule
def kernels_are_not_called(unit):
    """5.1: a kernel cannot call a kernel."""
    src, names = unit.src, {unit.name(f) for f in kernels(unit)}
    plain = library_names() | {unit.name(f) for f in unit.tree.functions if not f.entry}
    for f in unit.tree.definitions:
        if f.entry != "kernel":
            continue
        for i, t in unit.find(*(names - plain - {*f.template, *declared_in(unit, f)}), within=f.body_range):
            after = src.texts[i + 1]
            if after == "<":
                try:
                    after = src.texts[src.angle_end(i + 1) + 1]
                except MslError:
                    continue
            if after == "(" and src.kinds[i - 1] == "op" and src.texts[i - 1] != "::":
                yield i, f"kernel function '{t}' cannot be called from kernel '{unit.name(f)}' (section 5.1)"


@rule
def host_names(unit):
    """5.1.3, 5.1.12: host names must be unique."""
    seen = {}
    holders = [(f.name, f.attributes) for f in kernels(unit)] + [
        (x.begin, x.attributes) for x in unit.tree.instantiations
    ]
    for token, attrs in holders:
        for a in attrs:
            if a.name != "host_name" or a.argument is None:
                continue
            try:
                name = ast.literal_eval(f"({a.argument})")
            except (SyntaxError, ValueError):
                yield a.token, f"host_name: expected a string, got {a.argument}"
                continue
            if name in seen:
                yield a.token, f'host_name("{name}") is already used, at {unit.src.location(seen[name])}'
            seen.setdefault(name, token)
