"""The declarations of a translation unit, from its tokens: functions, variables, classes, aliases. Enough of a C++
parser for rules that ask what kind of thing a token belongs to. It omits what it cannot parse, so no rule fires."""

from dataclasses import dataclass, field

from ..source import MslError

SPACES = ("device", "constant", "threadgroup", "thread")
OTHER_SPACES = ("threadgroup_imageblock", "ray_data", "object_data")
CLASS_WORDS = ("struct", "class", "union")
ENTRY_WORDS = ("kernel", "vertex", "fragment")
ENTRY_ATTRIBUTES = (*ENTRY_WORDS, "mesh", "object", "intersection")
# Words with a parenthesis after them that is not a parameter list.
PARENTHESIZED = (
    "decltype",
    "__attribute__",
    "alignas",
    "noexcept",
    "sizeof",
    "static_assert",
    "coherent",
    "explicit",
)
PROGRAM, CLASS, LOCAL = "program", "class", "local"


@dataclass
class Attribute:
    name: str
    token: int
    argument: str | None  # None without parentheses


@dataclass
class Function:
    name: int  # token of its name
    begin: int
    parameters: list  # token ranges
    body: tuple | None  # token range of { ... }, or None for a declaration
    attributes: list
    entry: str  # "kernel", "vertex", …, or ""
    template: tuple  # names of template parameters
    scope: tuple
    where: str  # PROGRAM or CLASS
    result: tuple  # token range of the result type


@dataclass
class Variable:
    name: int
    begin: int
    end: int  # after the declarator, where an initialiser would be
    initialised: bool
    attributes: list
    where: str
    scope: tuple
    template: tuple = ()


@dataclass
class Instantiation:
    begin: int
    end: int
    attributes: list


@dataclass
class Structure:
    functions: list = field(default_factory=list)
    variables: list = field(default_factory=list)
    classes: dict = field(default_factory=dict)  # name -> token
    aliases: dict = field(default_factory=dict)  # name -> token range of what it stands for
    instantiations: list = field(default_factory=list)


def attributes(src, begin, end):
    """The attributes among tokens [begin, end), and the tokens outside of them."""
    found, rest, i = [], [], begin
    while i < end:
        stop = src.attribute_end(i)
        if stop is None:
            rest.append(i)
            i += 1
            continue
        for a, b in src.split(i + 2, stop - 1):
            name = a + 2 if b - a > 2 and src.texts[a + 1] == "::" else a
            argument = src.span(name + 2, b - 1) if name + 1 < b and src.texts[name + 1] == "(" else None
            if name == a:  # [[clang::…]] and its like are the compiler's own
                found.append(Attribute(src.texts[name], name, argument))
        i = stop + 1
    return found, rest


class Reader:
    """One walk over the tokens of a Source."""

    def __init__(self, src):
        self.src = src
        self.out = Structure()
        self.declarations(0, len(src), (), PROGRAM)

    def at(self, i):
        """The text of token i; nothing after the last one."""
        return self.src.texts[i] if i < len(self.src) else ""

    def skip(self, i):
        """The token after i, or after what its bracket encloses."""
        return self.src.match[i] + 1 if self.src.texts[i] in "([{" and i in self.src.match else i + 1

    def angle(self, i):
        """After the template arguments that the '<' at i opens, or i + 1 if it is an operator."""
        try:
            return self.src.angle_end(i) + 1
        except MslError:
            return i + 1

    def declarations(self, i, end, scope, where):
        texts = self.src.texts
        while i < end:
            t = texts[i]
            if t in (";", "}"):
                i += 1
            elif t in ("public", "private", "protected") and i + 1 < end and texts[i + 1] == ":":
                i += 2
            else:
                i = max(self.declaration(i, end, scope, where), i + 1)

    def statement_end(self, i, end):
        """The ';' at this level, or `end`."""
        while i < end and self.src.texts[i] != ";":
            i = self.skip(i)
        return i

    def declaration(self, begin, end, scope, where):
        src, texts = self.src, self.src.texts
        i, template, attrs = begin, (), []
        while i < end:
            stop = src.attribute_end(i)
            if stop is not None:
                attrs += attributes(src, i, stop + 1)[0]
                i = stop + 1
            elif texts[i] == "template":
                if self.at(i + 1) != "<":
                    return self.instantiation(i, end)
                stop = self.angle(i + 1)
                template += self.template_names(i + 2, stop - 1)
                i = stop
            else:
                break
        if i >= end:
            return end
        t = texts[i]
        if t == "inline" and self.at(i + 1) == "namespace":
            i, t = i + 1, "namespace"
        if t == "namespace":
            return self.namespace(i, end, scope)
        if t == "extern" and self.at(i + 1).startswith('"'):
            if self.at(i + 2) == "{":
                self.declarations(i + 3, src.match[i + 2], scope, where)
                return src.match[i + 2] + 1
            i += 2
        if t == "using":
            stop = self.statement_end(i, end)
            if i + 2 < stop and self.at(i + 2) == "=":
                self.out.aliases[self.at(i + 1)] = (i + 3, stop)
            return stop + 1
        if t == "typedef":
            stop = self.statement_end(i, end)
            if (named := self.typedef_of_class(i + 1, stop, scope)) is not None:
                return named
            if src.kinds[stop - 1] == "word":
                self.out.aliases[texts[stop - 1]] = (i + 1, stop - 1)
            return stop + 1
        if t in ("static_assert", "friend", "concept"):
            return self.statement_end(i, end) + 1
        return self.entity(begin, i, end, scope, where, template, attrs)

    def typedef_of_class(self, i, stop, scope):
        """Reads `struct { … } name, *pointer;` and returns the token after it; None for any other typedef."""
        while i < stop and self.src.texts[i] not in CLASS_WORDS and self.src.texts[i] != "enum":
            i += 1
        following = self.class_body(i, stop, scope) if i < stop and self.src.texts[i] != "enum" else None
        if following is None:
            return None
        for a, b in self.src.split(following, stop):
            if b - a == 1:
                self.out.classes[self.src.texts[a]] = a
            elif self.src.kinds[b - 1] == "word":
                self.out.aliases[self.src.texts[b - 1]] = (a, b - 1)
        return stop + 1

    def template_names(self, begin, end):
        names = []
        for a, b in self.src.split(begin, end):
            stop = next((k for k in range(a, b) if self.src.texts[k] == "="), b)
            if stop > a and self.src.kinds[stop - 1] == "word":
                names.append(self.src.texts[stop - 1])
        return tuple(names)

    def instantiation(self, i, end):
        stop = self.statement_end(i, end)
        found, rest = attributes(self.src, i + 1, stop)
        if any(self.src.texts[k] in ENTRY_WORDS for k in rest) or any(a.name == "host_name" for a in found):
            self.out.instantiations.append(Instantiation(i, stop, found))
        return stop + 1

    def namespace(self, i, end, scope):
        texts, brace = self.src.texts, i + 1
        while brace < end and texts[brace] not in ("{", ";", "="):
            brace += 1
        if brace < end and texts[brace] == "{":
            names = tuple(w for w in texts[i + 1 : brace] if w not in ("::", "inline"))
            self.declarations(brace + 1, self.src.match[brace], scope + names, PROGRAM)
            return self.src.match[brace] + 1
        return self.statement_end(i, end) + 1

    def entity(self, begin, i, end, scope, where, template, attrs):
        """A class, a function or variables."""
        src, texts = self.src, self.src.texts
        start, last_word = i, None
        while i < end:
            t = texts[i]
            stop = src.attribute_end(i)
            if stop is not None:
                attrs = attrs + attributes(src, i, stop + 1)[0]
                i = stop + 1
            elif t == "enum":
                return self.statement_end(i, end) + 1
            elif t in CLASS_WORDS:
                following = self.class_body(i, end, scope)
                if following is None:  # struct S x; or struct S;
                    if self.at(i + 2) in (";", "<", ":"):
                        return self.statement_end(i, end) + 1
                    i += 1
                    continue
                return self.statement_end(following, end) + 1
            elif t == "operator":
                i += 1
                last_word = i - 1
                while i < end and (texts[i] != "(" or texts[i - 1] == "operator"):
                    i = self.skip(i) if texts[i] in "([" else i + 1
            elif t == "<":
                i = self.angle(i)
            elif t == "(":
                if texts[i - 1] in PARENTHESIZED:
                    i = src.match[i] + 1
                elif last_word is not None:
                    return self.function(begin, start, last_word, i, end, scope, where, template, attrs)
                else:
                    return self.statement_end(i, end) + 1
            elif t in (";", "=", "{", "[", ","):
                return self.variables(begin, start, last_word, i, end, scope, where, template, attrs)
            elif t == ":":  # a bit field
                return self.statement_end(i, end) + 1
            else:
                last_word = i if src.kinds[i] == "word" else None
                i += 1
        return end

    def class_body(self, i, end, scope):
        """Reads `struct name : bases { … }` and returns the token after it; None if there is no body."""
        texts, k, name = self.src.texts, i + 1, None
        while k < end and texts[k] not in ("{", ";", "=", "(", ")", ",", "*", "&"):
            stop = self.src.attribute_end(k)
            if stop is not None:
                k = stop + 1
            elif texts[k] == "<":
                k = self.angle(k)
            else:
                if name is None and self.src.kinds[k] == "word" and texts[k] not in ("alignas", "final"):
                    name = k
                k += 1
        if k >= end or texts[k] != "{":
            return None
        if name is not None:
            self.out.classes[texts[name]] = name
        inner = scope + ((texts[name],) if name is not None else ())
        self.declarations(k + 1, self.src.match[k], inner, CLASS)
        return self.src.match[k] + 1

    def function(self, begin, start, name, paren, end, scope, where, template, attrs):
        src, texts = self.src, self.src.texts
        close = src.match[paren]
        k = close + 1
        while k < end and texts[k] not in ("{", ";", "=", ":", ","):
            stop = src.attribute_end(k)
            if stop is not None:
                attrs = attrs + attributes(src, k, stop + 1)[0]
                k = stop + 1
            else:
                k = self.skip(k)
        if k < end and texts[k] == ":":  # a constructor's initialisers: name(…) or name{…}, with commas
            k += 1
            while k < end and not (texts[k] == "{" and texts[k - 1] in (")", "}")):
                k = self.skip(k) if texts[k] in "([" or (texts[k] == "{" and texts[k - 1] not in (")", "}")) else k + 1
        body = (k, src.match[k] + 1) if k < end and texts[k] == "{" else None
        words = texts[start:name]
        entry = next((w for w in words if w in ENTRY_WORDS), "")
        entry = entry or next((a.name for a in attrs if a.name in ENTRY_ATTRIBUTES), "")
        parameters = [(a, b) for a, b in src.split(paren + 1, close) if src.span(a, b) != "void"]
        self.out.functions.append(
            Function(name, begin, parameters, body, attrs, entry, template, scope, where, (start, name))
        )
        return body[1] if body else self.statement_end(k, end) + 1

    def variables(self, begin, start, name, i, end, scope, where, template, attrs):
        """One declaration of one or more variables; `i` is where the first declarator's name has just been read."""
        src, texts = self.src, self.src.texts
        stop = self.statement_end(i, end)
        at = i
        while at < stop and texts[at] == "[" and src.attribute_end(at) is None:
            at = src.match[at] + 1
        while at < stop and src.attribute_end(at) is not None:
            attrs = attrs + attributes(src, at, src.attribute_end(at) + 1)[0]
            at = src.attribute_end(at) + 1
        if name is not None and name > start:
            initialised = at < stop and texts[at] in ("=", "{", "(")
            self.out.variables.append(Variable(name, begin, i, initialised, attrs, where, scope, template))
        return stop + 1


def read(src):
    return Reader(src).out
