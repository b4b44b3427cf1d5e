"""Evaluates the integer constant expressions in attributes."""

import re

from .declarations import ENUM, VARIABLE
from .parser import declarators

INTEGER = re.compile(r"(0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)[uUlL]*$")
OPERATORS = set("+-*/%()<>&|^~!") | {"<<", ">>", "==", "!=", "<=", ">=", "&&", "||"}
PYTHON_OPERATORS = {"/": "//", "&&": " and ", "||": " or ", "!": " not "}
CASTS = ("uint", "int", "ushort", "size_t", "unsigned", "static_cast")
MAX_DEPTH = 20  # maximum nesting of constants that refer to constants


def number(text):
    m = INTEGER.match(text)
    return int(m[1].replace("'", ""), 0 if m[1][:2].lower() in ("0x", "0b") else 10) if m else None


def named_integers(unit):
    """Return a dict from the names of enumerators and constants to (range of the value, offset). For an enumerator
    without a value, the offset is relative to the last enumerator that has one. The range is None if there is no such
    enumerator."""
    src, found = unit.src, {}
    for d in unit.all:
        if d.kind == ENUM:
            last, offset = None, 0
            for begin, end in src.split(d.body + 1, src.match[d.body]):
                if src.texts[begin + 1:begin + 2] == ["="]:
                    last, offset = (begin + 2, end), 0
                found.setdefault(src.texts[begin], (last, offset))
                offset += 1
        elif d.kind == VARIABLE and {"constexpr", "constant"} & set(src.texts[d.begin:d.name]):
            for v in declarators(src, d):
                if src.texts[v.initializer[0]] == "=":
                    found.setdefault(src.texts[v.name], ((v.initializer[0] + 1, v.end), 0))
    return found


class Evaluator:
    """Evaluates expressions that may refer to the constants of a translation unit."""

    def __init__(self, unit):
        self.unit = unit
        self.named = None

    def value(self, words, depth=0):
        """Return the value of an expression given as tokens, or None if it is not an integer constant."""
        if len(words) == 1 and number(words[0]) is not None:
            return number(words[0])
        if depth > MAX_DEPTH or not words:
            return None
        out, i = [], 0
        while i < len(words):
            w = words[i]
            i += 1
            if words[i:i + 1] == ["::"]:
                i += 1
                continue
            if w in CASTS:
                continue
            value = number(w)
            if value is None and re.match(r"[A-Za-z_]", w):
                value = self.named_value(w, depth)
            if value is not None:
                out.append(str(value))
            elif w in OPERATORS:
                out.append(PYTHON_OPERATORS.get(w, w))
            else:
                return None
        try:
            return int(eval("".join(out), {"__builtins__": {}}))  # digits and operators only
        except (SyntaxError, ArithmeticError, TypeError, ValueError):
            return None

    def named_value(self, name, depth):
        if self.named is None:
            self.named = named_integers(self.unit)
        if name not in self.named:
            return None
        span, offset = self.named[name]
        if span is None:
            return offset
        value = self.value(self.unit.src.texts[span[0]:span[1]], depth + 1)
        return None if value is None else value + offset
