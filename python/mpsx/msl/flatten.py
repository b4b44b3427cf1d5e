"""Metal sources without includes of our own: what MTLDevice.newLibraryWithSource gets where there is no metallib.

The file has a unit for each kernel file, and each unit is a program of its own: kernel files may use the same names,
and the driver (src/driver/metal/source_units.h) compiles only what is asked for. A unit begins with

    //mpsx:unit metal/norm/softmax.metal
    //mpsx:kernels softmax_f32 softmax_f16 …
    #pragma METAL fp contract(off)

Metal fuses a product and a sum that it is added to, unless it is told not to; MTLCompileOptions cannot tell it. Kernels
say fma() where they want it, and rely on what they write elsewhere: of `a - b * c`, `1 - w * w` or the ends of an
interpolation one rounding less is another number, and on CPUs (compiler.py) nothing is fused either.
"""

import os
import re

from .preprocess import APPLE_HEADERS
from .source import MslError

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)[^\n]*$')
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b[ \t]*(\w*)")
UNIT, KERNELS = "//mpsx:unit ", "//mpsx:kernels "
NO_CONTRACTION = "#pragma METAL fp contract(off)"
METAL_MACROS = {"__METAL__", "__METAL_VERSION__"}


def find(name, here, include_dirs, quoted):
    for d in ([here] if quoted else []) + list(include_dirs):
        path = os.path.normpath(os.path.join(d, name))
        if os.path.isfile(path):
            return path
    return None


def without_host_parts(lines):
    """Blanks what stands between `#ifdef __METAL__` … `#else` … `#endif` for C++ alone, and those lines themselves."""
    open_blocks, out = [], []  # of each open conditional: is it about Metal, and is this part of it for Metal
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
    """The text of `path`: our own headers inlined once each, Apple's left as includes."""
    seen, out = set(), []

    def add(path):
        real = os.path.realpath(path)
        if real in seen and not path.endswith(".def"):   # .def tables are included once per macro set
            return
        seen.add(real)
        with open(path) as f:
            lines = without_host_parts(f.read().split("\n"))
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

    add(path)
    return "\n".join(out) + "\n"


def flatten_all(paths, include_dirs, kernels_of):
    """The units of all `paths`; `kernels_of(path)` names the kernels of one."""
    parts = []
    for path in paths:
        parts.append(f"{UNIT}{os.path.relpath(path)}\n{KERNELS}{' '.join(kernels_of(path))}\n{NO_CONTRACTION}\n")
        parts.append(flatten(path, include_dirs))
    return "".join(parts)


def units(text):
    """The units that flatten_all wrote, as (name, kernels, source) of each unit."""
    for part in re.split(f"^{UNIT}", text, flags=re.M)[1:]:
        name, kernels, source = part.split("\n", 2)
        yield name, kernels.removeprefix(KERNELS).split(), source
