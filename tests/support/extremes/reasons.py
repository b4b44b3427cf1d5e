"""Known differences at the limits of the range: (pattern for the output of compare.line(), reason)."""

from __future__ import annotations

import re

NONFINITE = r"at .*: ((-?inf|nan) for |.* for (-?inf|nan) \()"

REASONS: list[tuple[str, str]] = [
    (r", 0 on mpsx only$", "the CPU also differs from float64"),
    (r"^polygamma\d .* of inf;", "the CPU's polygamma of infinity is NaN; the limit is 0"),
    (
        r"^(\S*\.([cs]?elu|hardswish|hardtanh|relu6|(hard|soft)shrink)|elu_alpha|logit_eps) .* output 1 .* of nan;",
        "the CPU's vectorized and scalar loops give different gradients for NaN",
    ),
    (r"^special.zeta", "the CPU's zeta of a huge order is NaN; the limit is 0 or infinity"),
    (r"^igammac? ", "far tails, with an absolute error below the square root of the smallest normal float"),
    (r"^logit .* of -0.0;", "the CPU loses the sign of zero in half precision"),
    (r"^mean c64", "the CPU's division of an infinite complex number makes both parts NaN"),
    (r"^(pow|(cum)?prod0?) c64", "infinite products depend on the order and on the rounding of the angle"),
    (r"^expm1 c64", "C99 Annex G: an infinite exponential on the real axis has the imaginary part 0"),
    (r"^log1p c64 .*: inf for nan", "log1p of infinity is infinite, like its logarithm"),
    (r"^(sin|cos|sinh|cosh) c64 .*inf", "C leaves the sign of an infinite part unspecified at infinity"),
    (r" c64 grad .* output 1 " + NONFINITE, "composite formulas: infinities of opposite signs cancel to NaN"),
    (r"^acos c64 .* of \((-?inf\+nanj)\)", "C99 Annex G does not specify the sign of acos(inf + nan i)"),
    (r"^acosh c64 grad .* output 1 .* of \(.*-0j\);", "the sign of an imaginary zero selects the side of the cut"),
    (r"^softmax .* output 1 .*: nan for -?inf", "infinite gradients cancel to NaN"),
    (r"^cdist .* large .* output [12] .*: 0.0 for nan", "a difference divided by an infinite distance"),
    (r"^special.erfcx torch.float32 output 1 .*: nan for inf \(float64: 0.0\)", "composite formula, as on the CPU"),
    (r"^var0? .* output 1 .*: nan for -?inf", "composite formula: a deviation overflows"),
    (r"^(var|std)_mean .* output 1 .*(inf for nan|inf for -?inf|nan for -?inf)", "the mean of infinite values is NaN"),
    (r"^(sum|nansum|mean|nanmean|prod|norm)\S* .*" + NONFINITE, "where a sum overflows depends on its order"),
    (r"^(var|std|cov|norm)\S* .* output [12] .*" + NONFINITE, "composite formulas: infinities cancel to NaN"),
    (r"^cov ", "a matmul sums in a different order"),
    (r"^(group|layer|batch|instance|rms)_norm .* output [1-9] " + NONFINITE, "terms of a gradient overflow separately"),
    (r"^(native_)?(group|layer)_norm .* output [01] " + NONFINITE, "a sum of deviations overflows before its mean"),
]


def reason(line: str) -> str | None:
    """Return why a difference is acceptable, or None if it is not."""
    return next((why for pattern, why in REASONS if re.search(pattern, line)), None)
