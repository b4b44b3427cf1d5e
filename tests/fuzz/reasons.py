"""Differences that are intended or caused by PyTorch bugs: (operator, kind, text, reason).

The first three are regular expressions. Each run prints how often each reason applied.
"""

from __future__ import annotations

import re

INTEGERS = r"torch\.u?int\d+"

REASONS: list[tuple[str, str, str, str]] = [
    (r"", "out", "", "with out=, the CPU writes a result that differs from the one it returns without out="),
    (r"\bcosh", "values", INTEGERS + ".*difference: (inf|nan)", "the CPU's cosh of integers overflows one step early"),
    (r"median", "values", r"as_strided\(\(.*?\), \(([^)]*, )?0\b", "the CPU's median of expanded rows is wrong"),
    (
        r"interpolate|upsample",
        "values",
        r"(?=.*(antialias=True|_aa)).*(view|as_strided)\(\(?\d+, \d+, \d+, 1\)",
        "the CPU's antialiasing with width 1 is wrong",
    ),
    (
        r"interpolate|upsample",
        "values",
        r"(?=.*linear).*(INF|NAN).*difference: nan",
        "infinity times a weight that is zero or a rounding error",
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
        "the CPU returns a wrong index if the maximum is -inf",
    ),
    (
        r"max_pool",
        "values",
        r"padding=[1-9].*dilation=[2-9].*-> grad",
        "for a window of only padding, the CPU adds the gradient to a different plane",
    ),
    (r"(var|std)_mean", "values", "INF.*difference: nan", "the CPU's mean of infinite elements is NaN"),
    (
        r"(var|std)_mean",
        "values",
        r"(\d{4}\.\d|up to \de\+0\d).*difference: 0\.00",
        "a mean near zero is exact only to the rounding error of its elements",
    ),
    (
        r"linear_cross_entropy",
        "values",
        r"torch\.b?float16.*acc_dtype=None",
        "PyTorch computes in float32 only on the CPU and on CUDA",
    ),
    (
        r"gcd|lcm",
        "values",
        "-128|-32768|-2147483648|-9223372036854775808",
        "the CPU's gcd of the smallest integer is negative",
    ),
    (r"unique", "values", "NAN.*return_inverse=True", "the order of equal NaNs is unspecified"),
    (
        r"zeta",
        "values",
        "(INF|9223372036854775807).*difference: (inf|nan)",
        "the CPU's zeta of an infinite order is always NaN or infinite",
    ),
    (r"polygamma", "values", "INF.*difference: nan", "the CPU's polygamma of infinity is NaN; the limit is 0"),
    (
        r"linspace",
        "values",
        INTEGERS + ".*difference: 1 ",
        "the CPU multiplies a rounded step, mpsx divides exactly",
    ),
    (
        r"grid_sample",
        "values",
        r"b1 = [^;]*(NAN|INF)|(NAN|INF).*difference: (nan|inf)",
        "the CPU's kernels disagree on coordinates that are NaN or infinite",
    ),
    (
        r"(group|batch|instance)_norm",
        "values",
        r"(INF|e\+\d).*difference: nan",
        "the CPU's x * scale + shift evaluates to inf - inf",
    ),
    (
        r"conv\d|conv_transpose|convolution",
        "values",
        "(INF|NAN).*difference: nan",
        "the CPU's slow convolution multiplies padding by infinite weights",
    ),
    (
        r"conv(_transpose)?3d",
        "strides",
        r"\b1, [\d, ]+\) instead of \([\d, ]*\b1\) of",
        "the CPU's memory format depends on the library it chooses for these sizes",
    ),
    (
        r"\b(cum)?prod\b",
        "values",
        r"(INF|NAN|e[+-]\d).*difference: (inf|nan)",
        "products overflow depending on their order; the CPU's cumprod uses float64",
    ),
    (r"bessel_k", "values", r"e-45.*difference: inf", "half the smallest float is 0, whose logarithm is infinite"),
    (r"ldexp", "strides", r"b?float16", "the CPU's 16-bit powers of two have the strides of the exponents"),
    (
        r"\bmul\b",
        "values",
        r"e-(39|45).*view\(\(\)\).*difference: nan",
        "the CPU does not round a 0-dim operand to 16 bits",
    ),
    (r"\bcov", "values", r"aweights=b.* -> grad", "the gradient is a difference of equal terms"),
    (
        r"softmax|softmin|cumsum|cumprod",
        "rejects",
        r"(tensor\(\[\]|\(\(\)).*(expected a floating|to the desired output type Bool)",
        "the CPU does not check dtypes of empty or 0-dim tensors",
    ),
    (
        r"index_(add|copy|fill|reduce)|embedding_dense",
        "rejects",
        "out of bounds",
        "indices are checked even if nothing is written",
    ),
    (r"", "rejects", "more than one element of the written-to", "writing to overlapping memory is undefined"),
    (r"", "accepts", "INTERNAL ASSERT", "an internal assertion of the CPU fails"),
    (
        r"shrink|hardtanh|relu6|\b[cs]?elu|hardswish|logit",
        "values",
        "NAN.* -> grad",
        "the CPU's vectorized and scalar loops give different gradients for NaN",
    ),
    (
        r"batch_norm",
        "rejects",
        r"expected running_(mean|var) of type",
        "the CPU accepts statistics of a different dtype only in some layouts",
    ),
    (
        r"group_norm",
        "values",
        r"-> grad.*difference: \d\.\d+e-0[5-9]",
        "the gradient is a small difference of large terms, so their rounding errors dominate",
    ),
    (r"batch_norm", "rejects", "can't be cast", "the CPU casts floats to integers"),
    (r"dropout", "rejects", "a mask of type Bool", "a mask must be bool"),
    (r"polynomial", "values", "NAN.*difference: nan", "the CPU's polynomials of NaN are 0 for some degrees"),
    (r"conv\d|conv_transpose|convolution", "rejects", "a bias of type", "the bias must have the dtype of the weight"),
    (r"cross_entropy", "rejects", "to have the same dtype", "the CPU's backward multiplies matrices of mixed dtypes"),
    (r"ldexp", "values", "9223372036854775808|9223372036854775807", "the CPU reduces exponents modulo 2^32"),
    (r"matmul|mm", "rejects", r"tensor\(\[\].* same dtype", "the CPU does not check dtypes of empty tensors"),
    (
        r"native_batch_norm",
        "values",
        r"(b\d+)\b.*out=.*\b\1\b",
        "an out= tensor that is also a running statistic is written twice",
    ),
    (r"native_batch_norm", "accepts", "TensorAccessor", "the CPU accepts only one-dimensional out= statistics"),
    (r"pool", "values", r"(b\d+)\b.*out=\1\b", "out= overlaps the input"),
    (r"isin", "accepts", "view size is not compatible", "the CPU views a transposed input as one dimension"),
    (r"histc", "accepts", "without overflow", "the CPU's range for equal values starts at -1, which uint8 cannot hold"),
    (r"nansum", "rejects", r"tensor\(\[\].*can't be cast", "the CPU does not check dtypes of empty tensors"),
    (r"lerp", "accepts", "Found dtype", "the CPU accepts an out= of a different dtype only in some layouts"),
    (r"\bmode", "values", "NAN", "NaNs break the CPU's sort comparison"),
    (r"native_batch_norm", "strides", "out=", "the CPU resizes its out= without strides"),
    (
        r"embedding_bag",
        "values",
        "mode='sum'.*include_last_offset",
        "the CPU's sum omits indices beyond the last offset, but its mean counts them",
    ),
    (
        r"embedding_bag",
        "accepts",
        "argument #2 'indices'",
        "the CPU accepts narrow index dtypes, but not together with max_norm",
    ),
    (r"native_batch_norm", "type", "out=", "the CPU leaves the out= statistics unchanged in inference"),
    (
        r"\bfull|fill_|linspace",
        "rejects",
        "c10::Half without overflow",
        "the CPU accepts any value only if there is a single element",
    ),
    (r"group_norm", "accepts", "is_contiguous", "the CPU's kernel accepts only dense rows"),
]


def reason(name: str, kind: str, line: str) -> str | None:
    """Return why a difference is not an mpsx bug, or None if it may be one."""
    for names, kinds, text, why in REASONS:
        if re.search(names, name) and re.fullmatch(kinds, kind) and re.search(text, line):
            return why
    return None
