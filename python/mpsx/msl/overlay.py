"""Overlays of the host driver: CPU versions of definitions in a Metal file.

The overlay of metal/<family>/<stem>.metal or <stem>.h is metal/<family>/host/<stem>.h. Only wide mode reads it. A
function, kernel, class, or constant in it replaces the one with the same name, template head, and parameters.
Everything else in the overlay, including the files it includes, is inserted before the first definition that it
replaces. An overlay may use all of clang's extensions, such as builtins and vector types."""

import os
import re

from .declarations import CLASS, FUNCTION, INSTANTIATION, VARIABLE
from .parser import parse
from .passes.overloads import normalized, parameter_type
from .source import MslError, Source

PRAGMA = "#pragma mpsx overlay"


def overlay_of(path):
    """Return the path at which a file's overlay would be."""
    folder, name = os.path.split(path)
    return os.path.join(folder, "host", os.path.splitext(name)[0] + ".h")


def overlays_of(files):
    """Return the existing overlays of the source `files[0]` and of the files it includes. The source's own overlay
    comes last."""
    return [path for path in dict.fromkeys(map(overlay_of, [*files[1:], files[0]])) if os.path.isfile(path)]


def with_overlays(path, overlays):
    """Return a text that includes `path` and its overlays. They are preprocessed together, so that include guards work
    across them."""
    lines = [f'#include "{os.path.abspath(path)}"']
    for overlay in overlays:
        lines += [f"{PRAGMA} {overlay}", f'#include "{os.path.abspath(overlay)}"']
    return "\n".join(lines) + "\n"


def apply_overlays(text, path, wrapper):
    """Return the translation unit of `path` with its overlays applied. `text` is the preprocessed form of the file
    `wrapper`, whose contents come from with_overlays()."""
    text = re.sub(rf'^# \d+ "{re.escape(wrapper)}"[^\n]*\n', "", text, flags=re.M)
    text = text.replace(f'"{os.path.abspath(path)}"', f'"{path}"')
    main, *parts = re.split(rf"^{PRAGMA} (.*)\n", text, flags=re.M)
    parts = [(name, part.replace(f'"{os.path.abspath(name)}"', f'"{name}"'))
             for name, part in zip(parts[::2], parts[1::2], strict=True)]
    src, edits = Source(main), []
    found = [d for d in parse(src).declarations if is_definition(d)]
    for name, part in parts:
        edits += Overlay(name, part).edits(src, found)
    return edited(src, edits)


def is_definition(d):
    return d.name >= 0 and ((d.kind in (FUNCTION, CLASS) and d.body >= 0) or (d.kind == VARIABLE and d.initialized))


def identity(src, d):
    """Return the parts of a definition that must match its overlay: name, template arguments, template head, and
    parameters."""
    head = d.heads[-1][1] if d.heads else d.begin
    stop = d.name + 1
    while src.texts[stop] not in ("(", "{", ":", "="):
        stop += 1
    parameters = ()
    if d.kind == FUNCTION:
        parameters = tuple(parameter_type(src, a, b) for a, b in d.parameters)
    heads = re.sub(r"\bclass\b", "typename", normalized(src, d.begin, head))
    return normalized(src, d.name, stop), heads, *parameters


def span(src, d):
    """Return the offsets in the text at which a declaration begins and ends."""
    return src.starts[d.begin], src.starts[d.end - 1] + len(src.texts[d.end - 1])


def line_directive(src, offset):
    """Return a #line directive for the text at this offset."""
    file, line, _ = src.position(offset)
    return f'\n#line {line} "{file}"\n'


def edited(src, edits):
    """Return the text with `edits` applied. Each is a tuple (begin, end, new)."""
    out, at = [], 0
    for begin, end, new in sorted(edits):
        out += [src.text[at:begin], new, line_directive(src, end)]
        at = end
    return "".join(out) + src.text[at:]


class Overlay:
    """One overlay, preprocessed."""

    def __init__(self, name, text):
        self.name, self.src = name, Source(text)
        self.declared = [d for d in parse(self.src).declarations if self.is_own(d)]

    def is_own(self, d):
        """Return whether a declaration is in the overlay itself rather than in a file that it includes."""
        return self.src.position(self.src.starts[d.begin])[0] == self.name

    def edits(self, main, definitions):
        """Return the edits that apply this overlay to the text of `main`."""
        # Definitions that differ only in address spaces have the same key in `found`.
        src, replaced, found = self.src, {}, {}
        for d in definitions:
            file = main.position(main.starts[d.begin])[0]
            if overlay_of(file) == self.name or file.endswith(".def"):
                found.setdefault(identity(main, d), []).append(d)
        for d in self.declared:
            key = identity(src, d) if is_definition(d) else None
            if key in found:
                replaced.setdefault(key, []).append(d)
            else:
                self.check_used(d, found)
        if not replaced:
            raise MslError(f"{self.name}:1:1: error: the overlay replaces nothing")
        helpers = edited(src, [(*span(src, d), "") for same in replaced.values() for d in same])
        edits = []
        for key, same in sorted(replaced.items(), key=lambda item: found[item[0]][0].begin):
            first, *others = found[key]
            new = "".join(self.quoted(d) for d in same)
            edits += [(*span(main, first), f"\n{helpers}{new}"), *((*span(main, d), "") for d in others)]
            helpers = ""
        return edits

    def quoted(self, d):
        """Return the text of a declaration after its #line directive, at its original column."""
        begin, end = span(self.src, d)
        return f"{line_directive(self.src, begin)}{' ' * (self.src.position(begin)[2] - 1)}{self.src.text[begin:end]}"

    def check_used(self, d, found):
        """Reject a definition that replaces nothing and that nothing in the overlay uses."""
        src = self.src
        if d.kind == INSTANTIATION:
            raise src.error(d.begin, "an overlay cannot instantiate kernels: do it in the Metal file")
        if not is_definition(d):
            return
        name = src.texts[d.name]
        same = [(e.begin, e.end) for e in self.declared if e.name >= 0 and src.texts[e.name] == name]
        if any(t == name and not any(a <= i < b for a, b in same) for i, t in enumerate(src.texts)):
            return
        known = [k for k in found if re.match(rf"{name}\b", k[0])]
        why = "its parameters or template head differ from the Metal file's" if known else "the Metal file has none"
        raise src.error(d.name, f"'{name}' replaces nothing ({why}), and nothing in the overlay uses it")
