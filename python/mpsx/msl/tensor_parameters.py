"""Describes kernel parameters that are Metal 4 tensors for the host, which compares them with the tensors of a call."""

from . import element_types
from .tensor_types import MAX_DEPTH, substitute


def describe(types, words, names):
    """{element, index, extents} of a parameter of type `words`. `types` is the module's TensorTypes; `names` maps
    template parameters of the kernel to words. `element` and `index` are types in the spelling of element_types.py, ""
    if unknown. A dynamic extent is null; `extents` is null if unknown."""
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
    """The value of an extent: an integer, None for dynamic_extent, or "" if unknown."""
    words = substitute(words, names)
    if "dynamic_extent" in words:
        return None
    value = evaluator.value(words)
    return "" if value is None else value
