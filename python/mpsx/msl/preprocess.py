"""Run a C preprocessor over a .metal file, with empty files in place of Apple's headers."""

import os
import re
import shlex
import tempfile

from . import processes
from .overlay import apply_overlays, overlays_of, with_overlays
from .source import MslError

# Apple's headers. src/metal_stdlib provides their contents when the translated code is compiled.
APPLE_HEADERS = [
    "metal_stdlib", "metal_array", "metal_assert", "metal_atomic", "metal_common", "metal_compute", "metal_config",
    "metal_extended_vector", "metal_geometric", "metal_graphics", "metal_initializer_list", "metal_integer",
    "metal_limits", "metal_logging", "metal_math", "metal_matrix", "metal_numeric", "metal_pack",
    "metal_packed_numeric", "metal_packed_vector", "metal_quadgroup", "metal_raytracing", "metal_relational",
    "metal_simdgroup", "metal_simdgroup_matrix", "metal_texture", "metal_tuple", "metal_type_traits", "metal_types",
    "metal_uniform", "metal_utility",
    "metal_cooperative_tensor", "metal_tensor", "metal_visible_function_table", "metal_command_buffer",
    "metal_imageblocks", "metal_interpolate", "metal_mesh", "metal_tessellation",
]

ENTERED = re.compile(r'^# \d+ "((?:\\.|[^"\\])*)" 1\b', re.M)
# Headers that Metal provides. Files shared with CPU code include them.
EMPTY_HEADERS = ["simd/simd.h", "MetalPerformancePrimitives/MetalPerformancePrimitives.h",
                 "MetalPerformancePrimitives/MPPTensorOpsMatMul2d.h",
                 "MetalPerformancePrimitives/MPPTensorOpsConvolution2d.h"]

# Keep the hints of metal/lib/types.h as macros. src/metal_stdlib defines them as what the C++ compiler supports.
DEFINES = [
    "MPSX_TRANSLATED=1",  # not defined by Apple's compiler
    "__METAL__=1",
    "__METAL_VERSION__=400",
    "__METAL_MACOS__=1",
    "__HAVE_BFLOAT__=1",
    "__HAVE_SIMDGROUP_MATRIX__=1",
    "__HAVE_TENSOR__=1",
    "__HAVE_INT4B_FORMAT_TYPE__=1",
    "__METAL_FAST_MATH__=1",
    "__METAL_MAYBE_FAST_MATH__=1",
    "__METAL_PRECISE_MATH__=0",
    "assert(...)=((void)0)",   # <metal_assert>
    "MPSX_REDUCE(...)=MPSX_REDUCE_LOOP(__VA_ARGS__)",
    "MPSX_VECTORIZE=MPSX_VECTORIZE_LOOP",
    "MPSX_FEW=MPSX_FEW_LOOP",
    "MPSX_UNROLL=MPSX_UNROLL_LOOP",
    "MPSX_ALLOW_RACES(p)=MPSX_ALLOWED_RACES(p)",
]


def write_stubs(folder):
    """Write empty files in place of Apple's headers, because metal_stdlib provides their contents."""
    os.makedirs(folder, exist_ok=True)
    os.symlink(".", os.path.join(folder, "metal"))  # for <metal/metal_stdlib>; more files would take 0.01 s
    for name in (*APPLE_HEADERS, *EMPTY_HEADERS):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w"):
            pass


def preprocess(path, include_dirs=(), defines=(), command=None, overlays=False):
    """Return the preprocessed text and the names of its files. `overlays` applies the host driver's overlays."""
    command = command or os.environ.get("CXX") or "c++"
    with tempfile.TemporaryDirectory(prefix="mpsx-msl-") as stubs:
        write_stubs(stubs)
        args = [*shlex.split(command), "-E", "-x", "c++", "-std=c++17", "-nostdinc", "-undef", "-I", stubs]
        args += [f"-I{d}" for d in include_dirs] + [f"-D{d}" for d in (*DEFINES, *defines)]

        def run(path):
            status, text, errors = processes.run([*args, path])
            if status:
                raise MslError(errors.strip() or f"{shlex.join([*args, path])} failed with {status}")
            return text, [path, *(f for f in included(text) if not f.startswith(stubs) and f != path)]

        text, files = run(path)
        found = overlays_of(files) if overlays else []
        if found:
            wrapper = os.path.join(stubs, "overlays.metal")
            with open(wrapper, "w") as f:
                f.write(with_overlays(path, found))
            text, more = run(wrapper)
            text = apply_overlays(text, path, wrapper)
            files = [path, *(f for f in more[1:] if f != os.path.abspath(path))]
    # Remove the temporary folder's name, to make the text reproducible and usable as a cache key.
    return text.replace(f'"{stubs}/', '"'), files


def included(text):
    """Return the included files, according to the line markers that enter a file. Ignore all other markers, because
    the source may contain a #line directive with any file name."""
    return dict.fromkeys(name for name in ENTERED.findall(text) if not name.startswith("<"))
