"""Inline the project's headers into its Metal sources. MTLDevice.newLibraryWithSource compiles them without a metallib.

The result has one unit per kernel file. Each unit is a separate program, because kernel files may define the same
names, and the driver (src/driver/metal/source_units.h) compiles only the units it needs. A unit begins with

    //mpsx:unit metal/norm/softmax.metal
    //mpsx:kernels softmax_f32 softmax_f16 …
    #pragma METAL fp contract(off)

By default, Metal contracts a multiplication and an addition to an fma, and MTLCompileOptions cannot disable that.
Kernels call fma() explicitly and rely on both roundings elsewhere. Contraction would change the results of `a - b * c`
and `1 - w * w`, and the ends of an interpolation. The CPU build (compiler.py) disables it as well.
"""

import os
import re

from .preprocess import APPLE_HEADERS, EMPTY_HEADERS
from .source import MslError

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)[^\n]*$')
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b[ \t]*(\w*)")
UNIT, KERNELS = "//mpsx:unit ", "//mpsx:kernels "
NO_CONTRACTION = "#pragma METAL fp contract(off)"
METAL_MACROS = {"__METAL__", "__METAL_VERSION__"}


def find_include(name, here, include_dirs, quoted):
    for d in ([here] if quoted else []) + list(include_dirs):
        path = os.path.normpath(os.path.join(d, name))
        if os.path.isfile(path):
            return path
    return None


def remove_host_code(lines):
    """Blank out the C++ branches of `#ifdef __METAL__` … `#else` … `#endif`, and these directives."""
    open_blocks, out = [], []  # open_blocks: (the conditional tests for Metal, in Metal's branch)
    for line in lines:
        m = CONDITIONAL.match(line)
        ours = False
        if m and m[1] in ("ifdef", "ifndef", "if"):
            ours = m[1] != "if" and m[2] in METAL_MACROS
            open_blocks.append([ours, m[1] == "ifdef" if ours else True])
        elif m and open_blocks:
            ours = open_blocks[-1][0]
            if ours and m[1] == "else":
                open_blocks[-1][1] = not open_blocks[-1][1]
            if m[1] == "endif":
                open_blocks.pop()
        out.append("" if ours or not all(live for _, live in open_blocks) else line)
    return out


def flatten(path, include_dirs=()):
    """Return the text of `path` with each of the project's headers inlined once. Includes of Apple's headers remain."""
    seen, out = set(), []

    def add(path):
        real = os.path.realpath(path)
        if real in seen and not path.endswith(".def"):   # .def tables are included once per set of macros
            return
        seen.add(real)
        with open(path) as f:
            lines = remove_host_code(f.read().split("\n"))
        name = os.path.relpath(path)
        out.append(f'#line 1 "{name}"')
        for number, line in enumerate(lines, 1):
            m = INCLUDE.match(line)
            if not m:
                out.append("" if line.strip() == "#pragma once" else line)
                continue
            target = m[1] or m[2]
            found = find_include(target, os.path.dirname(path), include_dirs, bool(m[1]))
            if found:
                add(found)
                out.append(f'#line {number + 1} "{name}"')
            elif target in (*APPLE_HEADERS, *EMPTY_HEADERS) or target.startswith("metal_"):
                out.append(line)
            else:
                raise MslError(f"{path}:{number}:1: error: include '{target}' not found")

    add(path)
    return "\n".join(out) + "\n"


def flatten_all(paths, include_dirs, kernels_of):
    """Return the units of all `paths`. `kernels_of(path)` returns the names of a file's kernels."""
    parts = []
    for path in paths:
        parts.append(f"{UNIT}{os.path.relpath(path)}\n{KERNELS}{' '.join(kernels_of(path))}\n{NO_CONTRACTION}\n")
        parts.append(flatten(path, include_dirs))
    return "".join(parts)


def units(text):
    """Parse the output of flatten_all into (name, kernels, source) for each unit."""
    for part in re.split(f"^{UNIT}", text, flags=re.M)[1:]:
        name, kernels, source = part.split("\n", 2)
        yield name, kernels.removeprefix(KERNELS).split(), source
