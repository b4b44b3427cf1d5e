"""Resolve the types of kernel parameters that are Metal 4 tensors (MSL specification 4.0, section 2.21).

A parameter such as `tensor<device half, dextents<int, 2>>` has a buffer index, to which the host binds the tensor's
address, sizes and strides. The type may be an alias, an alias template, or a template parameter of the kernel."""

from .declarations import ALIAS
from .deduction import parameter_name

QUALIFIERS = {"const", "volatile", "typename"}
MAX_DEPTH = 8  # maximum nesting of aliases
HANDLE = "tensor_handle"


def split(words):
    """Split tokens at top-level commas. Inside parentheses, < and > are operators."""
    parts, angles, depth = [[]], 0, 0
    for w in words:
        depth += (w in "([{") - (w in ")]}")
        angles += ((w == "<") - (w == ">")) * (depth == 0)
        if w == "," and depth == angles == 0:
            parts.append([])
        else:
            parts[-1].append(w)
    return parts


def type_words(words):
    """Return the tokens of a parameter's type, without the parameter's name if there is one."""
    return words if words[-1] == ">" else words[:-1]


def substitute(words, names):
    """Replace each token that is a key of `names` with the tokens it maps to."""
    return [new for w in words for new in (names.get(w) or [w])]


class TensorTypes:
    """Resolves the tensor types of a module's kernels."""

    def __init__(self, unit, evaluator):
        self.evaluator, self.aliases = evaluator, {}   # name -> (names of template parameters, tokens of the type)
        src = unit.src
        for d in unit.of_kind(ALIAS):
            begin, end = d.value
            if d.name < 0 or (src.texts[d.start] == "typedef" and d.name != end - 1):
                continue
            heads = [src.texts[a:b] for head in d.heads for a, b in src.split(head[0] + 2, head[1] - 1)]
            words = src.texts[begin:min(end, d.name) if d.name > begin else end]
            self.aliases[src.texts[d.name]] = [parameter_name(h) for h in heads], words

    def resolved(self, words, names):
        """Resolve the aliases in a type. Return its name and its template arguments. `names` maps the kernel's template
        parameters to tokens."""
        for _ in range(MAX_DEPTH):
            words = [w for w in words if w not in QUALIFIERS]
            while words[1:2] == ["::"]:
                words = words[2:]
            given = split(words[2:-1]) if words[1:2] == ["<"] and words[-1] == ">" else []
            if not words or (len(words) > 1 and not given):
                break
            if names.get(words[0]) and len(words) == 1:
                words = names[words[0]]
            elif words[0] in self.aliases:
                parameters, value = self.aliases[words[0]]
                words = substitute(value, dict(zip(parameters, given, strict=False)))
            else:
                return words[0], given
        return "", []

    def arguments(self, words, names=None):
        """Return the template arguments of a tensor type, each a list of tokens. Return None for other types."""
        name, given = self.resolved(words, names or {})
        return given if name == "tensor" and len(given) > 1 else None
