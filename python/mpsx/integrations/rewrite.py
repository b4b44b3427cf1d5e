"""Changes lines of a library's function in place, so that every reference to the function sees them."""

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
    """The function called `name`, "Class.method" or "function", without its decorators."""
    holder, _, last = name.rpartition(".")
    owner = attrgetter(holder)(module) if holder else module
    found = inspect.getattr_static(owner, last)
    while not isinstance(found, FunctionType):
        for attribute in ("__wrapped__", "__func__", "fget", "func"):
            if hasattr(found, attribute):
                found = getattr(found, attribute)
                break
        else:
            raise TypeError(f"{module.__name__}.{name} is no function")
    return inspect.unwrap(found)


def _code_in(code: CodeType, name: str) -> CodeType:
    """The code of the function `name` that `code` defines, at any depth (default arguments may be functions too)."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    for candidate in inner:
        if candidate.co_name == name:
            return candidate
        inner.extend(constant for constant in candidate.co_consts if isinstance(constant, CodeType))
    raise ValueError(f"no function {name}")


def _change(function: FunctionType, edit: Callable[[str], str]) -> None:
    first = function.__code__.co_firstlineno
    source = function.__dict__.get("_mpsx_source")  # as an earlier patch left it
    if source is None:
        source = textwrap.dedent("".join(inspect.getsourcelines(function)[0]))
    function._mpsx_source = edit(source)
    tree = ast.parse(function._mpsx_source)
    definition = tree.body[0]
    definition.decorator_list = []
    # Names from around the function, such as the __class__ of super(), are arguments of one around it.
    around = ast.parse(f"def around({', '.join(function.__code__.co_freevars)}): pass")
    around.body[0].body = [definition]
    ast.increment_lineno(definition, first - 1)
    code = compile(around, function.__code__.co_filename, "exec", dont_inherit=True)
    function.__code__ = _code_in(_code_in(code, "around"), function.__name__)


def line(where: str, old: str, new: str) -> Patch:
    """`old` in the function `where` becomes `new`. It must be there once, or this version is unknown to us."""

    def patch(module: ModuleType) -> None:
        def edit(source: str) -> str:
            if source.count(old) != 1:
                raise ValueError(f"{module.__name__}.{where} has changed, expected {old!r}")
            return source.replace(old, new)

        _change(_function(module, where), edit)

    return patch


def constant(name: str, value: object, unless: str | None = None) -> Patch:
    """The module's variable `name` becomes `value`, unless the environment variable `unless` has chosen it."""

    def patch(module: ModuleType) -> None:
        if not hasattr(module, name):
            raise ValueError(f"{module.__name__} has changed, expected a variable {name!r}")
        if unless is None or unless not in os.environ:
            setattr(module, name, value)

    return patch


def instead_of_cuda(*names: str, condition: str | None = "torch.cuda.is_available()") -> Patch:
    """These functions take mpsx where they take CUDA; `condition` is how they ask for it, if they do."""

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
