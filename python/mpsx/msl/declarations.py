"""The declaration tree of a translation unit, which parser.py builds and the checks, passes and code generators walk.

Every position is a token index in the Source, and every range is half open. -1 stands for a missing token."""

from dataclasses import dataclass, field
from functools import cached_property

NAMESPACE, CLASS, ENUM, FUNCTION = "namespace", "class", "enum", "function"
VARIABLE, ALIAS, INSTANTIATION, OTHER = "variable", "alias", "instantiation", "other"
CLASS_WORDS = ("struct", "class", "union")
ADDRESS_SPACES = ("device", "constant", "threadgroup", "thread")
ENTRY_WORDS = ("kernel", "vertex", "fragment")
ENTRY_ATTRIBUTES = (*ENTRY_WORDS, "mesh", "object", "intersection")


@dataclass
class Attribute:
    """One attribute in a `[[…]]` list."""

    name: str
    token: int
    argument: str | None   # None if there are no parentheses
    span: tuple            # the token range of the whole [[…]]


@dataclass
class Declaration:
    """A declaration at namespace or class scope, or a declaration in a function body that begins with a specifier."""

    kind: str
    begin: int  # first token, including template heads and attributes
    start: int  # first token after template heads and attributes
    end: int = -1  # token after the ';' or the '}'
    scope: tuple = ()  # names of the enclosing namespaces and classes; class names end in @begin
    in_class: bool = False
    heads: list = field(default_factory=list)        # ranges of `template <…>`
    template: tuple = ()   # names of the template parameters
    attributes: list = field(default_factory=list)
    name: int = -1  # for variables, the name of the first declarator
    open: int = -1         # the '(' of a function's parameters
    parameters: list = field(default_factory=list)   # ranges of the function's parameters
    entry: str = ""        # "kernel", "vertex", …
    body: int = -1         # the '{' of a namespace, a class, an enum or a function
    value: tuple = ()      # the range of an alias's type, including the declarator of a typedef
    declarator_end: int = -1  # where the first variable's array bounds or initializer begin
    initialized: bool = False
    members: list = field(default_factory=list)      # the declarations in a namespace or a class

    @property
    def result(self):
        """The token range of a function's specifiers and return type."""
        return self.start, self.name

    @property
    def body_range(self):
        """The token range of a function's body, including the braces."""
        return self.body, self.end


@dataclass
class Declarator:
    """One name in a variable declaration: `a[4] = {1}` in `float a[4] = {1}, b;`."""

    name: int
    bounds: list        # ranges of [ … ]
    specifiers: list    # ranges of alignas(…) and __attribute__((…)) after the bounds
    initializer: tuple  # the range that begins with '=', '(' or '{'; empty if there is no initializer
    end: int            # the ',' or ';'


@dataclass
class Block:
    """A `{ … }` block in a function body."""

    begin: int
    end: int
    declarations: list = field(default_factory=list)
    blocks: list = field(default_factory=list)

    def walk(self):
        """Yield the declarations in this block and its nested blocks, in source order."""
        for node in sorted([*self.declarations, *self.blocks], key=lambda node: node.begin):
            if isinstance(node, Block):
                yield from node.walk()
            else:
                yield node

    def path(self, token):
        """Return the blocks that contain a token, outermost first."""
        inner = next((b for b in self.blocks if b.begin < token < b.end), None)
        return [self, *(inner.path(token) if inner else ())]


def walk(declarations):
    """Yield each declaration, followed by its members."""
    for d in declarations:
        yield d
        yield from walk(d.members)


@dataclass
class TranslationUnit:
    """The declaration tree of one Source."""

    src: object
    declarations: list
    parse_block: object    # function -> Block
    _blocks: dict = field(default_factory=dict)

    def block(self, function):
        """Return the body of a function, parsed on first use."""
        if function.body not in self._blocks:
            self._blocks[function.body] = self.parse_block(function)
        return self._blocks[function.body]

    def locals(self, function):
        """Return the declarations in the body of a function, but not the members of local classes."""
        return self.block(function).walk()

    @cached_property
    def all(self):
        """All declarations outside function bodies, each one before its members."""
        return list(walk(self.declarations))

    def of_kind(self, kind):
        return [d for d in self.all if d.kind == kind]

    @cached_property
    def functions(self):
        return self.of_kind(FUNCTION)

    @cached_property
    def definitions(self):
        """The functions that have a body."""
        return [f for f in self.functions if f.body >= 0]

    @cached_property
    def variables(self):
        return self.of_kind(VARIABLE)

    @cached_property
    def instantiations(self):
        """The explicit instantiations of kernels."""
        texts = self.src.texts
        return [d for d in self.of_kind(INSTANTIATION)
                if any(a.name == "host_name" for a in d.attributes) or set(texts[d.begin:d.end]) & {*ENTRY_WORDS}]

    @cached_property
    def classes(self):
        """The names of classes, including names given by a typedef."""
        texts = self.src.texts
        found = {texts[d.name] for d in self.of_kind(CLASS) if d.name >= 0}
        return found | {texts[a] for d in self.of_kind(CLASS) for a, b in self._typedef_names(d) if b - a == 1}

    @cached_property
    def aliases(self):
        """A dict from the name of each type alias to the token range of its type."""
        src = self.src
        found = {src.texts[d.name]: d.value for d in self.of_kind(ALIAS) if d.name >= 0}
        for d in self.of_kind(CLASS) + self.of_kind(ENUM):   # typedef struct { … } name, *pointer;
            for a, b in self._typedef_names(d):
                if src.kinds[b - 1] == "word" and (b - a > 1 or d.kind == ENUM):
                    found[src.texts[b - 1]] = (a, b)
        return found

    def _typedef_names(self, d):
        """Return the ranges of the declarators after `typedef struct { … }`."""
        if self.src.texts[d.start] != "typedef":
            return []
        return self.src.split(self.src.match[d.body] + 1, d.end - 1)
