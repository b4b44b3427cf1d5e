"""Kernels that instantiate MLX's templates, to compare with the metallib in the macOS wheel mlx-metal. Our front end
compiles them from the wheel's headers, under the same names."""

from __future__ import annotations

from dataclasses import dataclass

HEADERS = "mlx/backend/metal/kernels"
TYPES = {"float32": "float", "float16": "half", "bfloat16": "bfloat16_t"}
INTEGERS = {"int32": "int32_t", "uint8": "uint8_t", "int64": "int64_t"}


@dataclass(frozen=True)
class Family:
    """Kernels that instantiate templates from the same headers. Each row is (host name, template, template
    arguments)."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, str, str], ...]

    @property
    def source(self) -> str:
        """Metal source that instantiates the kernels."""
        lines = ["#include <metal_stdlib>", "using namespace metal;"]
        lines += [f'#include "{HEADERS}/{header}"' for header in ("utils.h", *self.headers)]
        lines += [f'instantiate_kernel("{name}", {template}, {arguments})' for name, template, arguments in self.rows]
        return "\n".join(lines) + "\n"


def unary() -> Family:
    operations = """Abs ArcCos ArcSin ArcTan Ceil Cos Cosh Exp Expm1 Floor Log Log10 Log1p Log2 Negative Round Rsqrt
        Sigmoid Sign Sin Sinh Sqrt Square Tan Tanh Erf ErfInv""".split()
    rows = [(f"v_{op}{name}{name}", "unary_v", f"{t}, {t}, {op}, 1") for op in operations for name, t in TYPES.items()]
    rows += [(f"v_{op}{name}{name}", "unary_v", f"{t}, {t}, {op}, 1") for op in ("Abs", "Negative", "Square", "Sign")
             for name, t in INTEGERS.items()]  # fmt: skip
    return Family(("unary_ops.h", "unary.h"), tuple(rows))


def binary() -> Family:
    arithmetic = "Add Divide Equal Greater Less Maximum Minimum Multiply Power Remainder Subtract".split()
    tests = ("Equal", "Greater", "Less")
    rows = [(f"{kind}_{op}{name}", f"binary_{kind}", f"{t}, {'bool' if op in tests else t}, {op}{last}")
            for op in arithmetic for name, t in (TYPES | INTEGERS).items()
            for kind, last in (("ss", ""), ("vv", ", 1"))]  # fmt: skip
    rows += [(f"vv_{op}{name}", "binary_vv", f"{t}, {t}, {op}, 1") for op in ("LeftShift", "RightShift", "BitwiseXor")
             for name, t in INTEGERS.items()]  # fmt: skip
    return Family(("binary_ops.h", "binary.h"), tuple(rows))


def scan() -> Family:
    types, rows = TYPES | INTEGERS, []
    for word, op in (("sum", "CumSum"), ("prod", "CumProd"), ("max", "CumMax"), ("min", "CumMin")):
        for name, t in types.items():
            n = 2 if name == "int64" else 4
            for kind, inclusive in (("inclusive", "true"), ("exclusive", "false")):
                rows.append((f"contig_scan_{kind}_{word}_{name}_{name}", "contiguous_scan",
                             f"{t}, {t}, {op}<{t}>, {n}, {inclusive}, false"))  # fmt: skip
    return Family(("scan.h",), tuple(rows))


def reduce() -> Family:
    rows = []
    for word, op in (("sum", "Sum"), ("prod", "Prod"), ("max", "Max"), ("min", "Min")):
        for name, t in (TYPES | {"int32": "int32_t"}).items():
            rows += [
                (f"all_reduce_{word}{name}", "all_reduce", f"{t}, {t}, {op}<{t}>"),
                (f"row_reduce_simple_{word}{name}", "row_reduce_simple", f"{t}, {t}, {op}<{t}>"),
                (f"col_reduce_looped_1_32_32_reduce_{word}{name}", "col_reduce_looped",
                 f"{t}, {t}, {op}<{t}>, int, 1, 32, 32"),
            ]  # fmt: skip
    return Family(("atomic.h", "reduction/ops.h", "reduce.h"), tuple(rows))


def softmax() -> Family:
    rows = [(f"{kind}_softmax_{name}", f"softmax_{template}", t) for name, t in TYPES.items()
            for kind, template in (("block", "single_row"), ("looped", "looped"))]  # fmt: skip
    return Family(("softmax.h",), tuple(rows))


def sort() -> Family:
    rows = [(f"c{'arg' if arg == 'true' else ''}_block_sort_{name}_{'uint32' if arg == 'true' else name}_bn128_tn4",
             "block_sort", f"{t}, {'uint32_t' if arg == 'true' else t}, {arg}, 128, 4")
            for name, t in (TYPES | {"int32": "int32_t"}).items() for arg in ("true", "false")]  # fmt: skip
    return Family(("sort.h",), tuple(rows))


def gemm() -> Family:
    rows = [(f"steel_gemm_fused_{'t' if a else 'n'}{'t' if b else 'n'}_{name}_{name}_bm{m}_bn{n}_bk{k}_wm{w}_wn{v}",
             "gemm", f"{t}, {m}, {n}, {k}, {w}, {v}, {str(a).lower()}, {str(b).lower()}, float")
            for name, t in TYPES.items() for a, b in ((False, False), (False, True))
            for m, n, k, w, v in ((32, 32, 16, 2, 2), (64, 32, 32, 2, 2))]  # fmt: skip
    return Family(("steel/gemm/gemm.h", "steel/gemm/kernels/steel_gemm_fused.h"), tuple(rows))


def attention() -> Family:
    rows = [(f"sdpa_vector_{name}_64_64", "sdpa_vector", f"{t}, 64, 64")
            for name, t in (("float", "float"), ("float16_t", "float16_t"))]  # fmt: skip
    return Family(("sdpa_vector.h",), tuple(rows))


def steel_attention() -> Family:
    """Attention by simdgroup_matrix."""
    rows = []
    for (name, t), d in zip(TYPES.items(), (64, 80, 128), strict=True):
        bk = 16 if d == 128 else 32
        rows += [(f"steel_attention_{name}_bq32_bk{bk}_bd{d}_wm4_wn1_mask{mask}", "attention",
                  f"{t}, 32, {bk}, {d}, 4, 1, {m}, float") for mask, m in ((name, t), ("bool_", "bool"))]  # fmt: skip
    return Family(("steel/attn/kernels/steel_attention.h",), tuple(rows))


def quantized() -> Family:
    """Matrix-matrix and matrix-vector multiplication with weights of 2 to 8 bits, plus quantization and
    dequantization."""
    rows = []
    for k, bits in enumerate((2, 3, 4, 5, 6, 8)):
        t, size = ("float", "float16_t", "bfloat16_t")[k % 3], (32, 64, 128)[k % 3]
        base, arguments = f"{t}_gs_{size}_b_{bits}", f"{t}, {size}, {bits}"
        rows += [(f"{name}_{base}_batch_0", name, f"{arguments}, 0") for name in
                 ("affine_qmv_fast", "affine_qmv", "affine_qvm", "affine_qmm_n")]  # fmt: skip
        rows += [(f"affine_qmm_t_{base}_alN_{aligned}_batch_0", "affine_qmm_t", f"{arguments}, {aligned}, 0")
                 for aligned in ("true", "false")]  # fmt: skip
        rows += [(f"{name}_{base}", name, arguments) for name in ("affine_quantize", "affine_dequantize")]
    return Family(("steel/gemm/gemm.h", "quantized_utils.h", "quantized.h"), tuple(rows))


def fft() -> Family:
    rows = [(f"fft_mem_{memory}_{a}_{b}", "fft", f"{memory}, {a}, {b}") for memory in (256, 512, 1024)
            for a, b in (("float2", "float2"), ("float", "float2"), ("float2", "float"))]  # fmt: skip
    return Family(("fft.h",), tuple(rows))


# fft/readwrite.h, lines 510 to 514: threads store the same element twice, first with another value. Apple's compiler
# merges the stores, so only the kernels compiled from source have a race, which simt reports.
RACY = {"fft_mem_512_float2_float", "fft_mem_1024_float2_float"}

FAMILIES = {f.__name__: f for f in (unary, binary, scan, reduce, softmax, sort, gemm, attention, steel_attention,
                                    quantized, fft)}  # fmt: skip
