"""Rewrite compiler errors about translated C++ in Metal's terms: with the user's file, line, and column, with Metal's
type names, and without the surrounding C++."""

import os
import re

from .diagnostic import Diagnostic, SourceMap

# Flags that make the output of g++ and clang easy to parse.
FLAGS = ["-fdiagnostics-color=never", "-fno-diagnostics-show-caret", "-fno-elide-type"]
CLANG_FLAGS = ["-fno-color-diagnostics", "-fno-caret-diagnostics", "-fno-elide-type", "-ferror-limit=20"]
LINE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+):\s+(?P<kind>error|fatal error|note|warning|"
    r"required from here|required from|recursively required from|in .constexpr. expansion of)\b:?\s*"
    r"(?P<text>.*)$"
)
VECTOR = re.compile(r"\b(?:packed_)?vec<(?:const )?(\w+)(?: int)?, ?(\d)>")
SWIZZLE = re.compile(r"\bmpsx_swizzle<(\w+), ?\d((?:, ?\d)+)>")
UNSIGNED = {"unsigned int": "uint", "unsigned short": "ushort", "unsigned char": "uchar", "unsigned long": "ulong"}
HANDLES = r"(?:texture|depth)\w+|sampler|imageblock|\w*acceleration_structure|\w+_function_table|command_buffer"
NOT_SUPPORTED = r"'\1' is not supported: kernels take buffers, threadgroup memory and positions"
NO_CONVERSION = r"cannot convert '\1' to '\2' implicitly"
NOT_SCALAR = r"a condition must be a scalar: got '\1'; use any() or all()"
REWORDED = [(re.compile(pattern), text) for pattern, text in [
    (rf"^(?:no template named|unknown type name|use of undeclared identifier) '({HANDLES})'.*$", NOT_SUPPORTED),
    (rf"^'({HANDLES})' (?:was not declared in this scope|does not name a type).*$", NOT_SUPPORTED),
    (r"^member '(half|bfloat) .*?(\w+)' with constructor not allowed in anonymous aggregate$",
     r"g++ does not support '\1 \2' in an anonymous struct; clang does: pip install ziglang"),
    (r"^static assertion failed(?: due to requirement '.*?')?(?:: )?\"?(.*?)\"?$", r"\1"),
    (r"^static_assert failed(?: due to requirement '.*?')? ?\"?(.*?)\"?$", r"\1"),
    (r"^no viable conversion from '(.*)' to '(.*)'$", NO_CONVERSION),
    (r"^conversion from '(.*)' to non-scalar type '(.*)' requested$", NO_CONVERSION),
    (r"^value of type '(.*)' is not contextually convertible to 'bool'$", NOT_SCALAR),
    (r"^could not convert .* from '(bool\d)' to 'bool'$", NOT_SCALAR),
]]


def metal_terms(text):
    """Return `text` with C++ types and names replaced by Metal's."""
    text = re.sub(r"[‘’]", "'", text)
    text = re.sub(r"\bmetal::k_\w+::", "", text)
    text = (
        text.replace("(anonymous namespace)::", "")
        .replace("{anonymous}::", "")
        .replace("<unnamed>::", "")
        .replace("metal::", "")
    )
    for long, short in UNSIGNED.items():
        text = text.replace(long, short)
    text = re.sub(r"vec<bool, mpsx_vector<\w+>::size>", "bool vector", text)
    text = SWIZZLE.sub(lambda m: f"{m[1]}{m[2].count(',')}" if m[2].count(",") > 1 else m[1], text)
    text = re.sub(r"\bvec<(\w+), ?[A-Za-z]\w*>", r"\1 vector", VECTOR.sub(r"\1\2", text))
    text = re.sub(r"'mpsx_tg_\d+' [({]aka '([^']+)'[)}]", r"'\1'", text)
    text = re.sub(r"'(\w+)' \(aka '([^']+)'\)", lambda m: f"'{m[2] if len(m[1]) == 1 else m[1]}'", text)
    text = re.sub(r"'([^']*)' \{aka '([^']*)'\}", r"'\1'", text)
    text = re.sub(r"\bmpsx_\w+", "a type of the Metal library", text) if "mpsx_" in text else text
    for pattern, replacement in REWORDED:
        text = pattern.sub(replacement, text)
    return text.strip()


def parse(stderr, files):
    """Return [position, text] for each error. If an error is outside the user's files, its position is the first one in
    a user's file, either in clang's notes after the error or in g++'s context before it."""
    found, required = [], None
    for raw in stderr.split("\n"):
        m = LINE.match(raw)
        if not m:
            if not raw.startswith((" ", "In file")):
                required = None
            continue
        file = m["file"]
        if file not in files:  # clang reports absolute paths for precompiled headers
            file = next((f for f in files if os.path.abspath(f) == file), file)
        position = (file, int(m["line"]), int(m["column"]))
        if m["kind"] in ("error", "fatal error"):
            found.append([position if file in files else required, m["text"]])
            required = None
        elif m["kind"] == "note":
            if found and found[-1][0] is None and file in files:
                found[-1][0] = position
        elif m["kind"] != "warning" and file in files:
            required = position
    return found


def explain(stderr, translated, texts=None):
    """Return the Diagnostics of a failed compilation, or an empty list if nothing in `stderr` is about the user's code.
    `translated` is the compiled C++. `texts` maps names of files that are not on disk to their text."""
    positions = SourceMap(translated, texts)
    files = set(re.findall(r'^#line \d+ "([^"]+)"', translated, re.M))
    files -= {f for f in files if f.startswith("<") and f not in (texts or ())}
    found = []
    for position, text in parse(stderr, files):
        if position is None:
            continue
        file, line, column = position
        d = Diagnostic(file, line, positions.output_column(file, line, column), metal_terms(text))
        if all((d.file, d.line, d.column) != (k.file, k.line, k.column) for k in found):
            found.append(d)
    return found
