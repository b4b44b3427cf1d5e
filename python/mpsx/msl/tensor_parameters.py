"""Describe kernel parameters that are Metal 4 tensors. The host checks the tensors passed to a call against these
descriptions."""

from . import element_types
from .tensor_types import MAX_DEPTH, substitute


def describe(types, words, names):
    """Return {element, index, extents} for a parameter of type `words`.

    `types` is the module's TensorTypes. `names` maps the kernel's template parameters to tokens. `element` and `index`
    are types as written by element_types.py, or "" if unknown. A dynamic extent is None. `extents` is None if unknown.
    """
    element, extents = types.arguments(words, names)[:2]
    known = {name: value for name, (parameters, value) in types.aliases.items() if not parameters} | names
    kind, given = types.resolved(extents, names)
    sizes = [extent(types.evaluator, words, names) for words in given[1:]]
    if kind == "dextents" and len(sizes) == 1 and isinstance(sizes[0], int):
        sizes = [None] * sizes[0]
    elif kind != "extents" or "" in sizes:
        sizes = None
    return {"element": element_types.resolve(element, known, MAX_DEPTH),
            "index": element_types.resolve(given[0], known, MAX_DEPTH) if given else "", "extents": sizes}


def extent(evaluator, words, names):
    """Return the value of an extent: an integer, None for dynamic_extent, or "" if unknown."""
    words = substitute(words, names)
    if "dynamic_extent" in words:
        return None
    value = evaluator.value(words)
    return "" if value is None else value
