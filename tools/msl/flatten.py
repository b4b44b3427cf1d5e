"""One self-contained Metal source out of many: our own headers inlined once each, Apple's left as includes."""

import os
import re

from .preprocess import APPLE_HEADERS
from .source import MslError

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)[^\n]*$')


def find(name, here, include_dirs, quoted):
    for d in ([here] if quoted else []) + list(include_dirs):
        path = os.path.normpath(os.path.join(d, name))
        if os.path.isfile(path):
            return path
    return None


def flatten(paths, include_dirs=()):
    """The text of `paths` in order, ready for MTLDevice.newLibraryWithSource."""
    seen, out = set(), []

    def add(path):
        real = os.path.realpath(path)
        if real in seen and not path.endswith(".def"):   # .def tables are included once per macro set
            return
        seen.add(real)
        with open(path) as f:
            lines = f.read().split("\n")
        name = os.path.relpath(path)
        out.append(f'#line 1 "{name}"')
        for number, line in enumerate(lines, 1):
            m = INCLUDE.match(line)
            if not m:
                out.append("" if line.strip() == "#pragma once" else line)
                continue
            target = m[1] or m[2]
            found = find(target, os.path.dirname(path), include_dirs, bool(m[1]))
            if found:
                add(found)
                out.append(f'#line {number + 1} "{name}"')
            elif target in APPLE_HEADERS or target.startswith("metal_"):
                out.append(line)
            else:
                raise MslError(f"{path}:{number}:1: error: include '{target}' not found")

    for path in paths:
        add(path)
    return "\n".join(out) + "\n"
