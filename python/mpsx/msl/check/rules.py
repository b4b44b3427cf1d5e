"""The registry of the check's rules. A rule is a function of a Unit that yields (token, message[, "warning"])."""

import bisect

from ..evaluator import Evaluator
from ..tensor_types import TensorTypes

RULES = {}


class Unit:
    """A translation unit with an index of its tokens by text."""

    def __init__(self, tree):
        self.tree, self.src, self.index = tree, tree.src, {}
        self.tensor_types = TensorTypes(tree, Evaluator(tree))
        for i, t in enumerate(self.src.texts):
            self.index.setdefault(t, []).append(i)

    def find(self, *texts, within=None):
        """Return (token, text) for each token whose text is in `texts`, except for members after '.' or '->'."""
        for t in texts:
            tokens = self.index.get(t, ())
            begin, end = within or (0, len(self.src))
            for i in tokens[bisect.bisect_left(tokens, begin) : bisect.bisect_left(tokens, end)]:
                if not i or self.src.texts[i - 1] not in (".", "->"):
                    yield i, t

    def name(self, function):
        return self.src.texts[function.name]


def rule(function):
    RULES[function.__name__] = function
    return function
