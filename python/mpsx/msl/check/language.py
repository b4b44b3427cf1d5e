"""C++ features that Metal lacks: Metal Shading Language Specification, section 1.5.4 unless a rule says otherwise.

The specification and this check allow lambdas (since Metal 3.2), recursion in compute functions (since 2.4), and
function pointers (since 2.3). The check also allows `if constexpr`, structured bindings, fold expressions, unions, and
base classes, because published kernels and Metal's own library use them, although 1.5.4 rules out unions and base
classes."""

from ..declarations import FUNCTION, VARIABLE
from .rules import rule

UNSUPPORTED_WORDS = {
    "try": "exception handling",
    "throw": "exception handling",
    "virtual": "virtual functions",
    "dynamic_cast": "the dynamic_cast operator",
    "typeid": "type identification",
    "new": "the new operator",
    "goto": "the goto statement",
    "thread_local": "thread_local storage",
    "register": "register storage",
}


@rule
def unsupported_features(unit):
    """1.5.4: no exceptions, virtual functions, RTTI, new, delete, goto, register, or thread_local."""
    src = unit.src
    for i, t in unit.find(*UNSUPPORTED_WORDS, "delete"):
        before = src.texts[i - 1] if i else ""
        if before == "operator":
            continue
        if t in UNSUPPORTED_WORDS:
            yield i, f"'{t}' is not supported in Metal ({UNSUPPORTED_WORDS[t]}, section 1.5.4)"
        elif t == "delete" and before != "=":
            yield i, "'delete' is not supported in Metal (the delete operator, section 1.5.4)"


@rule
def noexcept_operator(unit):
    """1.5.4: the noexcept operator is not available. Accept the specifier after a parameter list, because published
    kernels use it."""
    for i, _ in unit.find("noexcept"):
        if unit.src.texts[i - 1] in ("(", "=", ",", "!", "&&", "||", "return", "{", "<"):
            yield i, "'noexcept' is not supported in Metal (the noexcept operator, section 1.5.4)"


@rule
def labels(unit):
    """1.5.4: there is no goto, and therefore there are no labels."""
    src = unit.src
    for f in unit.tree.definitions:
        for colon, _ in unit.find(":", within=f.body_range):
            i = colon - 1
            if (
                src.kinds[i] == "word"
                and src.texts[i - 1] in (";", "{", "}")
                and src.texts[i] not in ("default", "public", "private", "protected", "enum", "struct", "class")
            ):
                yield i, "labeled statements are not supported in Metal (section 1.5.4)"


@rule
def assembly(unit):
    """Metal has no inline assembly."""
    for i, _ in unit.find("asm", "__asm__", "__asm"):
        if unit.src.texts[i + 1] in ("(", "volatile"):
            yield i, "'asm' is not supported in Metal"


@rule
def no_double(unit):
    """2.1: Metal has no double, long double or long long. A floating literal without a suffix is a float."""
    src = unit.src
    for i, _ in unit.find("double"):
        name = "long double" if src.texts[i - 1] == "long" else "double"
        yield i - (name != "double"), f"'{name}' is not supported in Metal (section 2.1)"
    for i, _ in unit.find("long"):
        if src.texts[i - 1] == "long":
            yield i - 1, "'long long' is not supported in Metal (section 2.1); 'long' has 64 bits"
    for t in unit.index:
        if t[-1] in "lL" and t[0] in ".0123456789" and ("." in t or "e" in t.lower()) and t[:2].lower() != "0x":
            i = unit.index[t][0]
            yield i, f"'{t}': 'long double' is not supported in Metal (section 2.1)"


@rule
def standard_library(unit):
    """1.5.4: the C++ standard library is not available. Metal has its own library."""
    src = unit.src
    for i, _ in unit.find("std"):
        if src.texts[i + 1 : i + 2] == ["::"]:
            yield i, (f"'std::{src.texts[i + 2]}': the C++ standard library is not available in Metal (section 1.5.4); "
                      "its own is in namespace metal, <metal_stdlib>")
        elif i > 1 and src.texts[i - 1] == "namespace" and src.texts[i - 2] == "using":
            yield i, "namespace 'std' is not available in Metal (section 1.5.4)"


@rule
def function_named_main(unit):
    """1.5.4: a function cannot be named main."""
    for f in unit.tree.functions:
        if unit.name(f) == "main" and not f.in_class and not any(f.scope):
            yield f.name, "a function cannot be called 'main' in Metal (section 1.5.4)"


@rule
def static_locals(unit):
    """4: static variables are in the constant address space. Apple's compiler rejects static local variables unless
    they are constexpr or constant."""
    src = unit.src
    for f in unit.tree.definitions:
        for d in unit.tree.locals(f):
            words = src.texts[d.start : d.name]
            if d.kind in (VARIABLE, FUNCTION) and "static" in words and not {"constexpr", "constant"} & set(words):
                i = d.start + words.index("static")
                yield i, "variables in function scope cannot be declared static (section 4)"
