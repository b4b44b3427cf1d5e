"""Metal 4 tensor operations: Metal Shading Language Specification 4, section 7.2."""

from .parameters import parameters
from .rules import rule

FOUR_BITS = {"int4b_format", "uint4b_format"}
PACKED_FORMATS = ("int2b_format", "uint2b_format", "metal_fp8_e4m3_format", "metal_fp8_e5m2_format",
                  "metal_fp8_ue8m0_format", "metal_fp4_e2m1_format")


@rule
def packed_formats(unit):
    """Metal 4.1's packed element types: their first use stands for all, and for the errors that follow from it."""
    for name in PACKED_FORMATS:
        for i, _ in unit.find(name):
            yield i, (f"'{name}' is not supported: it is not in Metal 4.0. Unpack the elements to char or half in "
                      "threadgroup memory")
            return


@rule
def four_bit_parameters(unit):
    """In Metal, a kernel parameter can be a tensor of 4-bit elements. mpsx would have to bind a torch tensor to it, but
    PyTorch has no packed type."""
    for f, p in parameters(unit):
        arguments = unit.tensor_types.arguments(p.base.split()) or [[]]
        if FOUR_BITS.intersection(arguments[0]):
            yield p.begin, (f"parameter '{p.label}' of kernel '{unit.name(f)}': a tensor with elements of 4 bits "
                            "cannot be bound to a buffer; pass a device uchar* and create a tensor_inline from it")


@rule
def fresh_destination(unit):
    """7.2.1: multiply_accumulate adds to its destination, but no document says what a new cooperative tensor
    contains."""
    texts = unit.src.texts
    for f in unit.tree.definitions:
        begin, end = f.body_range
        accumulating = accumulating_operations(unit, begin, end)
        for i in unit.index.get("get_destination_cooperative_tensor", ()) if accumulating else ():
            if begin <= i < end:
                name = declared_name(texts, i)
                at = next((k for k in unit.index.get(name, ()) if i < k < end), None)
                call = at and destination_of(unit.src, at)
                if call and texts[call - 2] in accumulating:
                    yield at, (f"multiply_accumulate adds to '{name}', which nothing has set: Metal does not document "
                               "that a new cooperative tensor is zero (section 7.2.1)"), "warning"  # fmt: skip


def accumulating_operations(unit, begin, end):
    """Return the names of a function's operations whose descriptors specify multiply_accumulate."""
    src, found = unit.src, set()
    for i, _ in unit.find("matmul2d", "convolution2d", within=(begin, end)):
        if src.texts[i + 1] != "<":
            continue
        close = src.angle_end(i + 1)
        first, last = src.split(i + 2, close)[0]
        words = src.texts[first:last]
        if len(words) == 1:  # a variable
            before = [k for k in unit.index[words[0]] if k < i and src.texts[k + 1] in ("=", "(", "{")]
            declared = before[-1] if before else first
            words = src.texts[declared : src.texts.index(";", declared)]
        if "multiply_accumulate" in words:
            found.add(src.texts[close + 1])
    return found


def declared_name(texts, i):
    """Return the variable `name` in `auto name = op.get…<…>()`. Token i is the name of the function `get…`."""
    while i > 0 and texts[i] not in ("=", ";", "{", "}"):
        i -= 1
    return texts[i - 1] if texts[i] == "=" else None


def destination_of(src, i):
    """Return the token `run` of `operation.run(left, right, destination)` if token i is the whole destination
    argument."""
    texts = src.texts
    if texts[i - 1] != "," or texts[i + 1] != ")":
        return None
    call = src.match[i + 1] - 1
    return call if texts[call] == "run" and texts[call - 1] == "." else None
