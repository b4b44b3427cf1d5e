"""Kernels that instantiate PyTorch's templates: elementwise operators (c10/metal/indexing.h), special functions,
sorting, and attention. The torch wheel contains the headers. Most of the elementwise functors below call one function
of c10/metal/special_math.h."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

FLOATS = ("float", "half", "bfloat")
INTEGERS = ("int", "uchar", "long")
NAMES = ("c10/metal", "ATen/native/mps/kernels")
START = "#include <c10/metal/indexing.h>\n#include <c10/metal/special_math.h>\nusing namespace metal;\n"
SORT = "#include <c10/metal/utils.h>\nusing namespace metal;\n#include <ATen/native/mps/kernels/SortTopK.h>"
INSTANTIATION = re.compile(r"\s*(?:INSTANTIATE|REGISTER|instantiate)\w*\(")

# Maps the name of a unary operator to the float expression that its functor returns for x.
PRECISE = "exp sin cos tan sinh cosh tanh asin acos atan log log2 log10 sqrt".split()
SPECIAL = """erf erfc erfinv sinc i0 i0e i1 i1e bessel_j0_forward bessel_j1_forward bessel_y0_forward
    bessel_y1_forward modified_bessel_i0_forward modified_bessel_k0_forward modified_bessel_k1_forward
    scaled_modified_bessel_k0_forward spherical_bessel_j0 erfcx entr""".split()
UNARY = {name: f"precise::{name}(x)" for name in PRECISE} | {name: f"c10::metal::{name}(x)" for name in SPECIAL}
UNARY |= {
    "lgamma": "c10::metal::log_gamma(float(x))", "digamma": "c10::metal::digamma(float(x))",
    "trigamma": "c10::metal::trigamma(float(x))", "rsqrt": "1 / precise::sqrt(x)", "reciprocal": "1.0f / float(x)",
    "sigmoid": "1.0f / (1.0f + precise::exp(-float(x)))",
}  # fmt: skip

# Operators whose results depend on the result types of Metal's overloads for half and bfloat.
SMALL = [("i0", "bfloat"), ("bessel_y0_forward", "bfloat"), ("spherical_bessel_j0", "bfloat"),
         ("modified_bessel_k0_forward", "bfloat"), ("bessel_j1_forward", "half"),
         ("scaled_modified_bessel_k0_forward", "half")]  # fmt: skip
# Maps the name of a binary operator to the expressions for floats and for integers. "" means that there is none.
POLYNOMIALS = [f"{kind}_{p}" for kind in ("chebyshev_polynomial", "shifted_chebyshev_polynomial") for p in "tuvw"]
POLYNOMIALS += ["hermite_polynomial_h", "hermite_polynomial_he"]
BINARY = {
    "add": ("a + b", "a + b"), "sub": ("a - b", "a - b"), "fmax": ("metal::fmax(a, b)", ""),
    "fmin": ("metal::fmin(a, b)", ""), "maximum": ("c10::metal::max(a, b)", "c10::metal::max(a, b)"),
    "minimum": ("c10::metal::min(a, b)", "c10::metal::min(a, b)"), "nextafter": ("metal::nextafter(a, b)", ""),
    "copysign": ("metal::copysign(a, b)", ""), "atan2": ("precise::atan2(float(a), float(b))", ""),
    "hypot": ("precise::sqrt(float(a) * a + float(b) * b)", ""), "zeta": ("c10::metal::zeta(a, b)", ""),
    "logaddexp": ("c10::metal::logaddexp(a, b)", ""), "logaddexp2": ("c10::metal::logaddexp2(a, b)", ""),
    "xlogy": ("c10::metal::xlogy(a, b)", ""), "xlog1py": ("c10::metal::xlog1py(a, b)", ""),
    "bitwise_and": ("", "a & b"), "bitwise_or": ("", "a | b"), "bitwise_xor": ("", "a ^ b"),
    "bitwise_left_shift": ("", "a << b"), "bitwise_right_shift": ("", "a >> b"), "div_trunc": ("", "a / b"),
}  # fmt: skip
BINARY |= {name: (f"c10::metal::{name}_forward(a, b)", "") for name in POLYNOMIALS}
# Operators whose functors compute half in float.
WIDE = {
    "mul": ("c10::metal::mul(a, b)", "c10::metal::mul(a, b)"), "div_true": ("c10::metal::div(a, b)", ""),
    "remainder": ("c10::metal::remainder(a, b)", "c10::metal::remainder(a, b)"),
    "fmod": ("c10::metal::fmod(a, b)", "c10::metal::fmod(a, b)"), "igamma": ("c10::metal::igamma(a, b)", ""),
    "igammac": ("c10::metal::igammac(a, b)", ""),
}  # fmt: skip
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
ALPHA = {"add_alpha": "a + c10::metal::mul(alpha, b)", "sub_alpha": "a - c10::metal::mul(alpha, b)",
         "lerp_alpha": "a + c10::metal::mul(alpha, b - a)"}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A source that defines kernels with the same host names as PyTorch's kernels."""

    source: str


def trimmed_headers(include: Path, folder: Path) -> str:
    """Copy the wheel's Metal headers to a folder without the thousands of explicit instantiations in them."""
    for name in NAMES:
        shutil.copytree(include / name, folder / name, dirs_exist_ok=True)
    for path in folder.rglob("*.h"):
        lines, continued = [], False
        for line in path.read_text().splitlines():
            if continued or not INSTANTIATION.match(line):
                lines.append(line)
            continued = line.endswith("\\")
        path.write_text("\n".join(lines) + "\n")
    return str(folder)


def functor(name: str, arguments: str, floats: str, integers: str = "") -> str:
    """Return the source of a functor. If `integers` is empty, integers are converted to float first."""
    parameters = ", ".join(f"T {a}" for a in arguments.split())
    lines = [f"struct {name}_functor {{"]
    if floats:
        lines += ["  template <class T, enable_if_t<is_floating_point_v<T>, bool> = true>",
                  f"  T operator()({parameters}) {{ return static_cast<T>({floats}); }}"]  # fmt: skip
    lines += ["  template <class T, enable_if_t<is_integral_v<T>, bool> = true>"]
    if integers:
        lines += [f"  T operator()({parameters}) {{ return static_cast<T>({integers}); }}"]
    else:
        values = ", ".join(f"float({a})" for a in arguments.split())
        lines += [f"  float operator()({parameters}) {{ return (*this)({values}); }}"]
    return "\n".join([*lines, "};\n"])


def unary() -> Family:
    """Instantiate each operator for one of the float types in turn, and some operators for an integer type as well."""
    source = START + "".join(functor(name, "x", result) for name, result in UNARY.items())
    rows = {(name, FLOATS[k % 3]) for k, name in enumerate(UNARY)} | set(SMALL)
    source += "".join(f"REGISTER_UNARY_OP({name}, {t}, {t});\n" for name, t in sorted(rows))
    for k, name in enumerate(("exp", "erf", "lgamma", "sigmoid", "i0", "sqrt")):
        source += f"REGISTER_UNARY_OP({name}, {INTEGERS[k % 3]}, float);\n"
    return Family(source)


def binary() -> Family:
    """Instantiate each operator for one of the float types and one of the integer types in turn."""
    source, k = START, 0
    for register, table in (("REGISTER_BINARY_OP", BINARY), ("REGISTER_OPMATH_BINARY_OP", WIDE)):
        for name, (floats, integers) in table.items():
            source += functor(name, "a b", floats, integers)
            if floats:
                source += f"{register}({name}, {FLOATS[k % 3]}, {FLOATS[k % 3]});\n"
            if integers:
                source += f"REGISTER_BINARY_OP({name}, {INTEGERS[k % 3]}, {INTEGERS[k % 3]});\n"
            k += 1
    for name, sign in COMPARISONS.items():
        source += f"DEFINE_BINARY_COMPARISON_FUNCTOR({name}, {sign});\n"
        source += f"REGISTER_BINARY_OP({name}, {(FLOATS + INTEGERS)[k % 6]}, bool);\n"
        k += 1
    return Family(source)


def alpha() -> Family:
    source = START
    for k, (name, result) in enumerate(ALPHA.items()):
        source += functor(name, "a b alpha", result, result)
        for t in (FLOATS[k], INTEGERS[k]):
            source += f"REGISTER_BINARY_ALPHA_OP({name}, {t}, {t}, {t});\n"
    return Family(source)


def sort() -> Family:
    lines = [SORT]
    for t, threads in (("float", 128), ("half", 32), ("bfloat", 64), ("int", 256), ("char", 32), ("long", 64)):
        lines += [f'INSTANTIATE_SORT_VARIANT({t}, {threads}, 4, false, "")', f"INSTANTIATE_MERGE({t}, {threads}, 4)",
                  f'INSTANTIATE_SORT_VARIANT({t}, {threads}, 4, true, "_stable")',
                  f"INSTANTIATE_TOPK_BLOCK_AND_MERGE({t}, {threads}, 4)"]  # fmt: skip
    lines += ["INSTANTIATE_FKEY(float, uint, 256, 4)", "INSTANTIATE_FKEY(half, ushort, 256, 4)"]
    return Family("\n".join(lines) + "\n")


def radix() -> Family:
    lines = [SORT]
    for t, threads, count, bits in (("float", 512, 4, 8), ("uchar", 512, 8, 4), ("half", 1024, 4, 8)):
        lines += [f"INSTANTIATE_RADIX({t}, {threads}, {count}, {bits})",
                  f"INSTANTIATE_TOPK_RADIX({t}, {threads}, {count}, {bits})"]  # fmt: skip
    return Family("\n".join(lines) + "\n")


def attention() -> Family:
    lines = ["#include <metal_stdlib>", "#include <c10/metal/common.h>", "using namespace metal;",
             "#include <ATen/native/mps/kernels/DecodeAttention.h>"]  # fmt: skip
    for t, size in (("float", 64), ("half", 128), ("bfloat", 96)):
        lines += [f"INSTANTIATE_SDPA_VECTOR({t}, {size}, {size})",
                  f"INSTANTIATE_SDPA_VECTOR_2PASS_1({t}, {size}, {size})",
                  f"INSTANTIATE_SDPA_VECTOR_AGGREGATION({t}, {size})"]  # fmt: skip
    return Family("\n".join(lines) + "\n")


def prefill() -> Family:
    """Attention kernels that use simdgroup_matrix."""
    lines = ["#include <metal_stdlib>", "#include <metal_simdgroup_matrix>", "#include <c10/metal/utils.h>",
             "using namespace metal;", "#include <ATen/native/mps/kernels/PrefillAttention.h>"]  # fmt: skip
    for name, t, size in (("float32", "float", 32), ("float16", "half", 64), ("bfloat16", "bfloat", 80)):
        for masked, causal, mask, m in ((0, 0, name, t), (0, 1, name, t), (1, 0, "bool_", "bool"), (1, 1, name, t)):
            lines.append(f"instantiate_attn({name}, {t}, 32, 32, {size}, 4, 1, {masked}, {causal}, {mask}, {m})")
    return Family("\n".join(lines) + "\n")


FAMILIES = {f.__name__: f for f in (unary, binary, alpha, sort, radix, attention, prefill)}
