"""Differences at the ends of the range that stay: patterns of a line of judge.line, and why."""

from __future__ import annotations

import re

NONFINITE = r"at .*: (-?inf|nan) for |at .* for (-?inf|nan) \("

REASONS: list[tuple[str, str]] = [
    (r", 0 here alone$", "float64 says something else than the CPU there, too"),
    (r"^polygamma\d .* of inf;", "the CPU's polygamma of infinity is NaN, its limit 0"),
    (r"^special.zeta", "the CPU's zeta of a huge order is NaN, its limit 0 or infinity"),
    (r"^igammac? ", "far tails, whose absolute error is below the least normal float's root"),
    (r"^logit .* of -0.0;", "the CPU's halves lose the sign of zero"),
    (r"^mean c64", "the CPU's division of an infinite complex number makes both parts NaN"),
    (r"^(pow|(cum)?prod0?) c64", "infinite products: the order of products and the angle's rounding decide the parts"),
    (r"^expm1 c64", "C's annex G: on the real axis an infinite exponential has the imaginary part 0"),
    (r"^log1p c64 .*: inf for nan", "log1p of infinity is infinite, as its logarithm is"),
    (r"^(sin|cos|sinh|cosh) c64 .*inf", "C leaves the sign of an infinite part open at an infinity"),
    (r" c64 grad .* output 1 ", "formulas of several operators: infinities of opposite signs meet"),
    (r"^(var|std)_mean .* output 1 .*(inf for nan|inf for -?inf|nan for -?inf)", "its mean of an infinity is NaN"),
    (r"^(sum|nansum|mean|nanmean|prod|norm)\S* .*" + NONFINITE, "the order of a sum decides where it overflows"),
    (r"^(var|std|cov|norm)\S* .* output [12] .*" + NONFINITE, "formulas of several operators: infinities meet"),
    (r"^cov ", "a product of matrices adds up in another order"),
    (r"^(group|layer|batch|instance|rms)_norm .* output [1-9] " + NONFINITE, "a gradient whose terms overflow apart"),
    (r"^(native_)?(group|layer)_norm .* output [01] " + NONFINITE, "a sum of distances that overflows before its mean"),
]


def reason(line: str) -> str | None:
    """Why a difference is in order, if it is."""
    return next((why for pattern, why in REASONS if re.search(pattern, line)), None)
