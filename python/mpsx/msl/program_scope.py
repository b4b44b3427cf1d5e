"""Read Metal sources whose kernels take positions from program scope, such as `uint i [[thread_position_in_grid]];`
(MSL specification 3.1, program scope global built-ins). Each kernel that reads such a variable gets a parameter
instead, so that checks and code generation need to know only parameters."""

import re

from .attributes import POSITIONS
from .parser import attributes, declarators, parse
from .source import Source

DECLARATION = re.compile(rf"\[\[\s*(?:{'|'.join(POSITIONS)})\s*\]\]\s*[;,]")  # also matches members of structs
STATEMENTS = ("return", "case", "else", "do")  # words before a name that do not declare it


def source_of(text):
    """Return the Source of preprocessed text, with positions at program scope turned into parameters."""
    src = Source(text)
    if not DECLARATION.search(text):
        return src
    tree = parse(src)
    found = [(d, positions(src, d)) for d in tree.variables if not d.in_class]
    edits = [(src.starts[d.begin], src.starts[d.end - 1] + 1, "") for d, names in found if names]
    variables = {name: declaration for _, names in found for name, declaration in names.items()}
    types = {}  # name of a kernel -> the types of its new parameters
    for f in tree.definitions:
        used, function = sorted(read_in(src, f, variables)), src.texts[f.name]
        if used and f.entry != "kernel":
            raise src.error(f.name, f"'{function}' reads '{used[0]}', a position at program scope: only kernels can "
                                    "read it here; pass it as an argument")
        if used:
            edits.append(appended(src, f.open, [" ".join((variables[n][0], n, variables[n][1])) for n in used]))
            types[function] = [variables[n][0] for n in used]
    for d in tree.instantiations:  # some repeat the types of the parameters
        added = next((types[t] for t in src.texts[d.begin:d.end] if t in types), ())
        if added and src.texts[d.end - 2] == ")":
            edits.append(appended(src, src.match[d.end - 2], added))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return Source(text)


def positions(src, d):
    """Return a dict from the names of the positions that a declaration declares to their types and attributes."""
    found = {}
    for v in declarators(src, d):
        for a in (*d.attributes, *attributes(src, v.name, v.end)[0]):
            if a.name in POSITIONS:
                found[src.texts[v.name]] = " ".join(src.texts[d.start:d.name]), f"[[{a.name}]]"
    return found


def read_in(src, function, names):
    """Return those of `names` that a function's body reads, without those that the function itself declares."""
    declared = {src.texts[i] for begin, end in function.parameters for i in range(begin, end)}
    used = set()
    for i in range(*function.body_range) if function.body_range[0] >= 0 else ():
        before = src.texts[i - 1]
        if src.texts[i] not in names or before in (".", "->", "::"):
            continue
        is_local = src.kinds[i - 1] == "word" and before not in STATEMENTS
        (declared if is_local else used).add(src.texts[i])
    return used - declared


def appended(src, bracket, parameters):
    """Return the edit that appends parameters to the list that begins at token `bracket`."""
    close = src.match[bracket]
    text = ", ".join(parameters)
    return src.starts[close], src.starts[close], text if close == bracket + 1 else f", {text}"
