"""A parser for the types in declarations."""

from dataclasses import dataclass

from ..declarations import ADDRESS_SPACES
from ..parser import attributes

OTHER_SPACES = ("threadgroup_imageblock", "ray_data", "object_data")
SCALARS = set(
    """bool char uchar short ushort int uint long ulong half bfloat float size_t ptrdiff_t int8_t int16_t int32_t
    int64_t uint8_t uint16_t uint32_t uint64_t bfloat16_t unsigned signed void intptr_t uintptr_t""".split()
)
ELEMENTS = "bool char uchar short ushort int uint long ulong half bfloat float".split()
VECTORS = {f"{packed}{e}{n}" for packed in ("", "packed_") for n in (2, 3, 4) for e in ELEMENTS}
MATRICES = {f"{s}{c}x{r}" for s in ("half", "float") for c in (2, 3, 4) for r in (2, 3, 4)}
BUILTIN = SCALARS | VECTORS | MATRICES
QUALIFIERS = set(
    """const volatile static constexpr inline extern restrict __restrict coherent typename struct class union
    enum METAL_FUNC""".split()
)
# Alternative spellings of the types that position attributes may have.
CANONICAL = {
    "unsigned": "uint",
    "unsigned int": "uint",
    "uint32_t": "uint",
    "uint16_t": "ushort",
    "unsigned short": "ushort",
}


@dataclass
class Declarator:
    """The parts of `device const float *x [[buffer(0)]]`."""

    src: object
    begin: int
    end: int
    attributes: list
    base: str  # the type without qualifiers and address spaces
    spaces: list  # (token, word) for each address space of the outermost pointee, or of the object itself
    shape: str  # the outermost of "*", "&", "[" and "(", or ""
    name: int | None  # token of the name
    pointers: list  # tokens of all * and &
    words: tuple

    @property
    def label(self):
        """The name to use in messages."""
        return self.src.texts[self.name] if self.name is not None else "parameter"

    @property
    def type_text(self):
        """The type as written in the source."""
        stop = self.name if self.name is not None else self.end
        return self.src.span(self.begin, stop).replace(" < ", "<").replace(" >", ">")

    @property
    def plain_type(self):
        """The base type without its namespace, in its canonical spelling."""
        base = self.base.replace("metal :: ", "")
        return CANONICAL.get(base, base)


def declarator(src, begin, end):
    found, rest = attributes(src, begin, end)
    stop = next((k for k, i in enumerate(rest) if src.texts[i] == "="), len(rest))
    rest = rest[:stop]
    depth, base, spaces, pointers, name, shape, words = 0, [], [], [], None, "", []
    for k, i in enumerate(rest):
        t = src.texts[i]
        depth += (t in "<([") - (t in ">)]")
        if depth == 0:
            words.append(t)
        if t == "(" and depth == 1 and src.texts[rest[k - 1]] not in ("coherent", "decltype"):
            shape = shape or "("  # a pointer or reference to an array or a function
        if depth == 0 and t in ("*", "&", "&&"):
            pointers.append(i)
            shape = "*" if t == "*" else "&"
        elif t == "[" and depth == 1 and shape == "":
            shape = "["
        elif shape in ("", "*", "&") and t in ADDRESS_SPACES + OTHER_SPACES and depth == 0:
            if not pointers:
                spaces.append((i, t))
            else:  # the address space of the next pointer's pointee
                spaces = [(i, t)]
        elif src.kinds[i] == "word" and depth == 0 and shape != "(":
            name = i
            if not pointers and t not in QUALIFIERS:
                base.append((i, t))
        elif not pointers and shape == "":
            base.append((i, t))
    if base and base[-1][0] == name and len(base) > 1:
        base.pop()
    elif base and base[-1][0] == name:
        name = None
    return Declarator(src, begin, end, found, " ".join(t for _, t in base), spaces, shape, name, pointers, tuple(words))
