"""Define AIR's intrinsics as calls to the runtime, src/metal_stdlib/air.

AIR encodes types in names, as in air.max.s.i32 and air.convert.f.v4f32.f.v4f16. The definition of an intrinsic passes
each component to a scalar function of the runtime, so that no vectors cross C++'s calling convention."""

from __future__ import annotations

import re

from .ir import AirError, Function

UNARY = """acos acosh asin asinh atan atanh ceil cos cosh cospi exp exp10 exp2 fabs floor fract log log10 log2 rint
    round rsqrt saturate sign sin sinh sinpi sqrt tan tanh tanpi trunc""".split()
BINARY = "atan2 copysign fdim fmax fmin fmod nextafter pow powr step".split()
TERNARY = "fma mix smoothstep fmax3 fmin3 fmedian3 clamp".split()
TESTS = "isfinite isinf isnan isnormal signbit".split()
FLOAT = {*UNARY, *BINARY, *TERNARY, *TESTS, "divide", "ldexp", "ilogb"}
FLOAT |= {f"fast_{name}" for name in FLOAT}
FLOAT -= {"divide", "fast_ldexp", "fast_ilogb"}
INTEGER = set("""abs clz ctz popcount reverse_bits max min abs_diff add_sat sub_sat hadd rhadd mul_hi rotate clamp max3
    min3 median3 mad_hi mad_sat""".split())
LANES = {f"{group}_{name}" for group in ("simd", "quad") for name in """sum product max min prefix_inclusive_sum
    prefix_inclusive_product prefix_exclusive_sum prefix_exclusive_product broadcast_first broadcast shuffle shuffle_xor
    shuffle_up shuffle_down shuffle_rotate_up shuffle_rotate_down shuffle_and_fill_up shuffle_and_fill_down""".split()}
LANE_BITS = {f"{group}_{name}" for group in ("simd", "quad") for name in "and or xor".split()}
VOTES = {f"{group}_{name}" for group in ("simd", "quad")
         for name in "any all is_first ballot active_threads_mask".split()}  # fmt: skip
FETCHES = "add sub min max and or xor xchg".split()
SYNCHRONIZING = LANES | LANE_BITS | VOTES | {"wg.barrier", "simdgroup.barrier"}
FLOAT_TAGS = {"float": "f32", "half": "f16", "bfloat": "bf16"}
VECTOR = re.compile(r"^<(\d+) x (.*)>$")
TYPE_TAG = re.compile(r"^(?:[suf]|p\d+\w*|(?:v\d+)?(?:i\d+|f\d+|bf\d+))$")
MATRIX = "simdgroup_matrix_8x8_"


def base_name(name: str) -> str:
    """Return an intrinsic's name without `air.` and types. For air.max.s.i32, return `max`."""
    return ".".join(part for part in name.split(".")[1:] if not TYPE_TAG.match(part))


def synchronizes(name: str) -> bool:
    """Return whether an intrinsic makes lanes or threads wait for each other."""
    base = base_name(name)
    return base in SYNCHRONIZING or base.startswith(MATRIX)


def definition(f: Function) -> tuple[str, set[str]]:
    """Return the definition of a declared intrinsic, and the declarations of the functions it calls. Raise AirError for
    an unknown intrinsic."""
    base = base_name(f.name)
    types = [t for t, _ in f.parameters]
    thunk = Thunk(f.name, f.result, types)
    signs = [part for part in f.name.split(".") if part in ("s", "u", "f")]
    sign = signs[0] if signs else "u"
    if base in SPECIAL:
        SPECIAL[base](thunk, types)
    elif base == "convert":
        thunk.components("convert", [tag(f.result, signs[0]), tag(types[0], signs[1])], signs[0], signs[1])
    elif base.startswith("atomic."):
        _atomic(thunk, base, types, sign)
    elif base.startswith(MATRIX):
        _matrix(thunk, base.removeprefix(MATRIX), types)
    elif base in VOTES:
        thunk.components(base, [], "u", "u")
    elif _is_defined(base, types):
        if base in ("clz", "ctz"):
            thunk.count = 1
        thunk.components(base, [tag(types[0], sign)], sign, sign)
    else:
        raise AirError(f"intrinsic {f.name}")
    return thunk.text(), thunk.declarations


def _is_defined(base: str, types: list[str]) -> bool:
    if not types:
        return False
    scalar = element(types[0])
    if scalar in FLOAT_TAGS:
        return base in FLOAT or base in LANES
    return scalar in ("i8", "i16", "i32", "i64") and (base in INTEGER or base in LANES or base in LANE_BITS)


def element(kind: str) -> str:
    """Return the component type of a vector type, or the type itself."""
    found = VECTOR.match(kind)
    return found[2] if found else kind


def length(kind: str) -> int:
    """Return the number of components of a vector type, or 1."""
    found = VECTOR.match(kind)
    return int(found[1]) if found else 1


def tag(kind: str, sign: str) -> str:
    """Return the tag that represents a type in the names of runtime functions."""
    scalar = element(kind)
    if scalar in FLOAT_TAGS:
        return FLOAT_TAGS[scalar]
    return f"{'s' if sign == 's' and scalar != 'i1' else 'u'}{scalar[1:]}"


def passed(scalar: str) -> str:
    """Return the type used to pass a scalar to the runtime."""
    return "i32" if scalar in ("i1", "i8", "i16") else scalar


class Thunk:
    """Builds the definition of an intrinsic."""

    def __init__(self, name: str, result: str, types: list[str]) -> None:
        self.name, self.result, self.types = name, result, types
        self.count = len(types)  # number of parameters to pass on
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.temporaries = 0

    def new(self, instruction: str) -> str:
        """Append an instruction and return the name of its value."""
        self.temporaries += 1
        name = f"%t{self.temporaries}"
        self.lines.append(f"{name} = {instruction}")
        return name

    def widen(self, scalar: str, value: str, sign: str) -> str:
        """Convert a scalar to the type used to pass it to the runtime."""
        if passed(scalar) == scalar:
            return value
        return self.new(f"{'sext' if sign == 's' and scalar != 'i1' else 'zext'} {scalar} {value} to i32")

    def narrow(self, scalar: str, value: str) -> str:
        """Convert a scalar from the type that the runtime returns to AIR's type."""
        return value if passed(scalar) == scalar else self.new(f"trunc i32 {value} to {scalar}")

    def call(self, symbol: str, result: str, arguments: list[tuple[str, str]]) -> str:
        """Call a function of the runtime. Return the name of the result."""
        self.declarations.add(f"declare {result} @{symbol}({', '.join(t for t, _ in arguments)}) convergent")
        text = f"call {result} @{symbol}({', '.join(f'{t} {v}' for t, v in arguments)})"
        if result != "void":
            return self.new(text)
        self.lines.append(text)
        return ""

    def component(self, number: int, i: int) -> tuple[str, str]:
        """Return the type and value of component i of a parameter. A scalar has only one component."""
        kind, value = self.types[number], f"%a{number}"
        if not VECTOR.match(kind):
            return kind, value
        return element(kind), self.new(f"extractelement {kind} {value}, i32 {i}")

    def components(self, base: str, tags: list[str], result_sign: str, sign: str) -> None:
        """Call a scalar function on each component of the parameters, and return the results."""
        symbol, whole = "_".join(["mpsx_air", base, *tags]), "poison"
        scalar = element(self.result)
        for i in range(length(self.result)):
            parts = [self.component(number, i) for number in range(self.count)]
            arguments = [(passed(t), self.widen(t, v, sign)) for t, v in parts]
            value = self.narrow(scalar, self.call(symbol, passed(scalar), arguments))
            if scalar == self.result:
                whole = value
            else:
                whole = self.new(f"insertelement {self.result} {whole}, {scalar} {value}, i32 {i}")
        self.lines.append(f"ret {self.result} {whole}")

    def text(self) -> str:
        """Return the definition."""
        parameters = ", ".join(f"{t} %a{i}" for i, t in enumerate(self.types))
        body = "\n  ".join(self.lines)
        return f"define internal {self.result} @{self.name}({parameters}) #0 {{\n  {body}\n}}\n"


def _barrier(symbol: str) -> object:
    def define(thunk: Thunk, types: list[str]) -> None:
        thunk.call(symbol, "void", [("i32", "%a0")])
        thunk.lines.append("ret void")

    return define


def _reduce(operation: str) -> object:
    def define(thunk: Thunk, types: list[str]) -> None:
        value = "%a0" if types[0] == "i1" else ""
        for i in range(length(types[0]) if not value else 0):
            bit = thunk.component(0, i)[1]
            value = thunk.new(f"{operation} i1 {value}, {bit}") if value else bit
        thunk.lines.append(f"ret i1 {value}")

    return define


def _dot(thunk: Thunk, types: list[str]) -> None:
    scalar = element(types[0])
    value = {"float": "-0.0", "half": "0xH8000", "bfloat": "0xR8000"}[scalar]  # -0 + x is x
    for i in range(length(types[0])):
        arguments = [value, *(thunk.component(k, i)[1] for k in range(2))]
        value = thunk.call(f"mpsx_air_dot_product_{tag(scalar, 'f')}", scalar, [(scalar, a) for a in arguments])
    thunk.lines.append(f"ret {scalar} {value}")


def _two_results(thunk: Thunk, types: list[str]) -> None:
    """Define sincos, modf, and frexp, which store a second result in memory."""
    base = base_name(thunk.name).removeprefix("fast_")
    scalar, whole = element(types[0]), "poison"
    second = "i32" if base == "frexp" else scalar
    for i in range(length(types[0])):
        value = thunk.component(0, i)[1]
        target = thunk.new(f"getelementptr {second}, ptr %a1, i64 {i}")
        value = thunk.call(f"mpsx_air_{base}_{tag(scalar, 'f')}", scalar, [(scalar, value), ("ptr", target)])
        vector = scalar != types[0]
        whole = thunk.new(f"insertelement {types[0]} {whole}, {scalar} {value}, i32 {i}") if vector else value
    thunk.lines.append(f"ret {thunk.result} {whole}")


def _constant(value: str) -> object:
    def define(thunk: Thunk, types: list[str]) -> None:
        thunk.lines.append(f"ret {thunk.result} {value}")

    return define


def _predicate(thunk: Thunk, types: list[str]) -> None:
    value = thunk.new(f"icmp ne {types[0]} %a0, 0")
    value = thunk.new(f"zext i1 {value} to {thunk.result}")
    thunk.lines.append(f"ret {thunk.result} {value}")


SPECIAL = {
    "wg.barrier": _barrier("mpsx_air_wg_barrier"),
    "simdgroup.barrier": _barrier("mpsx_air_simdgroup_barrier"),
    "any": _reduce("or"), "all": _reduce("and"), "dot": _dot, "fast_dot": _dot,
    "sincos": _two_results, "fast_sincos": _two_results, "modf": _two_results, "frexp": _two_results,
    "get_simdgroup_size": _constant("32"),
    "is_uniform": _constant("true"),
    "normalize_function_constant_predicate": _predicate,
}  # fmt: skip


def _atomic(thunk: Thunk, base: str, types: list[str], sign: str) -> None:
    """Define an atomic operation. The parameters are a pointer, operands, memory orders, a scope, and a flag."""
    operation = base.removeprefix("atomic.").removeprefix("global.").removeprefix("local.")
    if operation == "fence":
        thunk.call("mpsx_air_atomic_fence", "void", [])
        thunk.lines.append("ret void")
        return
    counts = {"load": 0, "store": 1, "cmpxchg.weak": 2} | dict.fromkeys(FETCHES, 1)
    if operation not in counts:
        raise AirError(f"intrinsic {thunk.name}")
    operands = list(zip(types, [f"%a{i}" for i in range(len(types))], strict=True))[: 1 + counts[operation]]
    scalar = thunk.result if thunk.result != "void" else types[1]
    if scalar not in ("i32", "i64", "float"):
        raise AirError(f"intrinsic {thunk.name}")
    symbol = f"mpsx_air_atomic_{operation.replace('.', '_')}_{tag(scalar, sign)}"
    value = thunk.call(symbol, "void" if operation == "store" else scalar, operands)
    thunk.lines.append("ret void" if thunk.result == "void" else f"ret {scalar} {value}")


def _matrix(thunk: Thunk, operation: str, types: list[str]) -> None:
    """Define a simdgroup_matrix operation. A matrix is a vector of 64 elements. A lane holds the first two."""
    result = thunk.result
    if operation == "init_filled":
        vector = thunk.new(f"insertelement {result} zeroinitializer, {types[0]} %a0, i32 0")
        vector = thunk.new(f"insertelement {result} {vector}, {types[0]} %a0, i32 1")
        thunk.lines.append(f"ret {result} {vector}")
    elif operation == "init_diag":
        target = _slot(thunk, result)
        thunk.call(f"mpsx_air_matrix_diagonal_{tag(result, 'f')}", "void", [("ptr", target), (types[0], "%a0")])
        _return_slot(thunk, result, target)
    elif operation == "load":
        target = _slot(thunk, result)
        thunk.call(f"mpsx_air_matrix_load_{tag(result, 'f')}", "void",
                   [("ptr", target), ("ptr", "%a0"), *_strides(thunk, types, 1)])  # fmt: skip
        _return_slot(thunk, result, target)
    elif operation == "store":
        source = _spill(thunk, 0)
        thunk.call(f"mpsx_air_matrix_store_{tag(types[0], 'f')}", "void",
                   [("ptr", source), ("ptr", "%a1"), *_strides(thunk, types, 2)])  # fmt: skip
        thunk.lines.append("ret void")
    elif operation == "multiply_accumulate":
        target = _slot(thunk, result)
        a, b, c = (_spill(thunk, i) for i in range(3))
        symbol = "_".join(["mpsx_air_matrix_multiply_accumulate", *(tag(t, "f") for t in (result, *types[:2]))])
        if types[2] != result:
            raise AirError(f"intrinsic {thunk.name}")
        thunk.call(symbol, "void", [("ptr", value) for value in (target, a, b, c)])
        _return_slot(thunk, result, target)
    else:
        raise AirError(f"intrinsic {thunk.name}")


def _slot(thunk: Thunk, matrix: str) -> str:
    return thunk.new(f"alloca [2 x {element(matrix)}], align 8")


def _spill(thunk: Thunk, number: int) -> str:
    """Store a lane's two elements of a matrix parameter in memory, and return their address."""
    matrix = thunk.types[number]
    slot = _slot(thunk, matrix)
    for i in range(2):
        scalar, value = thunk.component(number, i)
        at = thunk.new(f"getelementptr {scalar}, ptr {slot}, i64 {i}")
        thunk.lines.append(f"store {scalar} {value}, ptr {at}")
    return slot


def _return_slot(thunk: Thunk, matrix: str, slot: str) -> None:
    scalar, vector = element(matrix), "zeroinitializer"
    for i in range(2):
        at = thunk.new(f"getelementptr {scalar}, ptr {slot}, i64 {i}")
        value = thunk.new(f"load {scalar}, ptr {at}")
        vector = thunk.new(f"insertelement {matrix} {vector}, {scalar} {value}, i32 {i}")
    thunk.lines.append(f"ret {matrix} {vector}")


def _strides(thunk: Thunk, types: list[str], first: int) -> list[tuple[str, str]]:
    """For a load or store, return the first element's offset, the column stride, and the row stride.

    AIR passes either (elements per row, origin, whether to transpose) or (sizes, strides, origin)."""
    pair = "<2 x i64>"
    if types[first:] == ["i64", pair, "i1"]:
        origin, row, flag = f"%a{first + 1}", f"%a{first}", f"%a{first + 2}"
        x, y = (thunk.new(f"extractelement {pair} {origin}, i32 {i}") for i in range(2))
        # A transposed load swaps rows and columns within the block, but not its origin.
        start = thunk.new(f"mul i64 {y}, {row}")
        start = thunk.new(f"add i64 {start}, {x}")
        column = thunk.new(f"select i1 {flag}, i64 {row}, i64 1")
        row = thunk.new(f"select i1 {flag}, i64 1, i64 {row}")
        return [("i64", start), ("i64", column), ("i64", row)]
    if types[first:] == [pair, pair, pair]:
        x, y = (thunk.new(f"extractelement {pair} %a{first + 2}, i32 {i}") for i in range(2))
        column, row = (thunk.new(f"extractelement {pair} %a{first + 1}, i32 {i}") for i in range(2))
        start = thunk.new(f"mul i64 {x}, {column}")
        rest = thunk.new(f"mul i64 {y}, {row}")
        start = thunk.new(f"add i64 {start}, {rest}")
        return [("i64", start), ("i64", column), ("i64", row)]
    raise AirError(f"intrinsic {thunk.name} with parameters {', '.join(types)}")
