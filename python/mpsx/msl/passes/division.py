"""Make integer divisions safe from traps.

`a / b` becomes `a / safe / b`, and `a /= b` becomes `a /= safe = b`. `%` is handled in the same way. The operators of
`safe` (src/metal_stdlib/division.h) guard integer divisions and leave other divisions unchanged."""

import re

OPERATORS = {"/", "%", "/=", "%="}
ZERO = re.compile(r"(?:0[xXbB]?)?0*[uUlL]*$")


def guard_divisions(src, done):
    """Edit `src` in place. Skip the tokens `done`, which are already replaced."""
    for i, t in enumerate(src.texts):
        if t not in OPERATORS or i in done or src.texts[i - 1] == "operator":
            continue
        assigns, divisor = t.endswith("="), src.texts[i + 1]
        constant = src.kinds[i + 1] == "number" and not ZERO.match(divisor)
        if constant and (not assigns or src.texts[i + 2] in (";", ",", ")")):
            continue
        src.wrap(i, i + 1, "", " ::mpsx::safe =" if assigns else f" ::mpsx::safe {t}")
