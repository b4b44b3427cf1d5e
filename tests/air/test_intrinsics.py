"""mpsx.air.intrinsics: every definition is valid IR, and it only calls functions that the runtime defines with the same
types."""

import re
import subprocess

import pytest
from air_modules import clang, text_of

from mpsx.air import intrinsics, ir, lower
from mpsx.air.ir import AirError, Function
from mpsx.msl import compiler
from mpsx.shader import toolchain

FLOATS = {"f32": "float", "f16": "half", "bf16": "bfloat"}
INTEGERS = ("i8", "i16", "i32", "i64")


def declared(name, result, *types):
    return Function(name, result, [(t, t) for t in types])


def arity(base):
    if base in intrinsics.TERNARY or base.removeprefix("fast_") in intrinsics.TERNARY:
        return 3
    return 2 if base.removeprefix("fast_") in (*intrinsics.BINARY, "divide") else 1


def floats():
    for base in sorted(intrinsics.FLOAT):
        for suffix, kind in FLOATS.items():
            short = base.removeprefix("fast_")
            if short == "ldexp":
                yield declared(f"air.{base}.{suffix}", kind, kind, "i32")
            elif short == "ilogb":
                yield declared(f"air.{base}.{suffix}", "i32", kind)
            elif short in intrinsics.TESTS:
                yield declared(f"air.{base}.{suffix}", "i1", kind)
            else:
                vector = f"<3 x {kind}>"
                yield declared(f"air.{base}.v3{suffix}", vector, *[vector] * arity(base))


def integers():
    counts = dict.fromkeys("abs clz ctz popcount reverse_bits".split(), 1)
    counts |= dict.fromkeys("clamp max3 min3 median3 mad_hi mad_sat".split(), 3)
    for base in sorted(intrinsics.INTEGER):
        for kind in INTEGERS:
            for sign in ("s", "u"):
                vector = f"<2 x {kind}>"
                yield declared(f"air.{base}.{sign}.v2{kind}", vector, *[vector] * counts.get(base, 2))


def lanes():
    for base in sorted(intrinsics.LANES | intrinsics.LANE_BITS):
        extra = ["i16", "i16"] if "fill" in base else ["i16"] if "shuffle" in base or base.endswith("broadcast") else []
        kinds = [f"{s}.{k}" for s in ("s", "u") for k in INTEGERS]
        kinds += [] if base in intrinsics.LANE_BITS else FLOATS
        for kind in kinds:
            t = FLOATS.get(kind, kind[2:])
            yield declared(f"air.{base}.{kind}", t, t, *([t] if "fill" in base else []), *extra)
    for base in sorted(intrinsics.VOTES):
        result = "i64" if "ballot" in base or "mask" in base else "i1"
        yield declared(f"air.{base}", result, *(["i1"] if base.endswith(("any", "all", "ballot")) else []))


def conversions():
    kinds = [("f", s, t) for s, t in FLOATS.items()] + [(s, k, k) for s in ("s", "u") for k in INTEGERS]
    kinds.append(("u", "i1", "i1"))
    for a, name, kind in kinds:
        for b, other, source in kinds:
            yield declared(f"air.convert.{a}.{name}.{b}.{other}", kind, source)


def others():
    for kind, suffix in (("i32", "s.i32"), ("i64", "u.i64"), ("float", "f32")):
        for base in intrinsics.FETCHES:
            if kind != "float" or base not in ("and", "or", "xor"):
                yield declared(f"air.atomic.global.{base}.{suffix}", kind, "ptr", kind, "i32", "i32", "i1")
        plain = suffix.split(".")[-1]
        yield declared(f"air.atomic.local.load.{plain}", kind, "ptr", "i32", "i32", "i1")
        yield declared(f"air.atomic.local.store.{plain}", "void", "ptr", kind, "i32", "i32", "i1")
        yield declared(f"air.atomic.global.cmpxchg.weak.{plain}", kind, "ptr", "ptr", kind, "i32", "i32", "i32", "i1")
    for suffix, kind in FLOATS.items():
        yield declared(f"air.dot.v4{suffix}", kind, f"<4 x {kind}>", f"<4 x {kind}>")
        for base in ("sincos", "modf", "frexp"):
            yield declared(f"air.{base}.v2{suffix}", f"<2 x {kind}>", f"<2 x {kind}>", "ptr")
        matrix, pair = f"<64 x {kind}>", "<2 x i64>"
        head = "air.simdgroup_matrix_8x8_"
        yield declared(f"{head}load.v64{suffix}.p1{suffix}", matrix, "ptr", "i64", pair, "i1")
        yield declared(f"{head}load.v64{suffix}.p3{suffix}", matrix, "ptr", pair, pair, pair)
        yield declared(f"{head}store.v64{suffix}.p1{suffix}", "void", matrix, "ptr", "i64", pair, "i1")
        yield declared(f"{head}init_diag.v64{suffix}", matrix, kind)
        yield declared(f"{head}init_filled.v64{suffix}", matrix, kind)
        for a, first in FLOATS.items():
            name = f"{head}multiply_accumulate.v64{suffix}.v64{a}.v64f16.v64{suffix}"
            yield declared(name, matrix, f"<64 x {first}>", "<64 x half>", matrix)
    yield declared("air.any.v3i1", "i1", "<3 x i1>")
    yield declared("air.all.v2i1", "i1", "<2 x i1>")
    yield declared("air.wg.barrier", "void", "i32", "i32")
    yield declared("air.simdgroup.barrier", "void", "i32", "i32")
    yield declared("air.atomic.fence", "void", "i32", "i32", "i32")
    yield declared("air.get_simdgroup_size.i16", "i16")
    yield declared("air.is_uniform.i32", "i1", "i32")
    yield declared("air.normalize_function_constant_predicate.i8", "i8", "i8")


def test_every_definition(tmp_path):
    flags = compiler.find_compiler().clang_flags("baseline", "auto", general=True)
    flags += ["-DMPSX_SIMT=1", "-DMPSX_GENERAL=1", "-w", "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes"]
    source = ["-x", "c++", str(toolchain.METAL_STDLIB / "air" / "runtime.h"), "-o", "-"]
    runtime = subprocess.run([*clang(), *flags, *source], capture_output=True, text=True, check=True).stdout
    defined = {name: re.sub(r" (?:noundef|zeroext|signext|%\S+?)(?=[ ,)]|$)", "", f"{result}({types})")
               for result, name, types in re.findall(r"^define [\w ]*?(\w+) @(mpsx_air_\w+)\((.*?)\) #", runtime, re.M)}
    text, called = [], {}
    for f in (*floats(), *integers(), *lanes(), *conversions(), *others()):
        definition, declarations = intrinsics.definition(f)
        text.append(definition)
        called |= dict(re.findall(r"declare (\S+ @\w+\(.*\)) (convergent)", "\n".join(declarations)))
    missing = []
    for declaration in called:
        result, name, types = re.match(r"(\S+) @(\w+)\((.*)\)", declaration).groups()
        if defined.get(name) != f"{result}({types})":
            missing.append((declaration, defined.get(name)))
    assert not missing
    text += [f"declare {declaration}" for declaration in called] + ["attributes #0 = { nounwind }"]
    (tmp_path / "all.ll").write_text("\n".join(text))
    command = [*clang(), "-x", "ir", "-S", "-emit-llvm", "-O0", "-w", str(tmp_path / "all.ll"), "-o", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["sample_texture_2d.v4f32", "max.f32", "sin.i32", "atomic.global.frob.i32",
                                  "simdgroup_matrix_8x8_transpose.v64f32", "simd_and.f32"])  # fmt: skip
def test_unknown_intrinsics(name):
    kind = "float" if name.endswith("f32") else "i32"
    with pytest.raises(AirError, match=re.escape(f"intrinsic air.{name}")):
        intrinsics.definition(declared(f"air.{name}", kind, kind))


def test_declarations_that_differ_in_address_spaces():
    """LLVM declares an intrinsic once for each combination of address spaces. Lowering merges these declarations."""
    text = text_of("axpy") + "".join(
        f"declare void @llvm.memcpy.p0.p{space}.i64(ptr, ptr addrspace({space}) captures(none), i64, i1)\n"
        for space in (1, 2)
    )
    lowered = lower.Lowering(ir.parse(text), "axpy", set()).run("axpy")
    assert lowered.text.count("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n") == 1
