"""Find features that Metal 3.1 lacks. The project's kernels must avoid them, because Metal 3.1 is the language of macOS
14, the oldest version that torch's wheels support. The build selects it with `MTLCompileOptions.languageVersion` and
`-std=metal3.1`. In users' shaders, the strict check (check/) accepts later versions of Metal.

Metal 3.1 is C++14 with restrictions (Metal Shading Language Specification, sections 1.5 and 1.5.4). The tables below
list later features and the version that introduced each of them.
"""

from .check import SourceMap, unit_of
from .check.diagnostic import Diagnostic

# Names and keywords, with the version that introduced each of them.
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
# Tokens that can precede the `[` of a lambda but not the `[` of a subscript.
BEFORE_LAMBDA = {"(", ",", "=", "{", "}", ";", "return", "&&", "||", "?", ":"}

OPERATORS = {"+", "-", "*", "&&", "||", "&", "|", "^", ","}


def constructs(src):
    """Yield (token, name, version) for each use of newer C++ syntax that consists of several tokens."""
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
        elif texts[i : i + 3] == ["."] * 3 and is_fold(texts[i - 1], texts[i + 3]):
            yield i, "a fold expression", "C++17"
        elif t == "template" and after == ["<", "auto"]:
            yield i, "'template <auto'", "C++17"


def is_fold(before, after):
    """Return whether a `...` between these tokens is a fold expression: (pack + ...) or (... + pack)."""
    return (after == ")" and before in OPERATORS) or (before == "(" and after in OPERATORS)


def later_features(src):
    """Return one Diagnostic for each use of a feature that Metal 3.1 lacks."""
    unit, positions, found = unit_of(src), SourceMap(src.text), set()
    uses = [(i, f"'{t}'", WORDS[t]) for i, t in unit.find(*WORDS)]
    uses += [use for use in constructs(src) if use[1]]
    for token, feature, version in uses:
        found.add(Diagnostic(*positions.of_token(src, token), f"{feature} needs {version}; kernels must be Metal 3.1"))
    return sorted(found)
