"""Differences that are torch's own, or by design: names and kinds, what the line and the detail say (all regular
expressions), and the reason. Each is printed with how often it occurred."""

from __future__ import annotations

import re

INTEGERS = r"torch\.u?int\d+"

REASONS: list[tuple[str, str, str, str]] = [
    (r"", "out", "", "the CPU writes something else into out= than it returns without"),
    (r"\bcosh", "values", INTEGERS + ".*difference: (inf|nan)", "the CPU's cosh of integers overflows one step early"),
    (r"median", "values", r"as_strided\(\(.*?\), \(([^)]*, )?0\b", "the CPU's median of expanded rows is wrong"),
    (
        r"interpolate|upsample",
        "values",
        r"(?=.*(antialias=True|_aa)).*(view|as_strided)\(\(?\d+, \d+, \d+, 1\)",
        "the CPU's antialiasing of width 1 is wrong",
    ),
    (
        r"interpolate|upsample",
        "values",
        r"(?=.*linear).*(INF|NAN).*difference: nan",
        "a weight of 0 or of a rounding error, times infinity",
    ),
    (r"pad", "values", r"-\d.*circular", "the CPU's circular padding by a negative number is wrong"),
    (
        r"native_group_norm",
        "values",
        r"as_strided\(\(\d+,\), \((?!1,)",
        "the CPU reads a strided weight or bias as if it were dense",
    ),
    (
        r"max_pool3d",
        "values",
        r"(INF|padding=[1-9], dilation=[2-9]).*indices=True",
        "the CPU's place of a maximum that is -inf",
    ),
    (
        r"max_pool",
        "values",
        r"padding=[1-9].*dilation=[2-9].*-> grad",
        "the CPU gives the gradient of padding alone to another plane",
    ),
    (r"(var|std)_mean", "values", "INF.*difference: nan", "the CPU's mean of an infinity is NaN there"),
    (
        r"(var|std)_mean",
        "values",
        r"(\d{4}\.\d|up to \de\+0\d).*difference: 0\.00",
        "a mean that cancels out is exact to a rounding of its elements",
    ),
    (
        r"linear_cross_entropy",
        "values",
        r"torch\.b?float16.*acc_dtype=None",
        "torch computes it in float32 on the CPU and on CUDA alone",
    ),
    (
        r"gcd|lcm",
        "values",
        "-128|-32768|-2147483648|-9223372036854775808",
        "the CPU's gcd of the least integer is negative",
    ),
    (r"unique", "values", "NAN.*return_inverse=True", "the order of equal NaNs is nobody's promise"),
    (
        r"zeta",
        "values",
        "(INF|9223372036854775807).*difference: (inf|nan)",
        "the CPU's zeta of an infinite order is NaN or infinite anywhere",
    ),
    (r"polygamma", "values", "INF.*difference: nan", "the CPU's polygamma of infinity is NaN, its limit 0"),
    (
        r"linspace",
        "values",
        INTEGERS + ".*difference: 1 ",
        "the CPU's integers are of a rounded step, ours of exact quotients",
    ),
    (
        r"grid_sample",
        "values",
        r"b1 = [^;]*(NAN|INF)|(NAN|INF).*difference: (nan|inf)",
        "the CPU's kernels disagree on places that are NaN or infinite",
    ),
    (
        r"(group|batch|instance)_norm",
        "values",
        r"(INF|e\+\d).*difference: nan",
        "the CPU's x * scale + shift is inf - inf there",
    ),
    (
        r"conv\d|conv_transpose|convolution",
        "values",
        "(INF|NAN).*difference: nan",
        "the CPU's slow convolution multiplies its padding by infinite weights",
    ),
    (
        r"conv(_transpose)?3d",
        "strides",
        r"\b1, [\d, ]+\) instead of \([\d, ]*\b1\) of",
        "the CPU's memory format is that of the library it takes for these sizes",
    ),
    (
        r"\b(cum)?prod\b",
        "values",
        r"(INF|NAN|e[+-]\d).*difference: (inf|nan)",
        "the order decides which products leave the range of floats; the CPU's cumprod has doubles",
    ),
    (r"bessel_k", "values", r"e-45.*difference: inf", "half of the least float is 0, whose logarithm is infinite"),
    (r"ldexp", "strides", r"b?float16", "the CPU's powers of two in 16 bits lie as the exponents do"),
    (
        r"\bmul\b",
        "values",
        r"e-(39|45).*view\(\(\)\).*difference: nan",
        "the CPU does not round a number of no dimensions to 16 bits",
    ),
    (r"\bcov", "values", r"aweights=b.* -> grad", "a gradient of equal terms that cancel out"),
    (
        r"softmax|softmin|cumsum|cumprod",
        "refuses",
        r"(tensor\(\[\]|\(\(\)).*(expected a floating|to the desired output type Bool)",
        "without elements or dimensions the CPU checks no types",
    ),
    (
        r"index_(add|copy|fill|reduce)|embedding_dense",
        "refuses",
        "out of bounds",
        "indices are checked even if nothing is written",
    ),
    (r"", "refuses", "more than one element of the written-to", "writing to memory that overlaps is undefined"),
    (r"", "accepts", "INTERNAL ASSERT", "an assertion of the CPU's own fails"),
    (
        r"shrink|hardtanh|relu6",
        "values",
        "NAN.* -> grad",
        "the CPU's vectors and its scalars have two gradients of NaN",
    ),
    (
        r"batch_norm",
        "refuses",
        r"expected running_(mean|var) of type",
        "the CPU takes statistics of another type in some layouts alone",
    ),
    (
        r"group_norm",
        "values",
        r"-> grad.*difference: \d\.\d+e-0[5-9]",
        "a gradient of terms that cancel out is exact to a rounding of them",
    ),
    (r"batch_norm", "refuses", "can't be cast", "the CPU casts floats into integers there"),
    (r"dropout", "refuses", "a mask of type Bool", "a mask is of bools"),
    (r"polynomial", "values", "NAN.*difference: nan", "the CPU's polynomials of NaN are 0 for some degrees"),
    (r"conv\d|conv_transpose|convolution", "refuses", "a bias of type", "a bias has the type of the weights"),
    (r"cross_entropy", "refuses", "to have the same dtype", "the CPU multiplies matrices of two types in a backward"),
    (r"ldexp", "values", "9223372036854775808|9223372036854775807", "the CPU takes exponents modulo 2^32"),
    (r"matmul|mm", "refuses", r"tensor\(\[\].* same dtype", "without elements the CPU checks no types"),
    (
        r"native_batch_norm",
        "values",
        r"(b\d+)\b.*out=.*\b\1\b",
        "an out= that is a running statistic too is written twice",
    ),
    (r"native_batch_norm", "accepts", "TensorAccessor", "the CPU takes statistics in out= of one dimension alone"),
    (r"pool", "values", r"(b\d+)\b.*out=\1\b", "windows that are read while they are written"),
    (r"isin", "accepts", "view size is not compatible", "the CPU views a transposed input as one dimension"),
    (r"histc", "accepts", "without overflow", "the CPU's range of equal numbers begins at -1, which uint8 has not"),
    (r"nansum", "refuses", r"tensor\(\[\].*can't be cast", "without elements the CPU checks no types"),
    (r"lerp", "accepts", "Found dtype", "the CPU takes an out= of another type, but not in every layout"),
    (r"\bmode", "values", "NAN", "the CPU sorts by a comparison that NaNs break"),
    (r"native_batch_norm", "strides", "out=", "the CPU resizes its out= without strides"),
    (
        r"embedding_bag",
        "values",
        "mode='sum'.*include_last_offset",
        "the CPU's sum leaves out indices past the last offset, which its mean counts",
    ),
    (
        r"embedding_bag",
        "accepts",
        "argument #2 'indices'",
        "the CPU takes indices of few bits, but not to limit their norms",
    ),
    (r"native_batch_norm", "type", "out=", "the CPU leaves the statistics of inference as they were given"),
    (
        r"\bfull|fill_|linspace",
        "refuses",
        "c10::Half without overflow",
        "the CPU takes any number for a single element alone",
    ),
    (r"group_norm", "accepts", "is_contiguous", "the CPU's kernel takes dense rows alone"),
]


def reason(name: str, kind: str, line: str) -> str | None:
    """Why a difference is none of ours."""
    for names, kinds, text, why in REASONS:
        if re.search(names, name) and re.fullmatch(kinds, kind) and re.search(text, line):
            return why
    return None
