"""Translate a .metal file to one or more C++ files, and write the index that combines them into a library."""

import os
import re

from .codegen.cuda import CudaEmitter
from .codegen.simt import SimtEmitter
from .codegen.wide import WideEmitter
from .kernels import collect_kernels
from .lowering import lower
from .passes.tensors import uses_tensors
from .preprocess import preprocess
from .program_scope import read_source
from .source import MslError

KERNELS_PER_SHARD = 100
UNROLL = re.compile(r"^[ \t]*#pragma unroll\b.*$", re.M)
HEADER = re.compile(r"// mpsx-kernels: (\d+) (\w+)\n")


def load(path, include_dirs, defines, preprocessor, root=None, overlays=False):
    """Preprocess and parse a file. Return its Source, its Module, and the names of the files that it includes."""
    text, files = preprocess(path, include_dirs, defines, preprocessor, overlays)
    if root:  # make the text the same in every checkout, so that checkouts can share a compiler cache
        text = text.replace(f'"{os.path.join(os.path.abspath(root), "")}', '"')
    src = read_source(text)
    return src, collect_kernels(src), files


def identifier(path):
    return re.sub(r"\W", "_", os.path.splitext(path)[0])


def translate(path, out, include_dirs=(), defines=(), preprocessor=None, shards=1, name=None, root=None, mode="wide",
              general=None):
    """Write `out`, or stem.0.cpp, … if there are several shards (None: one shard per 100 kernels). Return the paths of
    the outputs and of the inputs.

    The project's own files become one library, so each file gets its own namespace. `general` (the default in mode
    auto) marks a user's file, which becomes a separate library at global scope. As in Metal, its names then overload
    the names in the Metal library, and `::name` finds them."""
    wide, general = mode == "wide", mode == "auto" if general is None else general
    if mode == "cuda":
        # metal/lib/staged_tiles.h, multiply_steps.h, …
        names = ("staged_tiles", "multiply_steps", "multiply_pixels", "multiply_over_pixels", "multiply_tiles",
                 "multiply_cluster", "run_aligned", "vector_products", "store_rows")
        defines = [*defines, *(f"MPSX_{name.upper()}=mpsx::{name}" for name in names)]
    src, module, files = load(path, include_dirs, defines, preprocessor, root, overlays=wide)
    lower(src, module, shared=not wide, general=general)
    if mode == "cuda" and module.constants:
        raise MslError(f"{path}: in mode cuda, only compile_shader supports function constants")
    stem = identifier(name or os.path.basename(path))
    emitter, body = emitter_of(module.unit, mode, general), src.result()
    if mode == "simt":  # with checks, unrolled loops take ten times as long to compile
        body = UNROLL.sub("", body)
    opening, closing, prefix = namespace_of(f"k_{stem}", general)
    first = macros(src, mode, general)
    shards = shards or min(-(-len(module.instances) // KERNELS_PER_SHARD), 4) or 1
    stem_out, ext = os.path.splitext(out)
    outs = [out] if shards == 1 else [f"{stem_out}.{i}{ext}" for i in range(shards)]
    for i, target in enumerate(outs):
        mine = module.instances[i::shards]
        table = f"mpsx_records_{stem}_{i}"
        entries = emitter.entries(mine, module)
        described = emitter.description(mine) if mode == "cuda" else ""
        text = (f"// mpsx-kernels: {len(mine)} {table}\n{described}"
                f'{first}#include "metal_stdlib/msl.h"\n{opening}\n'
                f"MPSX_USER_CODE_BEGIN\n{body}\nMPSX_USER_CODE_END\n"
                f"{entries}{closing}\n{emitter.table(mine, table, prefix)}")
        write_if_changed(target, text)
    return outs, files


def namespace_of(name, general):
    """Return the text that opens and the text that closes a translated source's namespace, and the prefix of its
    names."""
    if general:
        return '#include "metal_stdlib/names.h"', "", ""
    return f"namespace metal {{ namespace {name} {{ namespace {{", "} } }", f"metal::{name}::"


def emitter_of(unit, mode, general):
    if mode == "wide":
        return WideEmitter(unit, general)
    return CudaEmitter(unit, general) if mode == "cuda" else SimtEmitter(unit, general, every=mode == "simt")


def macros(src, mode, general):
    """Return the macros that select the mode in the Metal library."""
    names = [] if mode == "wide" else ["SIMT"]
    names += ["GENERAL"] if general else []
    names += ["CUDA"] if mode == "cuda" else []
    names += ["THREAD_ELEMENTS"] if mode == "cuda" and "thread_elements" in src.texts else []
    names += ["TENSORS"] if mode == "cuda" and uses_tensors(src.text) else []
    return "".join(f"#define MPSX_{name} 1\n" for name in names)


def write_if_changed(path, text):
    """Write a file unless it already has this text, to avoid rebuilding its dependents."""
    try:
        with open(path) as f:
            if f.read() == text:
                return
    except OSError:
        pass
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def write_depfile(path, target, files):
    def escape(p):
        return os.path.abspath(p).replace(" ", "\\ ")
    deps = " \\\n  ".join(escape(f) for f in files)
    with open(path, "w") as f:
        f.write(f"{escape(target)}: \\\n  {deps}\n")


def write_index(out, translated):
    """Write the C++ file that exports mpsx_kernel_table for the given translated files."""
    tables = []
    for path in translated:
        with open(path) as f:
            m = HEADER.match(f.readline())
        if not m:
            raise MslError(f"{path}: not a file that `translate` wrote")
        tables.append((int(m[1]), m[2]))
    check_host_names(translated)
    externs = "".join(f'extern "C" const mpsx_kernel_record {name}[];\n' for count, name in tables if count)
    pointers = "".join(f"    &{name}[{i}],\n" for count, name in tables for i in range(count))
    total = sum(count for count, _ in tables)
    write_if_changed(out, '#include "metal_stdlib/simt_calls.h"\n'
                     f"{externs}static const mpsx_kernel_record* const records[] = {{\n{pointers}    nullptr}};\n"
                     'extern "C" __attribute__((visibility("default"))) const mpsx_kernel_table_t '
                     "mpsx_kernel_table;\n"
                     f"const mpsx_kernel_table_t mpsx_kernel_table = {{MPSX_KERNEL_ABI_VERSION, {total}, records, "
                     "&mpsx_simt, "
                     "MPSX_KERNEL_COMPILER, MPSX_KERNEL_ISA};\n")


def check_host_names(translated):
    """Raise an error if two files export the same kernel."""
    owner = {}
    for path in translated:
        with open(path) as f:
            text = f.read()
        for name in re.findall(r'^ *(?:const .*\{\n +)?\{"([^"]+)", MPSX_UNIT_', text, re.M):
            if name in owner:
                raise MslError(f"kernel '{name}' is defined by both {owner[name]} and {path}")
            owner[name] = path
