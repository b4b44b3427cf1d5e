"""Constant expressions in attributes, and function constants (MSL specification 3.2, section 5.8.1).

A function constant is a variable of the thread that runs the kernel: the entry point sets it from the values that the
pipeline was made with, and after it the constants at program scope whose initial value depends on it."""

import re
from dataclasses import dataclass

from .declarations import OTHER, name_before

INTEGER = re.compile(r"(0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)[uUlL]*$")
STORAGE = ("constant", "const", "static", "constexpr")
OPERATORS = set("+-*/%()<>&|^~!?:") | {"<<", ">>", "==", "!=", "<=", ">=", "&&", "||"}


@dataclass
class FunctionConstant:
    name: str        # qualified
    index: int
    token: int
    type: str
    asked: bool      # the source asks whether it is defined, so that it needs no value
    names: set       # it and what depends on it

    @property
    def plain(self):
        return self.name.rpartition("::")[2]


def number(text):
    m = INTEGER.match(text)
    return int(m[1].replace("'", ""), 0 if m[1][:2].lower() in ("0x", "0b") else 10) if m else None


def named_integers(src):
    """The token ranges of initial values, by name: enumerators, and constants at any scope. Enumerators without a
    value are given as (the one before, how far behind it)."""
    found = {}
    for i, t in enumerate(src.texts):
        if t == "enum" and src.kinds[i] == "word":
            brace = i + 1
            while brace < len(src) and src.texts[brace] not in ("{", ";", "(", ")", ",", ">"):
                brace += 1
            if brace >= len(src) or src.texts[brace] != "{":
                continue
            last, step = None, 0
            for begin, end in src.split(brace + 1, src.match[brace]):
                if src.texts[begin + 1:begin + 2] == ["="]:
                    last, step = (begin + 2, end), 0
                found.setdefault(src.texts[begin], (last, step))
                step += 1
        elif t == "=" and src.kinds[i - 1] == "word" and src.kinds[i - 2] == "word" and src.texts[i - 1] not in found:
            first = i - 1
            while first and (src.kinds[first - 1] == "word" or src.texts[first - 1] == "::"):
                first -= 1
            if {"constexpr", "constant"} & set(src.texts[first:i]):
                end = i + 1
                while end < len(src) and src.texts[end] not in (";", ","):
                    end = src.match[end] + 1 if src.texts[end] in "([{" else end + 1
                found[src.texts[i - 1]] = ((i + 1, end), 0)
    return found


class Evaluator:
    """Integers out of the constant expressions of a source."""

    def __init__(self, src):
        self.src = src
        self._named = None

    def text(self, words, depth=0):
        """The value of an expression given as words, or None."""
        if len(words) == 1 and number(words[0]) is not None:
            return number(words[0])
        if depth > 20 or not words:
            return None
        if self._named is None:
            self._named = named_integers(self.src)
        out, i = [], 0
        while i < len(words):
            w = words[i]
            if i + 1 < len(words) and words[i + 1] == "::":
                i += 2
                continue
            value = number(w)
            if value is None and re.match(r"[A-Za-z_]", w):
                if w in ("uint", "int", "ushort", "size_t", "unsigned", "static_cast"):
                    out.append("")
                    i += 1
                    continue
                value = self.name(w, depth)
            if value is not None:
                out.append(str(value))
            elif w in OPERATORS - {"?", ":"}:
                out.append({"/": "//", "&&": " and ", "||": " or ", "!": " not "}.get(w, w))
            else:
                return None
            i += 1
        try:
            return int(eval("".join(out), {"__builtins__": {}}))  # digits and operators only
        except (SyntaxError, ArithmeticError, TypeError, ValueError):
            return None

    def name(self, word, depth):
        where, step = self._named.get(word, ((), None))
        if step is None:
            return None
        if where is None:
            return step
        value = self.text(self.src.texts[where[0]:where[1]], depth + 1)
        return None if value is None else value + step


def function_constants(src, found, evaluator):
    """Rewrites function constants and what depends on them; returns them, the names of the functions that set them in
    order, and the tokens that are dealt with."""
    constants, setters, done, dynamic = [], [], set(), {}
    asked = {src.texts[src.match[i + 1] - 1] for i, t in enumerate(src.texts) if t == "is_function_constant_defined"}
    for d in found:
        words = src.texts[d.begin:d.end]
        if d.kind != OTHER or d.in_class or d.name < 0 or "constant" not in words:
            continue
        parts = src.split(d.begin, d.end - 1)
        first = next((i for i in range(*parts[0]) if src.texts[i] == "=" or src.attribute_end(i) is not None),
                     parts[0][1])
        first = name_before(src, first)
        depends = any(src.kinds[i] == "word" and src.texts[i] in dynamic for i in range(first + 1, d.end))
        if "function_constant" not in words and ("constexpr" in words or not depends):
            continue
        scope = "".join(f"{s}::" for s in d.scope if s)
        specifiers = range(d.begin, first)
        kept = " ".join(src.texts[i] for i in specifiers if src.texts[i] not in STORAGE)
        for i in specifiers:
            if src.texts[i] in STORAGE:
                src.replace(i, i + 1, "static MPSX_THREAD_LOCAL" if src.texts[i] == "constant" else "")
                done.add(i)
        for token, last in zip([first, *(a for a, _ in parts[1:])], [b for _, b in parts], strict=True):
            name, number_of = src.texts[token], len(setters)
            at = next((i for i in range(token, last) if src.texts[i] == "function_constant"), None)
            if at is not None:
                index = evaluator.text(src.texts[at + 2:src.match[at + 1]])
                if index is None:
                    raise src.error(at, f"function_constant({src.span(at + 2, src.match[at + 1])}): expected a number")
                opening = next(i for i in range(token, last) if src.attribute_end(i) is not None)
                src.replace(opening, src.attribute_end(opening) + 1)
                done |= set(range(opening, src.attribute_end(opening) + 1))
                value = f"::mpsx::function_constant<decltype({name})>({len(constants)})"
                dynamic[name] = len(constants)
                kind = next((src.texts[i] for i in reversed(specifiers) if src.texts[i] not in STORAGE), "")
                constants.append(FunctionConstant(scope + name, index, token, kind, name in asked, {name}))
            else:
                equals = next((i for i in range(token, last) if src.texts[i] == "="), None)
                if equals is None:
                    raise src.error(token, f"constant '{name}': expected a value")
                value = src.span(equals + 1, last)
                value = re.sub(r"is_function_constant_defined \( (\w+) \)",
                               lambda m: f"::mpsx::constant_defined({dynamic.get(m[1], -1)})", value)
                mentioned = {src.texts[i] for i in range(equals, last) if src.kinds[i] == "word"}
                src.replace(equals, last)
                done |= set(range(equals, last))
                dynamic[name] = None
                for c in constants:
                    if c.names & mentioned:
                        c.names.add(name)
            following = f" static MPSX_THREAD_LOCAL {kept} " if src.texts[last] == "," else ""
            src.replace(last, last + 1,
                        f"; static inline void mpsx_set_{number_of}() {{ {name} = {value}; }}{following}")
            setters.append(f"{scope}mpsx_set_{number_of}")
    for i, t in enumerate(src.texts):
        if t == "is_function_constant_defined" and i not in done:
            name = src.texts[src.match[i + 1] - 1]
            if dynamic.get(name) is None:
                raise src.error(i, f"is_function_constant_defined({name}): no function constant of that name")
            src.replace(i, src.match[i + 1] + 1, f"::mpsx::constant_defined({dynamic[name]})")
            done |= set(range(i, src.match[i + 1] + 1))
    return constants, setters, done
