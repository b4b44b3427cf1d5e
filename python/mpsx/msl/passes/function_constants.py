"""Lower function constants (MSL specification 3.2, section 5.8.1).

compile_shader compiles a kernel for given values: the source declares each function constant, and each program-scope
constant whose initializer depends on one, as `extern const`, so it can be precompiled. Their definitions come with the
kernel's entry point, and the compiler removes the branches that they disable.

Emulated Metal (tools/build/emulated_metal.py) receives the values at run time. There, each constant is a thread-local
variable that the entry point sets."""

from dataclasses import dataclass

from ..parser import attributes, declarators

STORAGE = ("constant", "const", "static", "constexpr")


@dataclass
class FunctionConstant:
    name: str  # qualified name
    index: int
    type: str  # as written, and in a translated library the name of the type, such as `int2`
    is_queried: bool  # the source passes it to is_function_constant_defined, so it needs no value
    names: set  # its own name, and the names of the constants that depend on it

    @property
    def plain(self):
        return self.name.rpartition("::")[2]


@dataclass
class Definition:
    """The definition of a function constant or of a constant that depends on one."""

    scope: tuple  # names of the enclosing namespaces
    name: str
    index: int | None  # index into `FunctionConstants.constants`, or None for a dependent constant
    initializer: str  # name of the function that returns the value of a dependent constant

    def text(self, values):
        """Return the definition for the initializers `values` of the function constants. A constant without one is
        undefined."""
        if self.index is None:
            code = f"decltype({self.name}) {self.name} = {self.initializer}<>();"
        else:
            code = (f"constexpr decltype({self.name}) {self.name} = "
                    f"decltype({self.name})({values.get(self.index, '')}); "
                    f"constexpr bool mpsx_defined_{self.index} = {'true' if self.index in values else 'false'};")
        for name in reversed(self.scope):
            code = f"namespace {name} {{ {code} }}"
        return code + "\n"


class FunctionConstants:
    """The pass over one Source. After `run`, `constants` contains the function constants. If `specialize` is set,
    `definitions` defines them and their dependents, in order. Otherwise, the functions in `setters` set them. `done`
    contains the tokens that no other pass may edit."""

    def __init__(self, src, module, specialize):
        self.src, self.module, self.specialize = src, module, specialize
        self.storage = "extern const" if specialize else "static MPSX_THREAD_LOCAL"
        self.constants, self.definitions, self.setters, self.done = [], [], [], set()
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
            self.replace(i, src.match[i + 1] + 1, self.is_defined(name))

    def is_defined(self, name):
        """Return the expression that says whether a function constant has a value."""
        index = self.indices.get(name)
        if index is None or not self.specialize:
            return f"::mpsx::constant_defined({-1 if index is None else index})"
        return f"{self.constants[index].name.rpartition('::')[0]}::mpsx_defined_{index}".removeprefix("::")

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
                self.replace(i, i + 1, self.storage if src.texts[i] == "constant" else "")
        for v in declarators(src, d):
            name, number = src.texts[v.name], len(self.definitions)
            attribute = next((a for a in attributes(src, v.name, v.end)[0] if a.name == "function_constant"), None)
            following = f" {self.storage} {' '.join(specifiers)} " if src.texts[v.end] == "," else ""
            if attribute:
                index = self.module.evaluator.value((attribute.argument or "").split())
                if index is None:
                    raise src.error(attribute.token, f"function_constant({attribute.argument}): expected a number")
                self.replace(*attribute.span)
                k = self.indices[name] = len(self.constants)
                self.constants.append(FunctionConstant(scope + name, index, " ".join(specifiers), name in queried,
                                                       {name}))
                value = f"{name} = ::mpsx::function_constant<decltype({name})>({k});"
                src.replace(v.end, v.end + 1, f"; extern const bool mpsx_defined_{k};{following}" if self.specialize
                            else f"; static inline void mpsx_set_{number}() {{ {value} }}{following}")
            else:
                self.dependent(name, v)
                function = (f"template <class = void> static constexpr decltype({name}) mpsx_value_{number}() {{ return"
                            if self.specialize else f"static inline void mpsx_set_{number}() {{ {name} =")
                begin = v.initializer[0]
                self.replace(begin, begin + 1, f"; {function}")
                src.replace(v.end, v.end + 1, f"; }}{following}")
            self.definitions.append(Definition(d.scope, name, self.indices[name], f"mpsx_value_{number}"))
            self.setters.append(f"{scope}mpsx_set_{number}")

    def dependent(self, name, declarator):
        """Record a constant that depends on function constants."""
        src, (begin, end) = self.src, declarator.initializer
        if src.texts[begin] != "=":
            raise src.error(declarator.name, f"constant '{name}': expected a value")
        mentioned = {src.texts[i] for i in range(begin, end) if src.kinds[i] == "word"}
        self.indices[name] = None
        for c in self.constants:
            if c.names & mentioned:
                c.names.add(name)
