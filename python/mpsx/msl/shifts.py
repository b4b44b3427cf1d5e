"""Take shift amounts modulo the bit width of the promoted left operand, as Metal does.

C++ leaves shifts by the bit width or more undefined. On CPUs, scalar shifts wrap around, but vector shifts yield 0.
Apple's compiler masks each amount (in AIR, `x << y` is `and i32 %y, 31` followed by a shift), so do the same in the
LLVM IR of translated source."""

import re

SHIFT = re.compile(r"^(  %\S+ = (?:shl|lshr|ashr)(?: nuw| nsw| exact)* (i(\d+)|<\d+ x i(\d+)>) \S+, )(%[\w.]+)(.*)$",
                   re.M)  # fmt: skip
VECTOR = re.compile(r"^<(\d+) x (i\d+)>$")


def mask_shifts(text):
    """Return LLVM IR in which each shift by a variable amount masks the amount."""
    count = 0

    def masked(found):
        nonlocal count
        head, kind, scalar, component, amount, rest = found.groups()
        count += 1
        mask = str(int(scalar or component) - 1)
        if vector := VECTOR.match(kind):
            mask = "<" + ", ".join([f"{vector[2]} {mask}"] * int(vector[1])) + ">"
        return f"  %mpsx.shift.{count} = and {kind} {amount}, {mask}{rest}\n{head}%mpsx.shift.{count}{rest}"

    return SHIFT.sub(masked, text)
