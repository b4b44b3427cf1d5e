"""Read Metal sources whose kernels take positions from program scope, such as `uint i [[thread_position_in_grid]];`
(MSL specification 3.1, program scope global built-ins).

Each kernel that mentions such a variable gets a parameter, from which a local variable of the same name is initialized
in front of the body. So the rest of the translator needs to know only parameters, and C++ finds out which declaration
a name refers to. At program scope, a constant takes the variable's place. The name of its class says what is wrong when
clang reports a function that reads it."""

import re

from .attributes import POSITIONS
from .parser import attributes, declarators, parse
from .source import Source

# Also matches members of structs.
DECLARATION = re.compile(rf"\[\[[^\]]*\b(?:{'|'.join(POSITIONS)})\b[^\]]*\]\][\w:<>,\s]*;")


def read_source(text):
    """Return the Source of preprocessed text, with positions at program scope turned into parameters."""
    src = Source(text)
    if not DECLARATION.search(text):
        return src
    tree = parse(src)
    found = [(d, declared_positions(src, d)) for d in tree.variables if not d.in_class]
    variables = {name: position for _, names in found for name, position in names.items()}
    edits = []
    for d, names in found:
        if names:
            begin, end = src.starts[d.begin], src.starts[d.end - 1] + 1
            constants = "".join(f"constant struct only_kernels_can_read_{n} {{}} {n} = {{}}; " for n in names)
            edits.append((begin, end, constants + "\n" * text.count("\n", begin, end)))
    types = {}  # name of a kernel -> the types of its new parameters
    for f in tree.definitions:
        words = src.texts[slice(*f.body_range)]
        parameters = {src.texts[i] for begin, end in f.parameters for i in range(begin, end)}
        names = [name for name in variables if name in words and name not in parameters] if f.entry == "kernel" else []
        if names:
            given = [f"{variables[n].kind} mpsx_{n} [[{variables[n].attribute}]]" for n in names]
            edits.append(append_parameters(src, f.open, given))
            # The function's own block remains, so its variables may have the same names.
            at = src.starts[f.body] + 1
            edits.append((at, at, "".join(f" const {variables[n].kind} {n} = mpsx_{n};" for n in names) + " {"))
            edits.append((src.starts[f.end - 1], src.starts[f.end - 1], "} "))
            types[src.texts[f.name]] = [variables[n].kind for n in names]
    for d in tree.instantiations:  # some repeat the types of the parameters
        added = next((types[t] for t in src.texts[d.begin:d.end] if t in types), ())
        if added and src.texts[d.end - 2] == ")":
            edits.append(append_parameters(src, src.match[d.end - 2], added))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return Source(text)


class Position:
    """The type and the attribute of a position at program scope."""

    def __init__(self, kind, attribute):
        self.kind, self.attribute = kind, attribute


def declared_positions(src, d):
    """Return a dict from the names that a variable declaration declares to their Positions."""
    found = {}
    prefix, kind = attributes(src, d.begin, d.name)
    for v in declarators(src, d):
        for a in (*prefix, *attributes(src, v.name, v.end)[0]):
            if a.name in POSITIONS:
                found[src.texts[v.name]] = Position(" ".join(src.texts[i] for i in kind), a.name)
    return found


def append_parameters(src, bracket, parameters):
    """Return the edit that appends parameters to the list that begins at token `bracket`."""
    close, text = src.match[bracket], ", ".join(parameters)
    if src.texts[bracket + 1:close] in ([], ["void"]):
        return src.starts[bracket] + 1, src.starts[close], text
    return src.starts[close], src.starts[close], f", {text}"
