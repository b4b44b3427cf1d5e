"""Names and phrases that this project no longer uses, with replacements. `tools/lint.py vocabulary` rejects them.

Bare words that also have legitimate uses (`line`, `run`, `row`, `dot product`) are not listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prose import passages

# Rejected identifiers and their replacements. Only complete identifiers match. A quoted "adopts_memory" is allowed,
# because it is a public key of mpsx.driver().
IDENTIFIERS = {
    # Matrix multiplication and convolution
    r"k?FewProducts": "kSmallGemmMacs", r"ProductEnd|MatmulFinish": "epilogue", r"TileShare": "BlockLoader",
    r"matmul_join": "split_k_reduce", r"split_of": "choose_split_k", r"wide_a|wide_b": "vectorize_a",
    r"alpha_whole": "alpha_int", r"ConvDivisor": "FastDivmod", r"conv_fold": "col2im", r"kLargeTile": "kTile128",
    # Attention
    r"log_sums": "logsumexp", r"of_value": "grad_v", r"kOfQuery": "kGradQ", r"score_of": "masked_score",
    # Rows and reductions
    r"NoExtra": "NoAux", r"ExpBelow": "ExpSubMax", r"Itself": "Identity", r"kAhead": "kUnroll",
    r"lane_above": "shuffle_down", r"exp_sum": "online_softmax", r"TableLine": "a plain loop",
    r"PackLoop": "VecLoop", r"(?:load|store)_packs?": "load_vec", r"MPSX_(?:GROUP_)?PACKS": "MPSX_VEC_LOOPS",
    r"kHeld(?:Bytes|Values)|elements_held": "kRegisterBytes", r"kMost[A-Z]\w*|kLeast[A-Z]\w*": "kMax…, kMin…",
    # Runtime
    r"(?<!\")adopts_memory": "uses_process_memory", r"cuda_trouble": "cuda_unavailable_reason",
    r"threads_to_fill": "target_resident_threads", r"exit_order": "shutdown", r"mps_name|other_name": "mps_alias",
    r"allocate_near_cpu": "allocate_host_resident", r"spread_gradient": "scatter_grad",
    # Operators and the MSL compiler
    r"deliver": "return_or_copy", r"check_apart": "assert_no_partial_overlap", r"movable": "is_bitwise_copyable",
    r"orders_index": "should_sort_index", r"lay_over": "apply_overlays", r"moved_behind": "lines_to_sink",
}  # fmt: skip

UNITS = (r"(?:element|operator|row|call|lane|thread|column|matrix|type|dtype|process|batch|channel|launch|kernel|file|"
         r"group|threadgroup|step|tensor|pixel)")
# Words that may precede "of which" or "by which" in ordinary English: "each of which", "the amount by which".
BEFORE_WHICH = ("each none all any both some most many several few half neither either one two three first second last "
                "record list amount factor regardless")
# Phrases rejected in comments, docstrings, messages, and Markdown, regardless of case.
PHRASES = {
    # Sentences
    rf"{''.join(f'(?<!{word})' for word in BEFORE_WHICH.split())} (?:of|by|as) which\b": "split the sentence",
    r"\bthere (?:is|are) (?:no|an?|one|some|many|several|few) (?:\w+ ){1,2}(?:that|which)\b": "begin with the subject",
    r"\b(?:is|are|was|were) to be \w+(?:ed|en|t)\b": "must be",
    r"\b(?:is|are|was|were|be) (?:waited for|asked (?:for|of)|dealt with)\b": "use the active voice",
    r"[,;] (?:and |or )?what (?:is|are|has|have)\b": "name it",
    r"\b(?:is|are|be) said\b(?! to)": "is reported",
    r"[.;] (?-i:The same)(?:,| (?:for|after|but|with|as|of)\b)": "say what is the same",
    r"\b(?:whom|wherein|whereof|therein|thereof|lest)\b|\bin vain\b": "use plain English",
    # Rates
    rf"\b(?:an?|one|two|three|four|several|\d+) (?:threads?|packs?|vectors?|launch(?:es)?|barriers?|cop(?:y|ies)|"
    rf"pass(?:es)?|warnings?|bytes?|elements?|lanes?|numbers?|steps?|times?) an? {UNITS}\b": "one … per …",
    rf"\b(?:ms|µs|us|(?:milli|micro)?seconds?) an? {UNITS}\b": "… per …",
    r"\bonce an? (?:operator|kernel|process|call|file|type|step)(?=[.,;:)]|$)": "once per …",
    # Words
    r"\b(?:mend(?:s|ed|ing)?|(?<!connection )refus(?:e|es|ed|al|als|ing))\b": "fix; reject",
    r"\b(?:in|with) the words of\b|\b(?:torch|pytorch|cpu|cuda)'s words\b|\bin (?:its|few|their) (?:own )?words\b":
        "the message of",
    r"\bneighbour\w*": "adjacent, contiguous",
    r"\b(?:lies?|lay|lying) (?!out\b|in [\[(])\w": "starts at, is in",
    r"(?<!in )(?<!takes )(?<!take )\b(?:its|their|each|every) places?\b": "index, offset, slot, position",
    r"\bbeside\b": "next to, with",
    r"\bmatrix products?\b|\bproducts? of (?:matrices|simdgroup_matrix)\b": "matrix multiplication, matmul, GEMM",
    r"\bfrom elsewhere\b|\b(?:somebody|anybody)\b|\bsomeone else's\b|\bother people's\b": "name the owner",
    r"\b(?:in|by) turns\b": "alternately",
    r"\bnothing of (?:it|them|this)\b": "none of it",
}
OPENER = re.compile(r"(?:Of|Those|The same)\b")  # rejected at the beginning of a comment or docstring

# Legitimate uses: (file, pattern that matches the rejected text in its context, reason). An unused entry is an error.
Entry = tuple[str, str, str]
ALLOWED: list[Entry] = [
    ("tests/build/test_vocabulary.py", r"", "examples of rejected text"),
]

_IDENTIFIERS = [(re.compile(rf"\b(?:{pattern})\b"), instead) for pattern, instead in IDENTIFIERS.items()]
_PHRASES = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in PHRASES.items()]
_SOURCE = (".cpp", ".h", ".mm", ".m", ".metal", ".def", ".py", ".pyx", ".cmake")
_EXAMPLE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def _code(name: str, text: str) -> Iterator[tuple[int, str]]:
    if name.endswith(_SOURCE):
        yield 1, text
    elif name.endswith(".md"):
        yield from ((text.count("\n", 0, m.start()) + 1, m[0]) for m in _EXAMPLE.finditer(text))


def _hits(name: str, text: str) -> Iterator[tuple[int, str, re.Match[str], str]]:
    """Yield (line, surrounding text, match, advice) for each rejected text."""
    for first, code in _code(name, text):
        for pattern, instead in _IDENTIFIERS:
            for m in pattern.finditer(code):
                yield first + code.count("\n", 0, m.start()), code[max(0, m.start() - 60) : m.end() + 60], m, instead
    for passage in passages(name, text):
        flat = passage.text.replace("\n", " ")
        found = [(m, instead) for pattern, instead in _PHRASES for m in pattern.finditer(flat)]
        if passage.is_comment and (m := OPENER.match(flat)):
            found.append((m, "begin with the subject or the verb"))
        for m, instead in found:
            line = passage.line + passage.text.count("\n", 0, m.start())
            yield line, flat[max(0, m.start() - 60) : m.end() + 60], m, instead


def findings(name: str, text: str, used: set[Entry] | None = None) -> Iterator[str]:
    """Yield the retired names and phrases in a file as `path:line: message`. Add the ALLOWED entries that apply to
    `used`."""
    allowed = [entry for entry in ALLOWED if entry[0] == name]
    for line, around, m, instead in _hits(name, text):
        entry = next((entry for entry in allowed if re.search(entry[1], around)), None)
        if entry is None:
            yield f"{name}:{line}: {m[0].strip()!r}: {instead}"
        elif used is not None:
            used.add(entry)
