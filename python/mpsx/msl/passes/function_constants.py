"""Lower function constants (MSL specification 3.2, section 5.8.1).

A function constant becomes a thread-local variable. The entry point sets it to the value given at pipeline creation,
and then sets the program-scope constants whose initializers depend on it."""

import re
from dataclasses import dataclass

from ..parser import attributes, declarators

STORAGE = ("constant", "const", "static", "constexpr")


@dataclass
class FunctionConstant:
    name: str  # qualified name
    index: int
    type: str
    is_queried: bool  # the source passes it to is_function_constant_defined, so it needs no value
    names: set  # its own name, and the names of the constants that depend on it

    @property
    def plain(self):
        return self.name.rpartition("::")[2]


class FunctionConstants:
    """The pass over one Source. After `run`, `constants` contains the function constants. `setters` contains the
    functions that set them and their dependents, in order. `done` contains the tokens that no other pass may edit."""

    def __init__(self, src, module):
        self.src, self.module = src, module
        self.constants, self.setters, self.done = [], [], set()
        self.indices = {}  # name -> index into `constants`, or None for a dependent constant

    def run(self):
        src = self.src
        queries = [i for i, t in enumerate(src.texts) if t == "is_function_constant_defined"]
        queried = {src.texts[src.match[i + 1] - 1] for i in queries}
        for d in self.module.unit.variables:
            words = src.texts[d.begin:d.end]
            if d.in_class or "constant" not in words:
                continue
            depends = any(src.kinds[i] == "word" and src.texts[i] in self.indices for i in range(d.name + 1, d.end))
            if "function_constant" in words or ("constexpr" not in words and depends):
                self.variable(d, queried)
        for i in queries:
            if i in self.done:
                continue
            name = src.texts[src.match[i + 1] - 1]
            if self.indices.get(name) is None:
                raise src.error(i, f"is_function_constant_defined({name}): no function constant of that name")
            self.replace(i, src.match[i + 1] + 1, f"::mpsx::constant_defined({self.indices[name]})")

    def replace(self, begin, end, new=""):
        self.src.replace(begin, end, new)
        self.done |= set(range(begin, end))

    def variable(self, d, queried):
        """Lower the declaration of function constants or of constants that depend on them."""
        src = self.src
        scope = "".join(f"{s}::" for s in d.scope if s)
        specifiers = [src.texts[i] for i in range(d.begin, d.name) if src.texts[i] not in STORAGE]
        for i in range(d.begin, d.name):
            if src.texts[i] in STORAGE:
                self.replace(i, i + 1, "static MPSX_THREAD_LOCAL" if src.texts[i] == "constant" else "")
        for v in declarators(src, d):
            name, setter = src.texts[v.name], f"mpsx_set_{len(self.setters)}"
            attribute = next((a for a in attributes(src, v.name, v.end)[0] if a.name == "function_constant"), None)
            if attribute:
                index = self.module.evaluator.value((attribute.argument or "").split())
                if index is None:
                    raise src.error(attribute.token, f"function_constant({attribute.argument}): expected a number")
                self.replace(*attribute.span)
                value = f"::mpsx::function_constant<decltype({name})>({len(self.constants)})"
                self.indices[name] = len(self.constants)
                self.constants.append(FunctionConstant(scope + name, index, "".join(specifiers[-1:]), name in queried,
                                                       {name}))
            else:
                value = self.dependent_value(name, v)
            following = f" static MPSX_THREAD_LOCAL {' '.join(specifiers)} " if src.texts[v.end] == "," else ""
            src.replace(v.end, v.end + 1,
                        f"; static inline void {setter}() {{ {name} = {value}; }}{following}")
            self.setters.append(scope + setter)

    def dependent_value(self, name, declarator):
        """Remove the initializer of a constant that depends on function constants, and return its text."""
        src, (begin, end) = self.src, declarator.initializer
        if src.texts[begin] != "=":
            raise src.error(declarator.name, f"constant '{name}': expected a value")
        value = re.sub(r"is_function_constant_defined \( (\w+) \)",
                       lambda m: f"::mpsx::constant_defined({self.indices.get(m[1], -1)})", src.span(begin + 1, end))
        mentioned = {src.texts[i] for i in range(begin, end) if src.kinds[i] == "word"}
        self.replace(begin, end)
        self.indices[name] = None
        for c in self.constants:
            if c.names & mentioned:
                c.names.add(name)
        return value
