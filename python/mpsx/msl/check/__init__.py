"""The strict check. It reports code that Apple's Metal compiler would reject, at the user's file, line, and column.

`check` runs the whole check on a file. If you already have the tokens, call its two parts: `check_unit` takes a few
milliseconds, and AddressSpaceCheck runs clang, which understands expressions, in parallel with the compiler."""

from ..parser import parse
from ..preprocess import preprocess
from ..program_scope import read_source
from ..source import MslError
from . import atomics, kernels, language, memory, parameters, tensors  # noqa: F401 - importing them registers the rules
from .address_spaces import AddressSpaceCheck
from .diagnostic import Diagnostic, SourceMap, from_text, render
from .rules import RULES, Unit

__all__ = ["AddressSpaceCheck", "Diagnostic", "SourceMap", "Unit", "check", "check_unit", "from_text", "merge",
           "render", "unit_of"]


def unit_of(src):
    """Return the Unit of a preprocessed Source, on which the rules and the address space check operate."""
    return Unit(parse(src))


def check_unit(unit, texts=None):
    """Return the Diagnostics of all rules. `texts` maps names of files that are not on disk to their text."""
    positions = SourceMap(unit.src.text, texts)
    found = set()
    for function in RULES.values():
        for token, *message in function(unit):
            found.add(Diagnostic(*positions.of_token(unit.src, token), *message))
    return sorted(found)


def merge(found, more):
    """Add the diagnostics in `more`, except on lines that already have one in `found`, because the check and the
    compiler may report the same error."""
    lines = {(d.file, d.line) for d in found}
    return sorted([*found, *(d for d in more if (d.file, d.line) not in lines)])


def check(path, includes=(), defines=(), compiler=None, types=True):
    """Return all Diagnostics for the .metal file `path`. `compiler`, a Compiler, preprocesses it. If `types` is true,
    clang also checks address spaces, provided that `compiler` is clang or clang is installed."""
    try:
        text, _ = preprocess(path, includes, defines, compiler.preprocessor() if compiler else None)
        src = read_source(text)
    except MslError as e:
        return from_text(str(e)) or [Diagnostic(path, 1, 1, str(e))]
    unit = unit_of(src)
    spaces = AddressSpaceCheck(unit, compiler.command) if compiler and types else None
    found = check_unit(unit)
    return merge(found, spaces.wait()) if spaces else found
