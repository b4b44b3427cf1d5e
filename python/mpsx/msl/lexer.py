"""The lexer for preprocessed source text."""

import re

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<directive>(?<![^\n])[ \t]*\#[^\n]*)
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<char>'(?:\\.|[^'\\\n])*')
  | (?P<number>\.?\d(?:[eE][+-]|[pP][+-]|[\w.'])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<op>::|->|<<=|>>=|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|.)""",
    re.X | re.S,
)
LINE_MARKER = re.compile(r'^[ \t]*#(?:line)?[ \t]+(\d+)[ \t]+"((?:\\.|[^"\\])*)"[^\n]*', re.M)
CLOSER = {"(": ")", "[": "]", "{": "}"}


def tokens(text):
    """Yield (kind, text, offset) for every token except directives."""
    for m in TOKEN.finditer(text):
        if m.lastgroup not in ("skip", "directive"):
            yield m.lastgroup, m.group(), m.start()
