"""The strict check: what Apple's Metal compiler would refuse, with the user's file, line and column.

`check` runs everything on a file. Its halves are for a caller that has the tokens already: `check_unit` takes a few
milliseconds; AddressSpaceCheck starts clang, which sees what expressions do, and runs beside the compiler."""

from ..parser import parse
from ..preprocess import preprocess
from ..source import MslError, Source
from . import atomics, kernels, language, memory, parameters  # noqa: F401 - they fill RULES
from .address_spaces import AddressSpaceCheck
from .diagnostic import Diagnostic, Places, from_text, render
from .rules import RULES, Unit

__all__ = [
    "AddressSpaceCheck",
    "Diagnostic",
    "Places",
    "Unit",
    "check",
    "check_unit",
    "from_text",
    "merge",
    "render",
    "unit_of",
]


def unit_of(src):
    """Input of the rules and of the check of address spaces: tokens and declarations of a preprocessed Source."""
    return Unit(parse(src))


def check_unit(unit, texts=None):
    """The rules over a unit. `texts`: file name -> text, of what is not on disk."""
    places = Places(unit.src.text, texts)
    found = set()
    for function in RULES.values():
        for token, *said in function(unit):
            found.add(Diagnostic(*places.of_token(unit.src, token), *said))
    return sorted(found)


def merge(found, more):
    """`found`, and of `more` what is about other lines: the check and the compiler may complain about the same."""
    lines = {(d.file, d.line) for d in found}
    return sorted([*found, *(d for d in more if (d.file, d.line) not in lines)])


def check(path, includes=(), defines=(), compiler=None, types=True):
    """Every error in, and warning about, the .metal file `path`. `compiler`: of compiler.py; it preprocesses, and where
    it is a clang (or one is installed) it checks address spaces too, unless `types` is false."""
    try:
        text, _ = preprocess(path, includes, defines, compiler.preprocessor() if compiler else None)
        src = Source(text)
    except MslError as e:
        return from_text(str(e)) or [Diagnostic(path, 1, 1, str(e))]
    unit = unit_of(src)
    spaces = AddressSpaceCheck(unit, compiler.command) if compiler and types else None
    found = check_unit(unit)
    return merge(found, spaces.wait()) if spaces else found
