"""Patch the source of a library's functions in place. Existing references to a function then see the change."""

from __future__ import annotations

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Callable
from operator import attrgetter
from types import CodeType, FunctionType, ModuleType

Patch = Callable[[ModuleType], None]


def _function(module: ModuleType, name: str) -> FunctionType:
    """Return the undecorated function called `name`, which is "Class.method" or "function"."""
    holder, _, last = name.rpartition(".")
    owner = attrgetter(holder)(module) if holder else module
    found = inspect.getattr_static(owner, last)
    while not isinstance(found, FunctionType):
        for attribute in ("__wrapped__", "__func__", "fget", "func"):
            if hasattr(found, attribute):
                found = getattr(found, attribute)
                break
        else:
            raise TypeError(f"expected {module.__name__}.{name} to be a function")
    return inspect.unwrap(found)


def _code_in(code: CodeType, name: str) -> CodeType:
    """Return the code object of the function `name`. Searches `code` recursively, because default arguments may be
    functions."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    for candidate in inner:
        if candidate.co_name == name:
            return candidate
        inner.extend(constant for constant in candidate.co_consts if isinstance(constant, CodeType))
    raise ValueError(f"no function {name}")


def _change(function: FunctionType, edit: Callable[[str], str]) -> None:
    first = function.__code__.co_firstlineno
    source = function.__dict__.get("_mpsx_source")  # from an earlier patch
    if source is None:
        source = textwrap.dedent("".join(inspect.getsourcelines(function)[0]))
    function._mpsx_source = edit(source)
    tree = ast.parse(function._mpsx_source)
    definition = tree.body[0]
    definition.decorator_list = []
    # Free variables, such as the __class__ of super(), become parameters of an enclosing function. A function that
    # calls itself finds itself among the module's globals.
    free = function.__code__.co_freevars
    statement = "pass" if definition.name in free else f"global {definition.name}"
    enclosing = ast.parse(f"def enclosing({', '.join(free)}): {statement}")
    enclosing.body[0].body.append(definition)
    ast.increment_lineno(definition, first - 1)
    code = compile(enclosing, function.__code__.co_filename, "exec", dont_inherit=True)
    function.__code__ = _code_in(_code_in(code, "enclosing"), function.__name__)


def line(where: str, old: str, new: str) -> Patch:
    """Replace `old` with `new` in a function. Raise if `old` does not occur exactly once: the library must have
    changed."""

    def patch(module: ModuleType) -> None:
        def edit(source: str) -> str:
            if source.count(old) != 1:
                raise ValueError(f"{module.__name__}.{where} has changed, expected {old!r}")
            return source.replace(old, new)

        _change(_function(module, where), edit)

    return patch


def constant(name: str, value: object, unless: str | None = None) -> Patch:
    """Set a module-level variable, unless the environment variable `unless` is set."""

    def patch(module: ModuleType) -> None:
        if not hasattr(module, name):
            raise ValueError(f"{module.__name__} has changed, expected a variable {name!r}")
        if unless is None or unless not in os.environ:
            setattr(module, name, value)

    return patch


def instead_of_cuda(*names: str, condition: str | None = "torch.cuda.is_available()") -> Patch:
    """Make functions use mpsx instead of CUDA. `condition` is the function's check for CUDA, and is replaced by
    True."""

    def edit(source: str) -> str:
        if condition is not None:
            if condition not in source:
                raise ValueError(f"expected {condition!r}")
            source = source.replace(condition, "True")
        source, modules = re.subn(r"\btorch\.cuda\b", "torch.mpsx", source)
        source, texts = re.subn(r"(?<=[\"'])cuda\b", "mpsx", source)
        if condition is None and not modules and not texts:
            raise ValueError("expected 'cuda'")
        return source.replace('"CUDA"', '"MPSX"')

    def patch(module: ModuleType) -> None:
        for where in names:
            try:
                _change(_function(module, where), edit)
            except ValueError as error:
                raise ValueError(f"{module.__name__}.{where} has changed, {error}") from None

    return patch
