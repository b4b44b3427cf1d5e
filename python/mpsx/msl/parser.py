"""Parses a Source into a tree of declarations.

The parser covers the parts of C++ that the translator needs. Expressions and statements remain tokens. If it does not
recognize the syntax, everything up to the next ';' becomes a declaration of kind OTHER, which no check rejects."""

from .declarations import (
    ADDRESS_SPACES,
    ALIAS,
    CLASS,
    CLASS_WORDS,
    ENTRY_ATTRIBUTES,
    ENTRY_WORDS,
    ENUM,
    FUNCTION,
    INSTANTIATION,
    NAMESPACE,
    OTHER,
    VARIABLE,
    Attribute,
    Block,
    Declaration,
    Declarator,
    TranslationUnit,
)
from .source import MslError

# Words that are followed by parentheses that are not a parameter list.
PARENTHESIZED = ("decltype", "__attribute__", "alignas", "noexcept", "sizeof", "coherent", "explicit")
# Words that begin a declaration in a function body.
SPECIFIERS = {"const", "constexpr", "constant", "device", "thread", "threadgroup", "static", "volatile", "inline",
              "extern", "namespace", "using", "typedef", "enum", "alignas", "__attribute__", "static_assert",
              *CLASS_WORDS}


def attributes(src, begin, end):
    """Return the attributes among tokens [begin, end), and the tokens outside attributes. Attributes with a namespace,
    such as [[clang::loop]], are skipped, because only the C++ compiler interprets them."""
    found, rest, i = [], [], begin
    while i < end:
        stop = src.attribute_end(i)
        if stop is None:
            rest.append(i)
            i += 1
            continue
        for a, b in src.split(i + 2, stop - 1):
            if b - a > 2 and src.texts[a + 1] == "::":
                continue
            argument = src.span(a + 2, b - 1) if a + 1 < b and src.texts[a + 1] == "(" else None
            found.append(Attribute(src.texts[a], a, argument, (i, stop + 1)))
        i = stop + 1
    return found, rest


def declarators(src, d):
    """Return the Declarators of a variable declaration."""
    found = []
    for begin, end in src.split(d.name, d.end - 1):
        name = begin
        while name < end and src.texts[name] in ("*", "&", "const", "volatile"):
            name += 1
        i, bounds, specifiers = name + 1, [], []
        while i < end:
            if (stop := src.attribute_end(i)) is not None:
                i = stop + 1
            elif src.texts[i] == "[":
                bounds.append((i, src.match[i] + 1))
                i = src.match[i] + 1
            elif src.specifier_end(i) > i:
                specifiers.append((i, src.specifier_end(i)))
                i = src.specifier_end(i)
            else:
                break
        found.append(Declarator(name, bounds, specifiers, (i, end), end))
    return found


class Parser:
    """Parses the tokens of one Source."""

    def __init__(self, src):
        self.src = src

    def at(self, i):
        """Return the text of token i, or "" after the last token."""
        return self.src.texts[i] if i < len(self.src) else ""

    def skip(self, i):
        """Return the token after i, or after the matching bracket if i opens one."""
        return self.src.match[i] + 1 if self.src.texts[i] in "([{" and i in self.src.match else i + 1

    def angle(self, i):
        """Return the token after the template arguments that begin with the '<' at i. If '<' is an operator, return i +
        1."""
        try:
            return self.src.angle_end(i) + 1
        except MslError:
            return i + 1

    def statement_end(self, i, end):
        """Return the ';' at this nesting level, or `end`."""
        while i < end and self.src.texts[i] != ";":
            i = self.skip(i)
        return i

    def declarations(self, i, end, scope=(), in_class=False):
        texts, found = self.src.texts, []
        while i < end:
            if texts[i] in (";", "}"):
                i += 1
            elif in_class and texts[i] in ("public", "private", "protected") and self.at(i + 1) == ":":
                i += 2
            else:
                d = self.declaration(i, end, scope, in_class)
                d.end = max(min(d.end, end), i + 1)
                found.append(d)
                i = d.end
        return found

    def declaration(self, begin, end, scope, in_class):
        """Parse the declaration that starts at token `begin`."""
        src, texts, i = self.src, self.src.texts, begin
        d = Declaration(OTHER, begin, begin, scope=scope, in_class=in_class)
        while i < end:
            if (stop := src.attribute_end(i)) is not None:
                d.attributes += attributes(src, i, stop + 1)[0]
                i = stop + 1
            elif texts[i] == "template" and self.at(i + 1) == "<":
                stop = self.angle(i + 1)
                d.heads.append((i, stop))
                d.template += self.template_names(i + 2, stop - 1)
                i = stop
            else:
                break
        d.start = i
        word = self.at(i)
        if word == "template":
            d.kind, d.end = INSTANTIATION, self.statement_end(i, end) + 1
            d.attributes += attributes(src, i + 1, d.end - 1)[0]
            return d
        if word == "inline" and self.at(i + 1) == "namespace":
            i, word = i + 1, "namespace"
        if word == "namespace":
            return self.namespace(d, i, end)
        if word == "extern" and self.at(i + 1).startswith('"'):
            if self.at(i + 2) == "{":
                return self.namespace(d, i + 1, end, ())
            d.start = i = i + 2
        if word in ("using", "typedef"):
            return self.alias(d, i, end)
        if word in ("static_assert", "concept"):
            d.end = self.statement_end(i, end) + 1
            return d
        return self.entity(d, i, end)

    def template_names(self, begin, end):
        names = []
        for a, b in self.src.split(begin, end):
            stop = next((k for k in range(a, b) if self.src.texts[k] == "="), b)
            if stop > a and self.src.kinds[stop - 1] == "word":
                names.append(self.src.texts[stop - 1])
        return tuple(names)

    def namespace(self, d, i, end, names=None):
        """Parse `namespace a::b { … }`. If `names` is empty, parse extern "C" { … }."""
        texts, brace = self.src.texts, i + 1
        while brace < end and texts[brace] not in ("{", ";", "="):
            brace += 1
        if self.at(brace) != "{":
            d.end = self.statement_end(brace, end) + 1
            return d
        if names is None:
            names = tuple(w for w in texts[i + 1:brace] if w not in ("::", "inline")) or ("",)
        d.kind, d.body, d.end = NAMESPACE, brace, self.src.match[brace] + 1
        d.members = self.declarations(brace + 1, d.end - 1, d.scope + names)
        return d

    def alias(self, d, i, end):
        """Parse `using name = …;` or a typedef. The typedef may define a class."""
        src, texts = self.src, self.src.texts
        stop = self.statement_end(i, end)
        d.end = stop + 1
        if texts[i] == "using":
            if self.at(i + 2) == "=":
                d.kind, d.name, d.value = ALIAS, i + 1, (i + 3, stop)
            return d
        k = i + 1
        while k < stop and texts[k] not in (*CLASS_WORDS, "enum"):
            k += 1
        if k < stop and self.class_body(d, k, end):
            return d
        d.kind, d.value = ALIAS, (i + 1, stop)
        d.name = next((k for k in range(i + 2, stop) if src.kinds[k] == "word" and texts[k] not in ADDRESS_SPACES
                       and texts[k + 1] in (";", ")", "[")), -1)
        return d

    def entity(self, d, i, end):
        """Parse a class, an enum, a function, or variables."""
        src, texts, name = self.src, self.src.texts, -1
        while i < end:
            t = texts[i]
            if (stop := src.attribute_end(i)) is not None:
                d.attributes += attributes(src, i, stop + 1)[0]
                i = stop + 1
            elif src.specifier_end(i) > i:
                i = src.specifier_end(i)
            elif t in (*CLASS_WORDS, "enum"):
                if self.class_body(d, i, end):
                    return d
                i = self.elaborated_type_end(i)
                name = -1
                if self.at(i) == ";":   # a forward declaration
                    break
            elif t == "operator":
                name, i = i, i + 1
                while i < end and (texts[i] != "(" or texts[i - 1] == "operator"):
                    i = self.skip(i) if texts[i] in "([" else i + 1
            elif t == "<":
                i = self.angle(i)
            elif t == "(":
                if texts[i - 1] in PARENTHESIZED:
                    i = src.match[i] + 1
                elif name >= 0 and self.at(i + 1) not in ("*", "&"):
                    return self.function(d, name, i, end)
                else:
                    break
            elif t in (";", "=", "{", "[", ","):
                return self.variables(d, name, i, end)
            elif t == ":":   # a bit field
                break
            else:
                name = i if src.kinds[i] == "word" else -1
                i += 1
        d.end = self.statement_end(i, end) + 1
        return d

    def elaborated_type_end(self, i):
        """Return the token after `struct name<…>`."""
        i += 1
        while self.at(i) == "class" or self.src.specifier_end(i) > i:
            i = max(self.src.specifier_end(i), i + 1)
        while self.src.kinds[i] == "word" and self.at(i + 1) == "::":
            i += 2
        i += self.src.kinds[i] == "word"
        return self.angle(i) if self.at(i) == "<" else i

    def class_body(self, d, i, end):
        """Parse `struct name : bases { … };` or an enum into `d`. Return whether it has a body."""
        src, texts, k, name = self.src, self.src.texts, i + 1, -1
        stops = ("{", ";", "=", "(", ")", ",", "*", "&")
        while k < end and texts[k] not in stops:
            stops = ("{", ";") if texts[k] == ":" else stops   # base classes follow
            if (stop := src.attribute_end(k)) is not None:
                k = stop + 1
            elif src.specifier_end(k) > k:
                k = src.specifier_end(k)
            elif texts[k] == "<":
                k = self.angle(k)
            else:
                if name < 0 and src.kinds[k] == "word" and texts[k] not in ("final", "class", "struct"):
                    name = k
                k += 1
        if k >= end or texts[k] != "{":
            return False
        d.kind, d.name, d.body = CLASS if texts[i] != "enum" else ENUM, name, k
        d.end = self.statement_end(src.match[k] + 1, end) + 1
        if d.kind == CLASS:
            scope = f"{texts[name] if name >= 0 else ''}@{d.begin}"  # distinguishes specializations, which share a name
            d.members = self.declarations(k + 1, src.match[k], (*d.scope, scope), True)
        return True

    def function(self, d, name, paren, end):
        src, texts = self.src, self.src.texts
        d.kind, d.name, d.open = FUNCTION, name, paren
        close = src.match[paren]
        d.parameters = [(a, b) for a, b in src.split(paren + 1, close) if texts[a:b] != ["void"]]
        k = close + 1
        while k < end and texts[k] not in ("{", ";", "=", ":", ","):
            if (stop := src.attribute_end(k)) is not None:
                d.attributes += attributes(src, k, stop + 1)[0]
                k = stop + 1
            else:
                k = self.angle(k) if texts[k] == "<" else self.skip(k)
        if self.at(k) == ":":
            k = self.constructor_body(k + 1, end)
        d.entry = next((w for w in texts[d.start:name] if w in ENTRY_WORDS), "")
        d.entry = d.entry or next((a.name for a in d.attributes if a.name in ENTRY_ATTRIBUTES), "")
        if k < end and texts[k] == "{":
            d.body, d.end = k, src.match[k] + 1
        else:
            d.end = self.statement_end(k, end) + 1
        return d

    def constructor_body(self, i, end):
        """Return the '{' after a constructor's member initializers, which are `name(…)` or `name{…}`, separated by
        commas."""
        while i < end:
            while i < end and self.src.texts[i] not in ("(", "{"):
                i = self.angle(i) if self.src.texts[i] == "<" else i + 1
            i = self.skip(i) if i < end else i
            if self.at(i) != ",":
                return i
            i += 1
        return i

    def variables(self, d, name, i, end):
        """Parse one or more variables. `i` is the token after the first variable's name."""
        src, texts = self.src, self.src.texts
        d.end = self.statement_end(i, end) + 1
        if name > d.start:
            d.kind, d.name, d.declarator_end = VARIABLE, name, i
            while self.at(i) == "[":
                if (stop := src.attribute_end(i)) is not None:
                    d.attributes += attributes(src, i, stop + 1)[0]
                i = src.match[i] + 1
            d.initialized = i < d.end - 1 and texts[i] in ("=", "{", "(")
        return d

    def block(self, function):
        """Parse the body of a function: its blocks, and the declarations in it that begin with a specifier."""
        texts, kinds = self.src.texts, self.src.kinds
        stack = [root := Block(*function.body_range)]
        i, fresh = root.begin + 1, True  # fresh: i is at the beginning of a statement
        while i < root.end - 1:
            begin = i
            while fresh and (stop := self.src.attribute_end(i)) is not None:
                i = stop + 1
            t = texts[i]
            if kinds[i] == "word":
                if fresh and t in SPECIFIERS:
                    d = self.declaration(begin, stack[-1].end - 1, function.scope, False)
                    stack[-1].declarations.append(d)
                    if d.kind in (CLASS, ENUM):
                        i = d.end
                        continue
                fresh = False
            elif t == "{" and kinds[i] == "op":
                block = Block(i, self.src.match[i] + 1)
                stack[-1].blocks.append(block)
                stack.append(block)
                fresh = True
            elif t == "}" and kinds[i] == "op":
                stack.pop()
                fresh = True
            else:
                fresh = t in (";", ":")   # ':' ends a label
            i += 1
        return root


def parse(src):
    """Parse a Source into a TranslationUnit."""
    parser = Parser(src)
    return TranslationUnit(src, parser.declarations(0, len(src)), parser.block)
