"""Features that kernels of this project do not use, because Metal 3.1 has to compile them: the language of macOS 14,
the least that torch's wheels run on. `MTLCompileOptions.languageVersion` and `-std=metal3.1` ask for it. The strict
check (in check/) accepts later Metal, for shaders of others.

Metal 3.1 is C++14 with restrictions (Metal Shading Language Specification, sections 1.5 and 1.5.4); what came later is
listed here with the version that brought it.
"""

from .check import Places, unit_of
from .check.diagnostic import Diagnostic

# Words of the library and the language, and since when they are there.
WORDS = {
    "atomic_thread_fence": "Metal 3.2",
    "coherent": "Metal 3.2",
    "memory_order_acquire": "Metal 3.2",
    "memory_order_release": "Metal 3.2",
    "memory_order_acq_rel": "Metal 3.2",
    "memory_order_seq_cst": "Metal 3.2",
    "thread_scope_device": "Metal 3.2",
    "thread_scope_simdgroup": "Metal 3.2",
    "os_log": "Metal 3.2",
    "os_log_default": "Metal 3.2",
    "os_log_info": "Metal 3.2",
    "os_log_error": "Metal 3.2",
    "tensor_handle": "Metal 4",
    "tensor_inline": "Metal 4",
    "cooperative_tensor": "Metal 4",
    "matmul2d": "Metal 4",
    "consteval": "C++20",
    "constinit": "C++20",
    "concept": "C++20",
    "requires": "C++20",
    "co_await": "C++20",
    "co_return": "C++20",
    "co_yield": "C++20",
    "char8_t": "C++20",
    "fallthrough": "C++17",
    "nodiscard": "C++17",
    "maybe_unused": "C++17",
}
# Tokens that may stand before the `[` of a lambda, and not before that of a subscript.
BEFORE_LAMBDA = {"(", ",", "=", "{", "}", ";", "return", "&&", "||", "?", ":"}

OPERATORS = {"+", "-", "*", "&&", "||", "&", "|", "^", ","}


def constructs(src):
    """(token, what, since) of C++ that is grammar rather than a word."""
    texts = src.texts
    for i, t in enumerate(texts):
        after = texts[i + 1 : i + 3]
        if t == "[" and after[:1] != ["["] and i and texts[i - 1] in BEFORE_LAMBDA:
            close = src.match[i]
            if texts[close + 1] in ("(", "{"):
                yield i, "a lambda", "Metal 3.2"
        elif t == "if" and after[:1] == ["constexpr"]:
            yield i, "'if constexpr'", "C++17"
        elif t == "auto" and (after[:1] == ["["] or (after[:1] in (["&"], ["&&"]) and after[1:] == ["["])):
            yield i, "a structured binding", "C++17"
        elif t == "inline" and "constexpr" in after:
            yield i, "an inline variable" if ";" in texts[i : i + 12] and "(" not in texts[i : i + 6] else "", "C++17"
        elif t == "namespace" and after[1:] == ["::"]:
            yield i, "a nested namespace", "C++17"
        elif t == "<=>":
            yield i, "'<=>'", "C++20"
        elif texts[i : i + 3] == ["."] * 3 and folds(texts[i - 1], texts[i + 3]):
            yield i, "a fold expression", "C++17"
        elif t == "template" and after == ["<", "auto"]:
            yield i, "'template <auto'", "C++17"


def folds(before, after):
    """Whether a `...` between these is a fold: (pack + ...) or (... + pack)."""
    return (after == ")" and before in OPERATORS) or (before == "(" and after in OPERATORS)


def beyond(src):
    """Every use of what Metal 3.1 does not have, as Diagnostics."""
    unit, places, found = unit_of(src), Places(src.text), set()
    uses = [(i, f"'{t}'", WORDS[t]) for i, t in unit.find(*WORDS)]
    uses += [use for use in constructs(src) if use[1]]
    for token, what, since in uses:
        found.add(Diagnostic(*places.of_token(src, token), f"{what} needs {since}; kernels keep to Metal 3.1"))
    return sorted(found)
